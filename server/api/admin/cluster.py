"""Cluster: the nodes that share the log, the owner of each partition, and the lag of each owner and standby."""

import asyncio
from typing import Any

from ....log.log import SharedLog
from ....model.errors import LogError, ValidationError
from ...async_calls import call
from ...auth.rights import Right
from ...cluster.cluster import Cluster
from ...cluster.link import PeerAddress, address_text
from ...cluster.routes import Route
from ...node import Node
from ..operation import admin_operation
from ..reply import Caller

_ALONE = (
    "One process serves this database: there is no cluster. Nodes share a log in Kafka: foldb serve --log."
)


@admin_operation("Cluster", Right.ADMIN)
async def cluster(node: Node, _: dict[str, Any], _caller: Caller) -> dict[str, Any]:
    """Collect the assignment of partitions, the status of each node, and the ends and problems of the log."""
    cluster = node.cluster
    if cluster is None:
        raise ValidationError(_ALONE)
    statuses, ends, problems = await asyncio.gather(
        cluster.ask_nodes(), _ends(node), asyncio.to_thread(_problems, node)
    )
    return {
        "Log": node.settings.log,
        "Address": address_text(cluster.address),
        "Generation": None if cluster.table is None else cluster.table.generation,
        "Nodes": [_node(address, status) for address, status in sorted(statuses.items())],
        "Partitions": [
            _partition(cluster, partition_id, route, ends[partition_id])
            for partition_id, route in enumerate(cluster.table.routes if cluster.table else ())
        ],
        "Problems": problems,
    }


def _node(address: PeerAddress, status: Any) -> dict[str, Any]:
    table = None if status is None else status["table"]
    return {
        "Address": address_text(address),
        "Answers": status is not None,
        "Generation": None if table is None else table[0],
        "Leads": [] if status is None else sorted(status["leading"]),
    }


def _partition(cluster: Cluster, partition_id: int, route: Route, end: int | None) -> dict[str, Any]:
    nodes = {"Owner": route.owner, "Standby": route.standby}
    described: dict[str, Any] = {"Partition": partition_id, "End": end, "Moving": route.moving}
    for role, address in nodes.items():
        folded = None if address is None else cluster.positions_of(address).get(partition_id)
        described[role] = None if address is None else address_text(address)
        described[f"{role}Lag"] = None if folded is None or end is None else max(0, end - folded)
    return described


async def _ends(node: Node) -> list[int | None]:
    """Return the end offset of each partition's log; None where the broker does not answer."""
    log = node.log
    assert isinstance(log, SharedLog)
    ends = await asyncio.gather(*(_end(log, each) for each in range(node.partitions.count)))
    return [None if isinstance(end, LogError) else end for end in ends]


async def _end(log: SharedLog, partition_id: int) -> int | LogError:
    return await call(lambda callback: log.ask_end(partition_id, callback))


def _problems(node: Node) -> list[str]:
    """Return the problems of the topic and of the brokers."""
    problems = getattr(node.log, "problems", list)
    try:
        return list(problems())
    except LogError as error:
        return [str(error)]
