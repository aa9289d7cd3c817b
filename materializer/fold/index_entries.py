"""Index entries of an item, and their updates by a write.

For each item that has the index's key attributes, an index keeps an *entry*: the projected attributes under

    partition key   the index's partition key (of a local index: the table's)
    sort key        part(index sort key) ... part(table partition key) table sort key

The table's key in the sort key makes entries unique where index keys are not, and orders equal index keys the same
way on every refold. An item without the key attributes has no entry: the index is sparse.
"""

from collections.abc import Iterable
from typing import TypeAlias

from ...model import keys
from ...model.capacity import index_write_units
from ...model.lazy_dataclass import dataclass
from ...model.limits import Limits
from ...model.values import Item, dump, item_size
from .state import Index, Table
from .storage import UNKNOWN, Stored

EntryKey: TypeAlias = tuple[bytes, bytes]


@dataclass(slots=True)
class IndexUpdate:
    """The update of one index by a write.

    Attributes:
        index: The index.
        old_key: The key of the entry before the write.
        new_key: The key of the entry after it. Another key than `old_key` has no entry yet.
        entry: The entry to store.
        units: The write units.
        old_entry: The entry at `new_key` before the write; UNKNOWN if that would have to be read or computed.
    """

    index: Index
    old_key: EntryKey | None
    new_key: EntryKey | None
    entry: Stored | None
    units: int
    old_entry: Stored | None

    def __init__(
        self,
        index: Index,
        old_key: EntryKey | None,
        new_key: EntryKey | None,
        entry: Stored | None,
        units: int,
        old_entry: Stored | None,
    ) -> None:
        self.index = index
        self.old_key = old_key
        self.new_key = new_key
        self.entry = entry
        self.units = units
        self.old_entry = old_entry


def entry_key(index: Index, item: Item, pk: bytes, sk: bytes) -> EntryKey | None:
    """Return the key of the entry of `item`, whose table key is (pk, sk); None if it has no entry."""
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
    """Return the entry of an item. With projection ALL it is the item's own bytes, not a copy."""
    if index.kept is None:
        return stored
    projected = {name: item[name] for name in index.kept if name in item}
    return dump(projected), item_size(projected, limits)


def size_with_local_entries(table: Table, item: Item, stored: Stored, limits: Limits) -> int:
    """Return the bytes of an item and of its entries in the table's local indexes."""
    parts = _Parts(item, stored, limits)
    size = stored[1]
    for index in table.indexes.values():
        if index.definition.kind == "LSI" and index.definition.key.sort_part(item) is not None:
            size += parts.size(index)
    return size


def index_updates(
    table: Table,
    pk: bytes,
    sk: bytes,
    old: tuple[Item, Stored] | None,
    new: tuple[Item, Stored] | None,
    limits: Limits,
) -> list[IndexUpdate]:
    """Return the updates of all indexes when the item at (pk, sk) is replaced.

    An index costs no write unit if no projected attribute changes, one to put, change or remove an entry, and two to
    move an entry to another key (Amazon DynamoDB Developer Guide, "Provisioned throughput considerations for global
    secondary indexes").
    """
    updates = []
    before = after = None
    for index in table.indexes.values():
        source = target = None if old is None else entry_key(index, old[0], pk, sk)
        if old is not None and new is not None and _keeps_key(index, old[0], new[0]):
            if not _changes_entry(index, old[0], new[0]):
                continue
        else:
            target = None if new is None else entry_key(index, new[0], pk, sk)
        if source is None and target is None:
            continue
        if index.kept is None:
            old_size = None if old is None or source is None else old[1][1]
            entry = None if new is None or target is None else new[1]
        else:
            before = before or (None if old is None else _Parts(*old, limits))
            after = after or (None if new is None else _Parts(*new, limits))
            old_size = None if before is None or source is None else before.size(index)
            entry = None if after is None or target is None else after.entry(index)
        new_size = None if entry is None else entry[1]
        moved = source != target
        old_entry = None
        if old is not None and not moved:
            old_entry = UNKNOWN if index.kept is not None or index.is_filling else old[1]
        units = index_write_units(old_size, new_size, moved=moved, changed=True)
        updates.append(IndexUpdate(index, source, target, entry, units, old_entry))
    return updates


def _keeps_key(index: Index, old: Item, new: Item) -> bool:
    """Return whether the entries of both items have the same key."""
    for name in index.definition.key.names:  # noqa: SIM110  a generator takes twice the time
        if old.get(name) != new.get(name):
            return False
    return True


def _changes_entry(index: Index, old: Item, new: Item) -> bool:
    """Return whether a projected attribute differs."""
    if index.kept is None:
        return old != new
    return any(old.get(name) != new.get(name) for name in index.kept)


class _Parts:
    """The attributes of an item: each is measured and serialized once, however many indexes project it."""

    __slots__ = ("_item", "_limits", "_sizes", "_stored", "_texts")

    def __init__(self, item: Item, stored: Stored, limits: Limits) -> None:
        self._item = item
        self._stored = stored
        self._limits = limits
        self._sizes: dict[str, int] = {}
        self._texts: dict[str, bytes] = {}

    def size(self, index: Index) -> int:
        """Return the size of the entry, as `entry_of` does."""
        return self._stored[1] if index.kept is None else sum(map(self._size, self._names(index.kept)))

    def entry(self, index: Index) -> Stored:
        """Return the same entry as `entry_of`, byte for byte."""
        if index.kept is None:
            return self._stored
        texts = [self._text(name) for name in sorted(self._names(index.kept))]
        return b"{%b}" % (b",".join(texts),), self.size(index)

    def _names(self, kept: Iterable[str]) -> list[str]:
        return [name for name in kept if name in self._item]

    def _size(self, name: str) -> int:
        size = self._sizes.get(name)
        if size is None:
            size = self._sizes[name] = item_size({name: self._item[name]}, self._limits)
        return size

    def _text(self, name: str) -> bytes:
        text = self._texts.get(name)
        if text is None:
            text = self._texts[name] = dump({name: self._item[name]})[1:-1]
        return text


def apply_index_updates(updates: list[IndexUpdate]) -> None:
    """Store the updates. Cannot fail."""
    for update in updates:
        if update.old_key is not None and update.old_key != update.new_key:
            update.index.store.remove(*update.old_key)
        if update.new_key is not None:
            assert update.entry is not None
            update.index.store.put(*update.new_key, update.entry, update.old_entry)
