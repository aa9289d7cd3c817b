"""Status: where the node stands, for `foldb status` and for whoever looks after it.

What is counted is counted over the partitions within reach; `Unreachable` names the others.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from ....log.commands import Position
from ....log.local import disk_of
from ....materializer.snapshots import newest
from ....model.errors import RequestError, ServiceUnavailableError
from ...clock import refused_ms
from ...routing import joined
from ..reply import Reply

if TYPE_CHECKING:
    from ...node import Node


def status(node: "Node", body: dict[str, Any], reply: Reply) -> None:  # noqa: ARG001  # it takes no parameters
    """Answer what the partitions say of themselves, and what is served."""
    if node.router is None:
        node.partition.status(lambda figures: _answer(node, reply, {"0": figures}))
    else:
        node.partition.status(partial(_answer, node, reply))


def _answer(node: "Node", reply: Reply, figures: dict[str, Any] | RequestError) -> None:
    assert not isinstance(figures, RequestError), "each partition tells its own trouble"
    count = node.partitions.count
    genesis, path = node.log.genesis(0), node.settings.path
    known = {int(number): each for number, each in figures.items() if not isinstance(each, RequestError)}
    if not known:
        reply.error(ServiceUnavailableError())
        return
    position = joined(Position(number, each["position"]) for number, each in known.items())
    snapshots = [] if path is None else newest(path, disk_of(node.log), count)
    answer = {
        "Position": position.text(count),
        "LogTime": max(each["log_time"] for each in known.values()),
        "LogTimeLeadMs": max(node.log_time_lead_ms.values(), default=0),
        "ClockRefusedMs": refused_ms(node.clock),
        "LogId": genesis.log_id.hex(),
        "Level": node.state.level,
        "Limits": node.limits.name,
        "Snapshot": joined(snapshots).text(count) if snapshots else None,
        "Path": None if path is None else str(path.absolute()),
        "Fsync": node.settings.fsync,
        "Tables": len(node.state.tables),
        "MemoryBytes": node.partitions.bytes(),
        "MemoryLimit": node.settings.memory_limit_bytes or None,
        "Damaged": [] if node.scrubbing is None else [each.text for each in node.scrubbing.damage],
        "ScrubbedMs": None if node.scrubbing is None else node.scrubbing.finished_ms or None,
        "Refusing": node.partitions.memory.full,
        "Stopped": any(each["stopped"] for each in known.values()),
        **{name: sum(each[figure] for each in known.values()) for name, figure in _SUMS.items()},
    }
    if node.router is not None:
        answer |= {"Partitions": max(1, count - 1), "Unreachable": sorted({*range(count)} - known.keys())}
    reply.ok(orjson.dumps(answer), position)


_SUMS = {
    "Items": "items",
    "ItemBytes": "item_bytes",
    "Waiting": "waiting",
    "WaitingBytes": "waiting_bytes",
    "Entries": "entries",
    "Commands": "commands",
    "Refolded": "refolded",
}
