"""What an item's indexes hold of it, and what a write changes there.

An index keeps, for each item that has its key attributes, an *entry*: the projected attributes under

    partition key   the index's partition key (of a local index: the table's)
    sort key        part(index sort key) ... part(table partition key) table sort key

The table's key in the sort key makes entries unique where index keys are not, and gives ties an order that
every refold repeats. An item without the key attributes has no entry: the index is sparse.
"""

from dataclasses import dataclass
from typing import TypeAlias

from ...model import keys
from ...model.capacity import index_write_units
from ...model.limits import Limits
from ...model.values import Item, dump, item_size
from .state import Index, Table
from .storage import Stored

Place: TypeAlias = tuple[bytes, bytes]


@dataclass(slots=True)
class Move:
    """One index's part of a write: what leaves, what comes, and the write units that it costs."""

    index: Index
    source: Place | None
    target: Place | None
    stored: Stored | None
    units: int


def entry_place(index: Index, item: Item, pk: bytes, sk: bytes) -> Place | None:
    """Where the entry of `item`, whose table key is (pk, sk), belongs; None if it has none."""
    key = index.definition.key
    sort = key.sort_part(item)
    if sort is None:
        return None
    if index.definition.kind == "LSI":
        return pk, sort + sk
    index_pk = key.pk(item)
    if index_pk is None:
        return None
    return index_pk, sort + keys.part(pk) + sk


def entry_of(index: Index, item: Item, stored: Stored, limits: Limits) -> Stored:
    """What the index keeps of an item. With ALL it is the item's own bytes, not a copy."""
    if index.kept is None:
        return stored
    projected = {name: item[name] for name in index.kept if name in item}
    return dump(projected), item_size(projected, limits)


def size_with_local_entries(table: Table, item: Item, stored: Stored, limits: Limits) -> int:
    """Bytes of an item and of its entries in the table's local indexes."""
    size = stored[1]
    for index in table.indexes.values():
        if index.definition.kind == "LSI" and index.definition.key.sort_part(item) is not None:
            size += entry_of(index, item, stored, limits)[1]
    return size


def moves(
    table: Table,
    pk: bytes,
    sk: bytes,
    old: tuple[Item, Stored] | None,
    new: tuple[Item, Stored] | None,
    limits: Limits,
) -> list[Move]:
    """What replacing the item at (pk, sk) means for each index of the table.

    An index costs no write if nothing that it projects changed, one to put, change or remove an entry, and two
    if the entry's key moved (SPEC S55; Amazon DynamoDB Developer Guide, "Provisioned throughput considerations
    for global secondary indexes").
    """
    changes = []
    for index in table.indexes.values():
        source = target = before = after = None
        if old is not None:
            source = entry_place(index, old[0], pk, sk)
            before = None if source is None else entry_of(index, *old, limits)
        if new is not None:
            target = entry_place(index, new[0], pk, sk)
            after = None if target is None else entry_of(index, *new, limits)
        if source == target and (before is None or after is None or before[0] == after[0]):
            continue
        units = index_write_units(
            None if before is None else before[1],
            None if after is None else after[1],
            moved=source != target,
            changed=True,
        )
        changes.append(Move(index, source, target, after, units))
    return changes


def apply_moves(changes: list[Move]) -> None:
    """Bring the indexes up to date. Cannot fail."""
    for move in changes:
        if move.source is not None and move.source != move.target:
            move.index.store.remove(*move.source)
        if move.target is not None:
            assert move.stored is not None
            move.index.store.put(*move.target, move.stored)
