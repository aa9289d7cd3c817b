"""Status: the position, the counts and the limits of the database, for `foldb status` and for monitoring.

Counts are sums over the partitions that answer; `Unreachable` lists the others.
"""

from functools import partial
from typing import Any

import orjson

from ....log.commands import Position
from ....model.errors import RequestError, ServiceUnavailableError
from ....version import __version__, build
from ...async_calls import call
from ...auth.rights import NODE, Right
from ...clock import refused_ms
from ...node import Node
from ...routing import joined
from ..operation import Answer, admin_operation
from ..reply import Caller

_SUMS = {
    "Items": "items",
    "ItemBytes": "item_bytes",
    "Waiting": "waiting",
    "WaitingBytes": "waiting_bytes",
    "Entries": "entries",
    "Commands": "commands",
    "Refolded": "refolded",
}

_SETTINGS = (
    "throttle",
    "heat",
    "history",
    "history_retention_ms",
    "snapshot_every",
    "read_lag_ms",
    "index_lag_ms",
)
"""The settings that `foldb doctor` judges, in addition to the members above. None is a secret or a path."""


def _camel(name: str) -> str:
    """Return a name in the form of an operation's members.

    >>> _camel("history_retention_ms")
    'HistoryRetentionMs'
    """
    return "".join(word.capitalize() for word in name.split("_"))


@admin_operation("Status", Right.READ, resource=NODE)
async def status(node: Node, _: dict[str, Any], _caller: Caller) -> Answer:
    """Collect the status of the partitions and of this node."""
    statuses = await call(partial(node.partition.status, None))
    assert not isinstance(statuses, RequestError), "each partition reports its own error"
    if node.router is None:
        statuses = {"0": statuses}
    known = {
        int(partition_id): each
        for partition_id, each in statuses.items()
        if not isinstance(each, RequestError)
    }
    if not known:
        raise ServiceUnavailableError
    count = node.partitions.count
    genesis, path = node.log.genesis(0), node.settings.path
    position = joined(Position(partition_id, each["position"]) for partition_id, each in known.items())
    snapshots = node.partitions.newest_snapshots()
    horizon_ms = node.log.horizon_ms
    horizons = [Position(partition_id, node.log.begin(partition_id)) for partition_id in range(count)]
    answer = {
        "Release": __version__,
        "Build": build(),
        "Position": position.text(count),
        "LogTime": max(each["log_time"] for each in known.values()),
        "LogTimeLeadMs": max(node.log_time_lead_ms.values(), default=0),
        "ClockRefusedMs": refused_ms(node.clock),
        "LogId": genesis.log_id.hex(),
        "Level": node.state.level,
        "Limits": node.state.limits.name,
        "Horizon": None if horizon_ms is None else joined(horizons).text(count),
        "HorizonMs": horizon_ms,
        "Snapshot": joined(snapshots).text(count) if snapshots else None,
        "Log": node.settings.log,
        "Path": None if path is None else str(path.absolute()),
        "Fsync": node.settings.fsync,
        "StreamRetentionMs": node.settings.stream_retention_ms,
        "Settings": {_camel(name): getattr(node.settings, name) for name in _SETTINGS},
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
    return Answer(orjson.dumps(answer), position)
