"""The store of items: its interface, and its form in memory.

A store holds the items of one table, or the entries of one index, by (partition key, sort key). `Store` is the
interface that the fold and the reads use; materializer/history/ implements it on versions. In memory:

    slot (4096) ──► partition key ──► a single item, with its sort key if the table has one
                                  └─► Collection, from the second item on

A small collection, as nearly all are, is two plain lists, keys and items: they take a quarter of the memory of a
sorted map and are as fast up to some thousand entries. A large one is split into chunks of such lists, and becomes
two lists again when it has shrunk to half of that size.

A slot is the top bits of the key's hash, so one slot after another, each sorted by hash, is the order of a Scan: no
order of all keys is maintained, and a page costs the same in a table of any size. Two stores with the same items
give the same answers; their history does not matter.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Final, Protocol, TypeAlias, final

from ...model.keys import Slots, key_hash, slot

# An item at rest: its canonical bytes and its size by DynamoDB's rule. A plain tuple, not a NamedTuple, because the
# garbage collector stops tracking only plain tuples of atoms.
Stored: TypeAlias = tuple[bytes, int]

UNKNOWN: Final[Stored] = (b"", -1)
"""Is passed or returned where the item at a key is not known. Compiled code copies it, so it is compared by `==`."""

EncodedKey: TypeAlias = tuple[int, bytes, bytes]  # table id, partition key, sort key

LISTS_UP_TO: Final = 4096
LISTS_AGAIN_AT: Final = LISTS_UP_TO // 2
CHUNK = 1024

HASHES: Final = 1 << 64

# Scans that are under way return to the same slot page after page; this many slots keep their order.
_ORDERS: Final = 64
_KNOWN_SLOTS: Final = 1024  # recent partition keys

# A single item under its partition key: (bytes, size), followed by its sort key if the store has sort keys.
_Alone: TypeAlias = tuple[bytes, int] | tuple[bytes, int, bytes]


class WriteObserver(Protocol):
    """An open view (view.py), as the store sees it."""

    def keep(self, pk: bytes, sk: bytes, old: Stored | None) -> None:
        """Keep the item that a write replaced or removed; None if the write added one."""
        ...


class Store(Protocol):
    """A map from (partition key, sort key) to items. All implementations pass tests/unit/contracts/test_store.py.

    Attributes:
        count: The number of items.
        size: The sum of their sizes.
        views: The open views, which receive each item that a write replaces or removes.
    """

    @property
    def count(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def views(self) -> list[WriteObserver]: ...

    def hash_of(self, pk: bytes) -> int:
        """Return the hash of `pk`, which is its position in the order of a scan."""
        ...

    def slot_of(self, pk: bytes) -> int:
        """Return the slot of `pk`."""
        ...

    def get(self, pk: bytes, sk: bytes) -> Stored | None:
        """Return the item at a key."""
        ...

    def put(self, pk: bytes, sk: bytes, stored: Stored, old: Stored | None = UNKNOWN) -> Stored | None:
        """Store an item; return the item that it replaces.

        `old` is that item, or None if there is none; a caller that does not know it passes UNKNOWN. A store on disk
        spares a read with it.
        """
        ...

    def extend(self, pks: Sequence[bytes], sks: Sequence[bytes], items: Sequence[Stored]) -> None:
        """Store many items that come after all items here, in the order of a scan."""
        ...

    def remove(self, pk: bytes, sk: bytes) -> Stored | None:
        """Remove an item and return it; None if there is none."""
        ...

    def discard(self, count: int) -> None:
        """Free `count` items or a few more, in any order. No other method may be called afterwards."""
        ...

    def collection_size(self, pk: bytes) -> int:
        """Return the sum of the sizes of the items under `pk`."""
        ...

    def range(
        self, pk: bytes, low: bytes = b"", high: bytes | None = None, reverse: bool = False
    ) -> Iterator[tuple[bytes, Stored]]:
        """Return the items under `pk` with low <= sort key < high. The store must not change during the iteration."""
        ...

    def scan(
        self, start: tuple[int, bytes, bytes] | None = None, hash_low: int = 0, hash_high: int = HASHES
    ) -> Iterator[tuple[int, bytes, bytes, Stored]]:
        """Yield the items with hash_low <= hash < hash_high, by hash, partition key and sort key.

        Args:
            start: Begin after this (hash, pk, sk), which need not exist.
            hash_low: The first hash of the segment.
            hash_high: The first hash after it.
        """
        ...


NewStore: TypeAlias = Callable[[int, bool], Store]
"""Makes the store of a table or index, given its id and whether its keys have a sort key."""


class _Chunks:
    """A large sorted map from sort-key bytes to items, in chunks of at most CHUNK items.

    No step takes longer than a chunk, however large the map is. A hash table would be rebuilt as it grows, and
    returned to the system at once when it is freed: both take a tenth of a second at a million items.
    """

    __slots__ = ("_firsts", "_keys", "_values", "count")

    def __init__(self) -> None:
        self._firsts: list[
            bytes
        ] = []  # of each chunk a key that is at most its first key, and above all keys of earlier chunks
        self._keys: list[list[bytes]] = []
        self._values: list[list[Stored]] = []
        self.count = 0

    def get(self, sk: bytes) -> Stored | None:
        nth = self._chunk(sk)
        keys = self._keys[nth]
        index = bisect_left(keys, sk)
        return self._values[nth][index] if index < len(keys) and keys[index] == sk else None

    def put(self, sk: bytes, stored: Stored) -> Stored | None:
        nth = self._chunk(sk)
        keys, values = self._keys[nth], self._values[nth]
        index = bisect_left(keys, sk)
        if index < len(keys) and keys[index] == sk:
            old = values[index]
            values[index] = stored
            return old
        keys.insert(index, sk)
        values.insert(index, stored)
        self.count += 1
        if len(keys) > CHUNK:
            self._split(nth)
        return None

    def extend(self, sks: Sequence[bytes], items: Sequence[Stored]) -> None:
        """Append sorted items that sort after all items here."""
        half = CHUNK // 2
        room = half - len(self._keys[-1]) if self._keys else 0
        if room > 0:
            self._keys[-1].extend(sks[:room])
            self._values[-1].extend(items[:room])
        for start in range(max(0, room), len(sks), half):
            self._firsts.append(sks[start])
            self._keys.append(list(sks[start : start + half]))
            self._values.append(list(items[start : start + half]))
        self.count += len(sks)

    def remove(self, sk: bytes) -> Stored | None:
        nth = self._chunk(sk)
        keys = self._keys[nth]
        index = bisect_left(keys, sk)
        if index == len(keys) or keys[index] != sk:
            return None
        self.count -= 1
        del keys[index]
        old = self._values[nth].pop(index)
        if not keys and len(self._keys) > 1:
            del self._firsts[nth], self._keys[nth], self._values[nth]
        return old

    def discard(self, count: int) -> int:
        """Remove up to `count` items from the end; return their number."""
        before = self.count
        while self._keys and count > 0:
            keys, values = self._keys[-1], self._values[-1]
            self.count -= min(count, len(keys))
            count -= len(keys)
            if count >= 0:
                del self._firsts[-1], self._keys[-1], self._values[-1]
            else:
                del keys[-count:], values[-count:]
        return before - self.count

    def range(self, low: bytes, high: bytes | None, reverse: bool) -> Iterator[tuple[bytes, Stored]]:
        first = self._chunk(low)
        last = len(self._keys) - 1 if high is None else self._chunk(high)
        chunks = range(last, first - 1, -1) if reverse else range(first, last + 1)
        for nth in chunks:
            yield from _part(self._keys[nth], self._values[nth], low, high, reverse)

    def lists(self) -> tuple[list[bytes], list[Stored]]:
        """Return all keys and all items."""
        return list(chain.from_iterable(self._keys)), list(chain.from_iterable(self._values))

    def _chunk(self, sk: bytes) -> int:
        """Return the index of the chunk that `sk` belongs to."""
        return max(0, bisect_right(self._firsts, sk) - 1)

    def _split(self, nth: int) -> None:
        keys, values, half = self._keys[nth], self._values[nth], CHUNK // 2
        self._firsts.insert(nth + 1, keys[half])
        self._keys.insert(nth + 1, keys[half:])
        self._values.insert(nth + 1, values[half:])
        del keys[half:], values[half:]


def _part(
    keys: list[bytes], values: list[Stored], low: bytes, high: bytes | None, reverse: bool
) -> Iterator[tuple[bytes, Stored]]:
    """Return the items of two parallel lists with low <= key < high: copies, so the lists may change afterwards."""
    first = bisect_left(keys, low) if low else 0
    last = len(keys) if high is None else bisect_left(keys, high)
    some_keys, some_values = keys[first:last], values[first:last]
    if reverse:
        some_keys.reverse()
        some_values.reverse()
    return zip(some_keys, some_values, strict=True)


@final
class Collection:
    """A sorted map from sort-key bytes to items. `size` is the sum of the items' sizes."""

    __slots__ = ("_chunks", "_keys", "_values", "size")

    def __init__(self) -> None:
        self._keys: list[bytes] = []
        self._values: list[Stored] = []
        self._chunks: _Chunks | None = None
        self.size = 0

    def __len__(self) -> int:
        return len(self._keys) if self._chunks is None else self._chunks.count

    def get(self, sk: bytes) -> Stored | None:
        """Return the item at `sk`."""
        if self._chunks is not None:
            return self._chunks.get(sk)
        index = bisect_left(self._keys, sk)
        return self._values[index] if index < len(self._keys) and self._keys[index] == sk else None

    def put(self, sk: bytes, stored: Stored) -> Stored | None:
        """Store an item at `sk`; return the item that it replaces."""
        old: Stored | None
        if self._chunks is not None:
            old = self._chunks.put(sk, stored)
            self.size += stored[1] if old is None else stored[1] - old[1]
            return old
        keys = self._keys
        index = bisect_left(keys, sk)
        if index < len(keys) and keys[index] == sk:
            old = self._values[index]
            self._values[index] = stored
            self.size += stored[1] - old[1]
            return old
        keys.insert(index, sk)
        self._values.insert(index, stored)
        self.size += stored[1]
        if len(keys) > LISTS_UP_TO:
            self._become_chunks()
        return None

    def extend(self, sks: Sequence[bytes], items: Sequence[Stored]) -> None:
        """Append many sorted items that sort after all items here."""
        self.size += sum(size for _, size in items)
        if self._chunks is not None:
            self._chunks.extend(sks, items)
            return
        self._keys.extend(sks)
        self._values.extend(items)
        if len(self._keys) > LISTS_UP_TO:
            self._become_chunks()

    def remove(self, sk: bytes) -> Stored | None:
        """Remove the item at `sk` and return it."""
        old = self._remove_from_lists(sk) if self._chunks is None else self._remove_from_chunks(sk)
        if old is not None:
            self.size -= old[1]
        return old

    def range(
        self, low: bytes = b"", high: bytes | None = None, reverse: bool = False
    ) -> Iterator[tuple[bytes, Stored]]:
        """Return the items with low <= sort key < high, from either end. The collection must not change during the
        iteration.
        """
        if self._chunks is not None:
            return self._chunks.range(low, high, reverse)
        return _part(self._keys, self._values, low, high, reverse)

    def discard(self, count: int) -> int:
        """Remove up to `count` items from the end; return their number. `size` is not updated."""
        if self._chunks is not None:
            return self._chunks.discard(count)
        before = len(self._keys)
        del self._keys[-count:], self._values[-count:]
        return before - len(self._keys)

    def _become_chunks(self) -> None:
        self._chunks = _Chunks()
        self._chunks.extend(self._keys, self._values)
        self._keys, self._values = [], []

    def _remove_from_lists(self, sk: bytes) -> Stored | None:
        index = bisect_left(self._keys, sk)
        if index == len(self._keys) or self._keys[index] != sk:
            return None
        del self._keys[index]
        return self._values.pop(index)

    def _remove_from_chunks(self, sk: bytes) -> Stored | None:
        assert self._chunks is not None
        old = self._chunks.remove(sk)
        if self._chunks.count <= LISTS_AGAIN_AT:
            self._keys, self._values = self._chunks.lists()
            self._chunks = None
        return old


class _Slot(dict[bytes, _Alone | Collection]):
    """The contents of one slot, by partition key.

    A subclass of dict, because Python untracks a plain dict of atoms from its cycle collector, and tracks it again
    among the newest objects at the next put: each collection would then walk through whole slots, again and again.
    """

    __slots__ = ()


@final
class MemoryStore:
    """A store in memory."""

    __slots__ = (
        "_has_sort_key",
        "_known_slots",
        "_occupied",
        "_orders",
        "_owner",
        "_slots",
        "_slots_of_keys",
        "count",
        "size",
        "views",
    )

    def __init__(self, owner_id: int, has_sort_key: bool) -> None:
        self._owner = owner_id
        self._has_sort_key = has_sort_key
        self._slots: dict[int, _Slot] = {}
        self._occupied: list[int] = []  # the keys of _slots, sorted
        self._orders: dict[int, list[tuple[int, bytes]]] = {}
        self._slots_of_keys = Slots(owner_id)
        self._known_slots: dict[bytes, int] = {}
        self.count = 0
        self.size = 0
        self.views: list[WriteObserver] = []

    def hash_of(self, pk: bytes) -> int:
        """Return the hash of `pk`, which is its position in the order of a scan."""
        return key_hash(self._owner, pk)

    def slot_of(self, pk: bytes) -> int:
        """Return the slot of `pk`."""
        return self._slot_number(pk)

    def get(self, pk: bytes, sk: bytes) -> Stored | None:
        """Return the item at a key."""
        held = self._held(pk)
        if held is None:
            return None
        if type(held) is Collection:
            return held.get(sk)
        return _alone(held, sk)

    def put(self, pk: bytes, sk: bytes, stored: Stored, old: Stored | None = UNKNOWN) -> Stored | None:
        """Store an item; return the item that it replaces. `old` is not used: it is found on the way."""
        slot_number = self._slot_number(pk)
        contents = self._slots.get(slot_number)
        if contents is None:
            contents = self._slots[slot_number] = _Slot()
            insort(self._occupied, slot_number)
        held = contents.get(pk)
        old = None
        if type(held) is Collection:
            old = held.put(sk, stored)
        elif held is None:
            contents[pk] = (stored[0], stored[1], sk) if self._has_sort_key else stored
            self._orders.pop(slot_number, None)
        else:
            old = _alone(held, sk)
            if old is None:
                contents[pk] = _pair(held, sk, stored)
            else:
                contents[pk] = (stored[0], stored[1], sk) if self._has_sort_key else stored
        if old is None:
            self.count += 1
            self.size += stored[1]
        else:
            self.size += stored[1] - old[1]
        for view in self.views:
            view.keep(pk, sk, old)
        return old

    def extend(self, pks: Sequence[bytes], sks: Sequence[bytes], items: Sequence[Stored]) -> None:
        """Store many items that come after all items here, in the order of a scan.

        In that order a few hashes suffice to find where the slots begin, and a collection needs no searching.
        """
        assert not self.views, "a store that is loaded has no readers yet"
        start = 0
        while start < len(pks):
            slot_number = self._slot_number(pks[start])
            stop = self._end_of_slot(slot_number, pks, start)
            contents = self._slots.get(slot_number)
            if contents is None:
                contents = self._slots[slot_number] = _Slot()
                self._occupied.append(slot_number)
            self._orders.pop(slot_number, None)
            if self._has_sort_key:
                _extend_slot(contents, pks[start:stop], sks[start:stop], items[start:stop])
            else:
                contents.update(zip(pks[start:stop], items[start:stop], strict=True))
            start = stop
        self.count += len(items)
        self.size += sum(size for _, size in items)

    def remove(self, pk: bytes, sk: bytes) -> Stored | None:
        """Remove an item and return it; None if there is none."""
        slot_number = self._slot_number(pk)
        contents = self._slots.get(slot_number)
        held = contents.get(pk) if contents is not None else None
        if contents is None or held is None:
            return None
        if type(held) is Collection:
            old = held.remove(sk)
            if len(held) == 1:
                [(last_sk, last)] = held.range()
                contents[pk] = (*last, last_sk)
        else:
            old = _alone(held, sk)
            if old is not None:
                self._forget(slot_number, contents, pk)
        if old is not None:
            self.count -= 1
            self.size -= old[1]
            for view in self.views:
                view.keep(pk, sk, old)
        return old

    def discard(self, count: int) -> None:
        """Remove `count` items or a few more, in any order. No other method may be called afterwards.

        This frees a deleted table in portions. `size` falls in proportion to `count`.
        """
        assert not self.views, "a view still reads the store"
        goal = max(0, self.count - count)
        before = self.count
        while self.count > goal:
            slot_number = next(reversed(self._slots))
            contents = self._slots[slot_number]
            while contents and self.count > goal:
                pk, held = contents.popitem()
                if type(held) is Collection:
                    self.count -= held.discard(self.count - goal)
                    if len(held):
                        contents[pk] = held
                else:
                    self.count -= 1
            if not contents:
                del self._slots[slot_number]
                self._orders.pop(slot_number, None)
        if not self._slots:
            self._occupied.clear()
        self.size = self.size * self.count // max(1, before)

    def collection_size(self, pk: bytes) -> int:
        """Return the sum of the sizes of the items under `pk`."""
        held = self._held(pk)
        if held is None:
            return 0
        return held.size if type(held) is Collection else held[1]

    def range(
        self, pk: bytes, low: bytes = b"", high: bytes | None = None, reverse: bool = False
    ) -> Iterator[tuple[bytes, Stored]]:
        """Return the items under `pk` with low <= sort key < high. The store must not change during the iteration."""
        held = self._held(pk)
        return iter(()) if held is None else _range(held, low, high, reverse)

    def scan(
        self, start: tuple[int, bytes, bytes] | None = None, hash_low: int = 0, hash_high: int = HASHES
    ) -> Iterator[tuple[int, bytes, bytes, Stored]]:
        """Yield the items with hash_low <= hash < hash_high, by hash, partition key and sort key.

        Args:
            start: Begin after this (hash, pk, sk), which need not exist.
            hash_low: The first hash of the segment.
            hash_high: The first hash after it.
        """
        after = (hash_low, b"") if start is None else max((hash_low, b""), start[:2])
        occupied = self._occupied
        for nth in range(bisect_left(occupied, slot(after[0])), len(occupied)):
            slot_number = occupied[nth]
            order = self._order(slot_number)
            contents = self._slots[slot_number]
            for position in range(bisect_left(order, after), len(order)):
                hashed, pk = order[position]
                if hashed >= hash_high:
                    return
                low = start[2] + b"\0" if start is not None and (hashed, pk) == start[:2] else b""
                for sk, stored in _range(contents[pk], low, None, False):
                    yield hashed, pk, sk, stored

    def _slot_number(self, pk: bytes) -> int:
        """Return the slot of `pk`. Hashing is half the cost of a read or a write, so those of recent keys are kept."""
        known = self._known_slots
        found = known.get(pk)
        if found is None:
            if len(known) >= _KNOWN_SLOTS:
                known.clear()
            found = known[pk] = self._slots_of_keys.of(pk)
        return found

    def _end_of_slot(self, slot_number: int, pks: Sequence[bytes], start: int) -> int:
        """Return the index of the first key in another slot: double the step to pass it, then bisect."""
        slot_of = self._slots_of_keys.of
        step = 1
        while start + step < len(pks) and slot_of(pks[start + step]) == slot_number:
            step *= 2
        low, high = start + step // 2 + 1, min(start + step, len(pks))
        return bisect_right(pks, slot_number, low, high, key=slot_of)

    def _held(self, pk: bytes) -> _Alone | Collection | None:
        contents = self._slots.get(self._slot_number(pk))
        return None if contents is None else contents.get(pk)

    def _forget(self, slot_number: int, contents: _Slot, pk: bytes) -> None:
        del contents[pk]
        self._orders.pop(slot_number, None)
        if not contents:
            del self._slots[slot_number]
            del self._occupied[bisect_right(self._occupied, slot_number) - 1]

    def _order(self, slot_number: int) -> list[tuple[int, bytes]]:
        """Return the slot's partition keys in the order of a scan."""
        order = self._orders.get(slot_number)
        if order is None:
            owner = self._owner
            order = sorted((key_hash(owner, pk), pk) for pk in self._slots[slot_number])
            if len(self._orders) >= _ORDERS:
                del self._orders[next(iter(self._orders))]
            self._orders[slot_number] = order
        return order


def _extend_slot(
    contents: _Slot, pks: Sequence[bytes], sks: Sequence[bytes], items: Sequence[Stored]
) -> None:
    """Append items to a slot of a store with sort keys."""
    start = 0
    while start < len(pks):
        pk = pks[start]
        stop = start + 1
        while stop < len(pks) and pks[stop] == pk:
            stop += 1
        held = contents.get(pk)
        if held is None and stop == start + 1:
            contents[pk] = (*items[start], sks[start])
        else:
            collection = held if type(held) is Collection else Collection()
            if type(held) is tuple:
                collection.put(_sort_key(held), (held[0], held[1]))
            collection.extend(sks[start:stop], items[start:stop])
            contents[pk] = collection
        start = stop


def _sort_key(held: _Alone) -> bytes:
    return held[2] if len(held) == 3 else b""


def _alone(held: _Alone, sk: bytes) -> Stored | None:
    if len(held) == 2:
        return held
    return (held[0], held[1]) if held[2] == sk else None


def _pair(held: _Alone, sk: bytes, stored: Stored) -> Collection:
    collection = Collection()
    collection.put(_sort_key(held), (held[0], held[1]))
    collection.put(sk, stored)
    return collection


def _range(
    held: _Alone | Collection, low: bytes, high: bytes | None, reverse: bool
) -> Iterator[tuple[bytes, Stored]]:
    if type(held) is Collection:
        return held.range(low, high, reverse)
    assert type(held) is tuple
    sk = _sort_key(held)
    within = low <= sk and (high is None or sk < high)
    return iter([(sk, (held[0], held[1]))]) if within else iter(())
