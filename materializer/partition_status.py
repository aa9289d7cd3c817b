"""What a partition says of itself, to `foldb status`, DescribeTable and other nodes: plain data, keys are text.

position             the offset of the last entry that was folded; `log_time` there
waiting              commands that are not folded yet; `waiting_bytes` their size
entries, commands    what this worker has appended and folded; `refolded` what it found
counts               items and bytes, by the id of a table or index
unacknowledged       messages that a receiver has not acknowledged, by its number
stopped              whether it can go no further
"""

from typing import Any

from .worker import Worker


def figures(worker: Worker) -> dict[str, Any]:
    """The figures as they are now."""
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
