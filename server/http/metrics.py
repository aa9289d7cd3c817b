"""GET /metrics: the figures of this node in the text that Prometheus reads.

Nothing is counted for it on the way of a request: all of it is there anyway, and is read when somebody asks.
With keys it takes one that may read everything, by HTTP's Basic scheme, which Prometheus speaks: key id and secret.
They are not hidden in it, so over the network that takes TLS.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from ...materializer.figures import figures
from ..node import Node

if TYPE_CHECKING:
    from prometheus_client import Metric

Samples: TypeAlias = Iterable[tuple[Mapping[str, object], float]]
"""Labels, and the figure that they tell from the others of its name."""


def metrics(node: Node) -> bytes:
    """All figures."""
    from prometheus_client import CollectorRegistry, generate_latest  # as slow to import as foldb itself

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(node))
    return generate_latest(registry)


class _Collector:
    """Reads the figures of a node."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def collect(self) -> Iterator["Metric"]:
        """One metric after another."""
        node = self._node
        yield from _of_partitions(node)
        yield _metric("memory_bytes", "About how much memory items take.", [({}, node.partitions.bytes())])
        if limit := node.settings.memory_bytes:
            yield _metric("memory_limit_bytes", "How much they may take.", [({}, limit)])


# Of what a partition says of itself, as figures.py names it.
_OF_PARTITION = {
    "position": ("log_offset", "The last entry of the log that is folded."),
    "waiting": ("waiting_commands", "Commands that wait for the log."),
    "waiting_bytes": ("waiting_bytes", "Their size."),
    "entries": ("entries_total", "Entries that this process appended."),
    "commands": ("commands_total", "Commands in them."),
    "refolded": ("refolded_commands_total", "Commands of others that this process folded."),
    "items": ("items", "Items of all tables."),
    "item_bytes": ("item_bytes", "Their size."),
    "stopped": ("stopped", "Whether the partition can go no further."),
}


def _of_partitions(node: Node) -> Iterator["Metric"]:
    hosted = node.partitions.hosted
    own = {number: figures(each.worker) for number, each in hosted.items()}
    leading = [({"partition": number}, each.leading) for number, each in hosted.items()]
    yield _metric("leading", "Whether this node acts for the partition.", leading)
    times = [({"partition": number}, each["log_time"] / 1000) for number, each in own.items()]
    yield _metric("log_time_seconds", "Log time, in seconds since 1970.", times)
    for figure, (name, text) in _OF_PARTITION.items():
        yield _metric(name, text, [({"partition": number}, each[figure]) for number, each in own.items()])
    unacknowledged = [
        ({"partition": number, "receiver": receiver}, count)
        for number, each in own.items()
        for receiver, count in each["unacknowledged"].items()
    ]
    yield _metric(
        "unacknowledged_messages", "Told to another partition and not yet folded there.", unacknowledged
    )


def _metric(name: str, text: str, samples: Samples) -> "Metric":
    """A metric of ours; a counter's name ends in `_total`."""
    from prometheus_client import Metric

    metric = Metric(
        f"foldb_{name.removesuffix('_total')}", text, "counter" if name.endswith("_total") else "gauge"
    )
    for labels, value in samples:
        told = {label: str(each) for label, each in labels.items()}
        metric.add_sample(f"foldb_{name}", told, value)
    return metric
