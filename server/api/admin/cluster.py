"""Cluster: the nodes that share the log, who serves what, and how far behind each is."""

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import orjson

from ....log.log import SharedLog
from ....model.errors import InternalServerError, LogError, ValidationError
from ..reply import Reply

if TYPE_CHECKING:
    from ...cluster import Cluster
    from ...cluster.link import Address
    from ...cluster.routes import Route
    from ...node import Node

logger = logging.getLogger(__name__)

_ALONE = (
    "One process serves this database: there is no cluster. Nodes share a log in Kafka: foldb serve --log."
)


def cluster(node: "Node", body: dict[str, Any], reply: Reply) -> None:  # noqa: ARG001  # it takes no parameters
    """Answer what the group decided, what the nodes say and what the broker says."""
    if node.cluster is None:
        raise ValidationError(_ALONE)
    node.cluster.in_background(_answer(node, node.cluster, reply))


async def _answer(node: "Node", cluster: "Cluster", reply: Reply) -> None:
    try:
        said, ends, problems = await asyncio.gather(
            cluster.ask_nodes(), _ends(node), asyncio.to_thread(_problems, node)
        )
        answer = {
            "Log": node.settings.log,
            "Address": _text(cluster.address),
            "Generation": None if cluster.table is None else cluster.table.generation,
            "Nodes": [_node(address, figures) for address, figures in sorted(said.items())],
            "Partitions": [
                _partition(cluster, number, route, ends[number])
                for number, route in enumerate(cluster.table.routes if cluster.table else ())
            ],
            "Problems": problems,
        }
        reply.ok(orjson.dumps(answer))
    except Exception:
        logger.exception("the cluster could not be described")
        reply.error(InternalServerError())


def _node(address: "Address", figures: Any) -> dict[str, Any]:
    table = None if figures is None else figures["table"]
    return {
        "Address": _text(address),
        "Answers": figures is not None,
        "Generation": None if table is None else table[0],
        "Leads": [] if figures is None else sorted(figures["leading"]),
    }


def _partition(cluster: "Cluster", number: int, route: "Route", end: int | None) -> dict[str, Any]:
    nodes = {"Owner": route.owner, "Standby": route.standby}
    described: dict[str, Any] = {"Partition": number, "End": end, "Moving": route.moving}
    for role, address in nodes.items():
        folded = None if address is None else cluster.positions_of(address).get(number)
        described[role] = None if address is None else _text(address)
        described[f"{role}Lag"] = None if folded is None or end is None else max(0, end - folded)
    return described


async def _ends(node: "Node") -> list[int | None]:
    """Where the log ends, partition by partition; None where the broker does not say."""
    assert isinstance(node.log, SharedLog)
    asked: list[asyncio.Future[int | LogError]] = []
    for number in range(node.partitions.count):
        told: asyncio.Future[int | LogError] = node.loop.create_future()
        node.log.ask_end(number, told.set_result)
        asked.append(told)
    ends = await asyncio.gather(*asked)
    return [None if isinstance(end, LogError) else end for end in ends]


def _problems(node: "Node") -> list[str]:
    """What is wrong with the topic, or with the brokers."""
    problems = getattr(node.log, "problems", list)
    try:
        return list(problems())
    except LogError as error:
        return [str(error)]


def _text(address: "Address") -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
