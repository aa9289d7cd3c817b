"""GET /metrics: the figures of this node in the text that Prometheus reads.

Nothing is counted for it on the way of a request: all of it is there anyway, and is read when somebody asks.
With keys it takes one that may read everything, by HTTP's Basic scheme, which Prometheus speaks: key id and secret.
They are not hidden in it, so over the network that takes TLS.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from ...materializer.figures import figures
from ..node import Node

Labels: TypeAlias = Mapping[str, object]


class Family(NamedTuple):
    """Figures of one name; of a counter's the name ends in `_total`, as its readers expect."""

    name: str
    help: str
    samples: Sequence[tuple[Labels, float]]


def metrics(node: Node) -> bytes:
    """All figures."""
    return b"".join(exposition(family) for family in _families(node) if family.samples)


def _families(node: Node) -> Iterator[Family]:
    yield from _of_partitions(node)
    yield Family("foldb_memory_bytes", "About how much memory items take.", [({}, node.partitions.bytes())])
    if limit := node.settings.memory_bytes:
        yield Family("foldb_memory_limit_bytes", "How much they may take.", [({}, limit)])


# Of what a partition says of itself, as figures.py names it.
_OF_PARTITION = {
    "position": ("foldb_log_offset", "The last entry of the log that is folded."),
    "waiting": ("foldb_waiting_commands", "Commands that wait for the log."),
    "waiting_bytes": ("foldb_waiting_bytes", "Their size."),
    "entries": ("foldb_entries_total", "Entries that this process appended."),
    "commands": ("foldb_commands_total", "Commands in them."),
    "refolded": ("foldb_refolded_commands_total", "Commands of others that this process folded."),
    "items": ("foldb_items", "Items of all tables."),
    "item_bytes": ("foldb_item_bytes", "Their size."),
    "stopped": ("foldb_stopped", "Whether the partition can go no further."),
}


def _of_partitions(node: Node) -> Iterator[Family]:
    hosted = node.partitions.hosted
    own = {number: figures(each.worker) for number, each in hosted.items()}
    leading = [({"partition": number}, each.leading) for number, each in hosted.items()]
    yield Family("foldb_leading", "Whether this node acts for the partition.", leading)
    times = [({"partition": number}, each["log_time"] / 1000) for number, each in own.items()]
    yield Family("foldb_log_time_seconds", "Log time, in seconds since 1970.", times)
    for figure, (name, text) in _OF_PARTITION.items():
        yield Family(name, text, [({"partition": number}, each[figure]) for number, each in own.items()])
    unacknowledged = [
        ({"partition": number, "receiver": receiver}, count)
        for number, each in own.items()
        for receiver, count in each["unacknowledged"].items()
    ]
    yield Family(
        "foldb_unacknowledged_messages", "Told to another partition and not yet folded there.", unacknowledged
    )


def exposition(family: Family) -> bytes:
    """A family's lines."""
    kind = "counter" if family.name.endswith("_total") else "gauge"
    lines = [f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {kind}"]
    lines += [f"{family.name}{_labelled(labels)} {value + 0}" for labels, value in family.samples]
    return "".join(f"{line}\n" for line in lines).encode()


def _labelled(labels: Labels) -> str:
    """Labels as they stand behind a name.

    >>> _labelled({"table": 'a"b', "partition": 1})
    '{table="a\\\\"b",partition="1"}'
    """
    if not labels:
        return ""
    return "{" + ",".join(_label(*each) for each in labels.items()) + "}"


def _label(name: str, value: object) -> str:
    text = str(value).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'{name}="{text}"'
