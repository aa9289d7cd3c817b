"""The status of a partition, for `foldb status`, DescribeTable and other nodes: plain data, keys are text.

position             the offset of the last folded entry; `log_time` is its log time waiting              the number
of commands not folded yet; `waiting_bytes` their size entries, commands    numbers appended and folded by this
worker; `refolded` the number of commands folded at its start counts               items and bytes, by the id of a
table or index unacknowledged       the number of messages not acknowledged, by partition id of the receiver stopped
whether the worker has stopped
"""

from typing import Any

from .worker import Worker


def status_of(worker: Worker) -> dict[str, Any]:
    """Return the current status."""
    statistics, state = worker.statistics(), worker.state
    stores = {table.definition.id: table.items for table in state.tables.values()}
    stores |= {
        index.definition.id: index.store
        for table in state.tables.values()
        for index in table.indexes.values()
    }
    return {
        "position": statistics.position.offset,
        "log_time": statistics.log_time,
        "waiting": statistics.waiting,
        "waiting_bytes": statistics.waiting_bytes,
        "entries": statistics.entries,
        "commands": statistics.commands,
        "refolded": statistics.refolded,
        "items": statistics.items,
        "item_bytes": statistics.item_bytes,
        "counts": {str(owner): [store.count, store.size] for owner, store in stores.items()},
        "unacknowledged": {
            str(receiver): len(outbox.unacknowledged) for receiver, outbox in state.outboxes.items()
        },
        "stopped": statistics.stopped,
    }
