"""The versions that a command writes: of items and of index entries, each with its effective time.

    command ──► fold ──► outcome ──► versions ──► Version*      in the order of the writes: the last at a key counts

The *effective time* of a version is the time at which it counts as written: a read of the past at T has, of each key,
the newest version whose effective time is at most T.

    an item                     the fold's log time; of a transaction over partitions the decision's (messages.py)
    an entry of a local index   that of its item, so a past read of the index finds what the table has
    an entry of a global index  the fold's log time in the entry's partition, from one message as from one step

Along a key of an item or a local entry effective time never falls (`messages.effective_time`), and log time never
falls. A global entry of the coordinator's decision would break this: a backfill may enter an item, at its log
time, between the decision of a transaction and the record that applies it here.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...log.commands import Context
from .index_entries import EntryWrite, IndexUpdate
from .outcomes import Applied, Completed, Loaded, MessageFolded, Outcome, Transacted, changes_item
from .state import PartitionState
from .storage import Stored


class Version(NamedTuple):
    """A version of an item or an index entry.

    Attributes:
        store: The id of the table or the index.
        pk: The partition key in the store.
        sk: The sort key in the store.
        stored: The item or entry; None for a tombstone.
        effective_time: In milliseconds of log time.
        context: Who wrote an item; None for an index entry.
    """

    store: int
    pk: bytes
    sk: bytes
    stored: Stored | None
    effective_time: int
    context: Context | None


def versions(state: PartitionState, outcome: Outcome) -> Iterator[Version]:
    """Yield the versions of a command that was just folded: `state` is that after its record.

    An item that a write leaves equal gets no version. A definition that drops a table or an index writes no
    tombstones: it ends the whole store.
    """
    log_time = state.log_time
    match outcome:
        case Applied():
            yield from _applied(state, outcome, log_time)
        case Transacted(actions=actions, replayed=False):
            for action in actions:
                if isinstance(action, Applied):
                    yield from _applied(state, action, log_time)
        case Loaded(applied=applied):
            for each in applied:
                yield from _applied(state, each, log_time)
        case MessageFolded(applied=applied, effective_time=effective_time, entries=entries):
            for each in applied:
                yield from _applied(state, each, effective_time)
            yield from _entries(entries, log_time)
        case Completed(change=change, index_updates=updates, entries=entries):
            if change is not None:
                yield Version(change.table, change.pk, change.sk, None, log_time, change.context)
                yield from _updates(state, updates, log_time)
            yield from _entries(entries, log_time)


def _applied(state: PartitionState, applied: Applied, effective_time: int) -> Iterator[Version]:
    if changes_item(applied.old, applied.new):
        action = applied.action
        yield Version(action.table, action.pk, action.sk, applied.new, effective_time, action.context)
    yield from _updates(state, applied.index_updates, effective_time)


def _updates(state: PartitionState, updates: Sequence[IndexUpdate], effective_time: int) -> Iterator[Version]:
    """Yield the versions of the entries that belong to this partition."""
    for update in updates:
        index = update.index
        is_local = index.definition.kind == "LSI"
        time = effective_time if is_local else state.log_time
        for key, entry in ((update.old_key, None), (update.new_key, update.entry)):
            moved = key is not None and (entry is not None or key != update.new_key)
            if key is not None and moved and (is_local or index.store.slot_of(key[0]) in state.slots):
                yield Version(index.definition.id, *key, entry, time, None)


def _entries(entries: Sequence[EntryWrite], log_time: int) -> Iterator[Version]:
    for index, key, entry in entries:
        yield Version(index.definition.id, *key, entry, log_time, None)
