"""Status: where the node stands, for `foldb status` and for whoever looks after it."""

from typing import TYPE_CHECKING, Any

import orjson

from ...log.local.disk import SystemDisk
from ...materializer.snapshots import Snapshots
from ..memory import bytes_in
from ..reply import Reply

if TYPE_CHECKING:
    from ..node import Node


def status(node: "Node", body: dict[str, Any], reply: Reply) -> None:  # noqa: ARG001  # it takes no parameters
    """Answer what the worker's statistics say, and what is served."""
    statistics = node.worker.statistics()
    genesis = node.state.genesis
    assert genesis is not None, "every log begins with Genesis"
    path = node.settings.path
    snapshots = [] if path is None else Snapshots(path, SystemDisk()).offsets()
    answer = {
        "Position": statistics.position.text(node.partitions),
        "LogTime": statistics.log_time,
        "LogId": genesis.log_id.hex(),
        "Level": node.state.level,
        "Limits": node.limits.name,
        "Snapshot": str(snapshots[0]) if snapshots else None,
        "Path": None if path is None else str(path.absolute()),
        "Fsync": node.settings.fsync,
        "Tables": statistics.tables,
        "Items": statistics.items,
        "ItemBytes": statistics.item_bytes,
        "MemoryBytes": bytes_in(node.state),
        "MemoryLimit": node.settings.memory_bytes or None,
        "Refusing": node.full,
        "Waiting": statistics.waiting,
        "WaitingBytes": statistics.waiting_bytes,
        "Entries": statistics.entries,
        "Commands": statistics.commands,
        "Refolded": statistics.refolded,
        "Stopped": statistics.stopped,
    }
    reply.ok(orjson.dumps(answer), statistics.position)
