"""The heat of tables on all nodes: each node has the sketches of the requests that it received."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from ...model.errors import RequestError
from ...model.slots import CATALOG
from ..cluster.cluster import Cluster
from ..cluster.codec import PlainValue
from ..cluster.link import PeerAddress
from .heat import Heat

CALL_NAME: Final = "heat"


def handle_heat(cluster: Cluster, heat: Heat) -> None:
    """Handle the calls of other nodes for the sketches of this one."""

    async def handle(body: PlainValue) -> PlainValue:
        return [heat.encode(table_id) for table_id in body["tables"]]

    cluster.handle(CALL_NAME, handle)


async def heat_of_nodes(
    cluster: Cluster, table_ids: Sequence[int]
) -> tuple[list[list[dict[str, Any]]], list[PeerAddress]]:
    """Return the encoded sketches of the tables, as each node has them, and the nodes that returned none."""
    nodes = cluster.nodes_of(CATALOG)
    body = {"tables": list(table_ids)}
    results = await asyncio.gather(
        *(cluster.call(node, CALL_NAME, body) for node in nodes), return_exceptions=True
    )
    found: list[list[dict[str, Any]]] = []
    unreachable: list[PeerAddress] = []
    for node, result in zip(nodes, results, strict=True):
        if isinstance(result, RequestError):
            unreachable.append(node)
        elif isinstance(result, BaseException):
            raise result
        else:
            found.append(result)
    return found, unreachable
