"""The metrics of all nodes: each counts the requests that it received."""

import asyncio
from typing import Any, Final

from ...model.slots import CATALOG
from ..cluster.cluster import Cluster
from ..cluster.codec import PlainValue
from .metrics import NodeMetrics
from .minutes import Minute, Series
from .usage import Statistics

CALL_NAME: Final = "metrics"


def handle_metrics(cluster: Cluster, metrics: NodeMetrics) -> None:
    """Handle the calls of other nodes for the metrics of this one."""

    async def handle(body: PlainValue) -> PlainValue:
        return [
            [minute.begin_ms, [[*series, *value] for series, value in minute.values.items()]]
            for minute in metrics.read(body["begin_ms"], body["end_ms"])
        ]

    cluster.handle(CALL_NAME, handle)


async def metrics_of_all(cluster: Cluster, begin_ms: int, end_ms: int) -> list[Minute]:
    """Return the minutes of all nodes, from a time and before another one.

    Raises:
        RequestError: A node is unreachable, so the sums would be too small.
    """
    body = {"begin_ms": begin_ms, "end_ms": end_ms}
    nodes = cluster.nodes_of(CATALOG)
    answers = await asyncio.gather(*(cluster.call(each, CALL_NAME, body) for each in nodes))
    return [_minute(begin, values) for answer in answers for begin, values in answer]


def _minute(begin_ms: int, values: list[list[Any]]) -> Minute:
    dimensions = len(Series._fields)
    return Minute(begin_ms, {Series(*each[:dimensions]): Statistics(*each[dimensions:]) for each in values})
