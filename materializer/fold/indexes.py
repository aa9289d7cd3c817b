"""Global indexes over several partitions.

    write of an item ──► index updates ──► the owner of each entry: here, at once; elsewhere, by an IndexEntry message

    new index:   Backfill, chunk after chunk ──► entries ──► all are sent ──► IndexSent to every partition
                 IndexSent of all partitions received ──► IndexFilled to the catalog

An index is partitioned by its own partition key, as a table is. All messages about one entry key come from the
partition of one item, in the order of its writes: so the last message is right, and a message can be repeated.

An entry may arrive before the definition of its index, because senders apply definitions at different times. The
receiver defers it: ids only rise, so an id above all known ids is of a future index, and an unknown id below is of a
deleted one.
"""

from ...log.commands import Backfill, IndexEntry, IndexFilled, IndexSent
from ...model.index_keys import key_error_of_index
from ...model.limits import Limits
from ...model.slots import CATALOG, data_partitions, partition_of
from ...model.tables import index_filled
from ...model.values import load
from .index_entries import EntryKey, IndexUpdate, apply_index_updates, entry_key, entry_of
from .outbox import send
from .outcomes import Completed, Outcome
from .state import Index, PartitionState, Table
from .storage import Stored


def spread_index_updates(
    state: PartitionState, table: Table, updates: list[IndexUpdate], sequence_number: int
) -> None:
    """Store the updates, each in the partition that owns its key. Cannot fail."""
    for update in updates:
        if update.index.definition.kind == "LSI":
            apply_index_updates([update])
            continue
        if update.old_key is not None and update.old_key != update.new_key:
            _write_entry(state, table, update.index, update.old_key, None, sequence_number)
        if update.new_key is not None:
            _write_entry(state, table, update.index, update.new_key, update.entry, sequence_number)


def fold_index_entry(state: PartitionState, message: IndexEntry) -> None:
    """Fold an IndexEntry. It has no effect if its index does not exist."""
    index = _index(state, message.table, message.index)
    if index is not None:
        stored = None if message.item is None else (message.item, message.size)
        _write_here(index, (message.pk, message.sk), stored)


def fold_index_sent(state: PartitionState, sender: int, message: IndexSent, sequence_number: int) -> None:
    """Fold an IndexSent. After the last one this part of the index is filled: send IndexFilled to the catalog."""
    index = _index(state, message.table, message.index)
    if index is None or sender in index.complete_senders:
        return
    index.complete_senders = sorted([*index.complete_senders, sender])
    if index.complete_senders == list(data_partitions(state.partitions)):
        send(state, CATALOG, IndexFilled(message.table, message.index), sequence_number)


def backfill(state: PartitionState, command: Backfill, sequence_number: int) -> Outcome:
    """Fold a Backfill: enter the next items, or find that all are entered.

    Writes maintain a new index from the start, so an entry may exist already: it is the same one. Items whose
    attributes are no valid index keys are skipped, as DynamoDB does.
    """
    table = state.tables.get(command.table)
    index = _index(state, command.table, command.index)
    if table is None or index is None or not index.is_filling or not state.slots:
        return Completed(progressed=False)
    if _fill(state, table, index, command.count, sequence_number):
        return Completed(progressed=True)
    index.cursor = None
    if state.partitions == 1:
        state.install(index_filled(table.definition, command.index), sequence_number)
        return Completed(progressed=True)
    index.is_sent = True
    end = IndexSent(command.table, command.index)
    for partition in data_partitions(state.partitions):
        if partition != state.partition:
            send(state, partition, end, sequence_number)
    fold_index_sent(state, state.partition, end, sequence_number)
    return Completed(progressed=True)


def _fill(
    state: PartitionState,
    table: Table,
    index: Index,
    count: int,
    sequence_number: int,
) -> bool:
    """Enter up to `count` items after the cursor; return False at the table's end."""
    for digest, pk, sk, stored in table.items.scan(index.cursor):
        if count == 0:
            return True
        count -= 1
        index.cursor = (digest, pk, sk)
        entered = _entry(index, pk, sk, stored, state.limits)
        if entered is not None:
            _write_entry(state, table, index, *entered, sequence_number)
    return False


def _entry(
    index: Index, pk: bytes, sk: bytes, stored: Stored, limits: Limits
) -> tuple[EntryKey, Stored] | None:
    """Return the key and the entry of an item; None if it has no entry."""
    item = load(stored[0])
    key = entry_key(index, item, pk, sk)
    if key is None or key_error_of_index(index.definition, item, limits) is not None:
        return None
    return key, entry_of(index, item, stored, limits)


def _write_entry(
    state: PartitionState,
    table: Table,
    index: Index,
    key: EntryKey,
    stored: Stored | None,
    sequence_number: int,
) -> None:
    """Store or remove the entry at an index key, in the partition that owns the key."""
    slot = index.store.slot_of(key[0])
    if slot in state.slots:
        _write_here(index, key, stored)
        return
    item, size = (None, 0) if stored is None else stored
    entry = IndexEntry(table.definition.id, index.definition.id, *key, item, size)
    send(state, partition_of(slot, state.partitions), entry, sequence_number)


def _write_here(index: Index, key: EntryKey, stored: Stored | None) -> None:
    if stored is None:
        index.store.remove(*key)
    else:
        index.store.put(*key, stored)


def _index(state: PartitionState, table_id: int, index_id: int) -> Index | None:
    table = state.tables.get(table_id)
    if table is None:
        return None
    return next((index for index in table.indexes.values() if index.definition.id == index_id), None)
