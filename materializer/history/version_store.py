"""A store that keeps every version of its items, and shows the newest: the store of the history's own fold.

    put, remove ──► a version in the batch, a change on the timeline      VersionWriter.flush ──► one batch
    get         ──► recent versions, in memory ──► the newest version of the key, in the engine

The writer is the same for all stores of a state. It knows the command that is being folded, which gives each version
its stamp, and writes the versions of whole records only.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from ..fold.storage import HASHES, UNKNOWN, Stored, WriteObserver
from .engine import Batch, Engine
from .past_store import overlaid, walk_back, walk_on
from .timeline import Figures, change_of, put_late_row, put_timeline_row
from .version_keys import NEWEST, StoreKeys, inverse, read_key, read_stamp, stamp

# Newest versions that are kept in memory, in two generations: the older one is dropped when the younger is full.
_GENERATION_BYTES: Final = 32 << 20
_VERSION_BYTES: Final = 250  # of a kept version, in addition to its item
_SIZES_KEPT: Final = 10_000  # item collections whose size is kept


class VersionWriter:
    """Collects the versions of records and writes them in batches.

    Attributes:
        batch: The batch that the next `flush` writes.
        stamp: The stamp of the versions that the current command writes.
        put_version: Adds a version to the batch.
        log_stamp: The stamp of the global index entries that it writes, which have the log time (fold/messages.py).
        is_late: Whether the effective time is below the log time.
        unflushed: The newest versions that are not in the engine yet.
        recent: Newest versions by key, among them all unflushed ones.
        kept_bytes: The approximate bytes of `recent`.
        generation: The number of the generation that `recent` is.
        touched: The stores that the current record wrote to.
    """

    __slots__ = (
        "_cursor",
        "_engine",
        "_inverse_time",
        "_log_time",
        "_older",
        "batch",
        "generation",
        "is_late",
        "kept_bytes",
        "log_stamp",
        "put_version",
        "recent",
        "stamp",
        "touched",
        "unflushed",
    )
    __deletable__ = ("_cursor", "batch", "put_version")  # mypyc: `close` frees them

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._log_time = -1
        self._inverse_time = b""
        self.generation = 0
        self.touched: list[VersionStore] = []
        self.stamp = self.log_stamp = NEWEST
        self.is_late = False
        self.reset()

    def reset(self) -> None:
        """Drop everything that is not written."""
        self._begin_batch()
        self.unflushed: dict[bytes, Stored | None] = {}
        self.recent: dict[bytes, Stored | None] = {}
        self._older: dict[bytes, Stored | None] = {}
        self.kept_bytes = 0
        self._cursor = self._engine.chains()
        self.touched.clear()

    def inherit(self, other: "VersionWriter") -> None:
        """Take the newest versions that a writer of the same items has kept in memory. The other writer has ended."""
        self.recent, self._older, self.kept_bytes = other.recent, other._older, other.kept_bytes
        self.generation = other.generation

    def _begin_batch(self) -> None:
        self.batch: Batch = self._engine.batch()
        self.put_version = self.batch.put_version

    def begin_write(self, log_time: int, packed: int) -> None:
        """Set the command whose versions follow. They count from the log time."""
        if log_time != self._log_time:
            self._log_time = log_time
            self._inverse_time = inverse(log_time)
        self.stamp = self.log_stamp = self._inverse_time + inverse(packed)
        self.is_late = False

    def begin_command(self, log_time: int, effective_time: int, packed: int) -> None:
        """Set the command whose versions follow."""
        self.begin_write(log_time, packed)
        if effective_time < log_time:
            self.stamp = stamp(effective_time, packed)
            self.is_late = True

    def find(self, key: bytes, *, is_kept: bool) -> Stored | None:
        """Return the newest version of a key that is not in `recent`, and keep it there.

        `is_kept` if the versions of all items of its store are in memory.
        """
        found = self._older.get(key, UNKNOWN)
        if found == UNKNOWN:
            at = None if is_kept else self._cursor.seek(key)
            found = self._cursor.value() if at is not None and at.startswith(key) else None
        self.keep(key, found)
        return found

    def keep(self, key: bytes, newest: Stored | None) -> None:
        """Keep the newest version of a key that is not in `recent`."""
        self.recent[key] = newest
        self.kept_bytes += _VERSION_BYTES if newest is None else _VERSION_BYTES + newest[1]

    def end_record(self, offset: int) -> None:
        """Add the timeline's rows of a record."""
        for store in self.touched:
            put_timeline_row(
                self.batch, store.prefix, offset, Figures(store.count, store.size), store.changes
            )
            store.changes.clear()
            for late, growth in store.late.items():
                effective_time, packed = read_stamp(late)
                put_late_row(self.batch, store.id, self._log_time, packed, effective_time, growth)
            store.late.clear()
        self.touched.clear()

    def flush(self) -> None:
        """Write the batch."""
        assert not self.touched, "a batch has whole records"
        self.batch.write()
        self._begin_batch()
        self.unflushed.clear()
        if self.kept_bytes > _GENERATION_BYTES:
            self._older, self.recent, self.kept_bytes = self.recent, {}, 0
            self.generation += 1
        self._cursor = self._engine.chains()

    def close(self) -> None:
        """Free the cursor and the batch: nothing is read or written afterwards."""
        del self._cursor, self.batch, self.put_version


class VersionStore:
    """See the module.

    Attributes:
        id: The id of the table or index.
        count: The number of items.
        size: The sum of their sizes.
        views: The open views.
        changes: The timeline's changes by the current record.
        late: The growth of count and size by the late versions of the current record, by stamp.
        is_global_index: Whether the store has the entries of a global index.
    """

    __slots__ = (
        "_engine",
        "_kept_through",
        "_keys",
        "_sizes",
        "_writer",
        "changes",
        "count",
        "id",
        "is_global_index",
        "late",
        "size",
        "views",
    )

    def __init__(self, engine: Engine, writer: VersionWriter, store_id: int, figures: Figures) -> None:
        self.id = store_id
        self.count, self.size = figures
        self.views: list[WriteObserver] = []
        self.changes: list[bytes] = []
        self.late: dict[bytes, Figures] = {}
        self.is_global_index = False
        self._engine = engine
        self._writer = writer
        self._keys = StoreKeys(store_id)
        # A store that begins empty has all newest versions in memory, through the generation after the present one.
        self._kept_through = -1 if self.count else writer.generation + 1
        self._sizes: dict[bytes, int] = {}

    def inherit(self, other: "VersionStore") -> None:
        """Know which newest versions are in memory, as the same store of the writer that this one's has inherited."""
        self._kept_through = other._kept_through

    @property
    def prefix(self) -> bytes:
        """The first bytes of the store's keys."""
        return self._keys.prefix

    def hash_of(self, pk: bytes) -> int:
        """Return the hash of `pk`, which is its position in the order of a scan."""
        return self._keys.hash_of(pk)

    def slot_of(self, pk: bytes) -> int:
        """Return the slot of `pk`."""
        return self._keys.slot_of(pk)

    def get(self, pk: bytes, sk: bytes) -> Stored | None:
        """Return the item at a key."""
        key = self._keys.key(pk, sk)
        writer = self._writer
        found = writer.recent.get(key, UNKNOWN)
        if found == UNKNOWN:
            found = writer.find(key, is_kept=writer.generation <= self._kept_through)
        return found

    def put(self, pk: bytes, sk: bytes, stored: Stored, old: Stored | None = UNKNOWN) -> Stored | None:
        """Store an item; return the item that it replaces, which is read if it is UNKNOWN.

        An equal item gets no version.
        """
        key = self._keys.key(pk, sk)
        if old == UNKNOWN:
            old = self.get(pk, sk)
        elif key not in self._writer.recent:
            self._writer.keep(key, old)
        if old is None or old[0] != stored[0]:
            self._write(pk, sk, key, old, stored)
        return old

    def remove(self, pk: bytes, sk: bytes) -> Stored | None:
        """Remove an item and return it; None if there is none."""
        old = self.get(pk, sk)
        if old is not None:
            self._write(pk, sk, self._keys.key(pk, sk), old, None)
        return old

    def extend(self, pks: Sequence[bytes], sks: Sequence[bytes], items: Sequence[Stored]) -> None:
        """Store many items."""
        for pk, sk, stored in zip(pks, sks, items, strict=True):
            self.put(pk, sk, stored)

    def discard(self, count: int) -> None:
        """Free nothing: the versions of a deleted table remain readable at earlier cuts."""
        left = max(0, self.count - count)
        self.size = self.size * left // max(1, self.count)
        self.count = left

    def collection_size(self, pk: bytes) -> int:
        """Return the sum of the sizes of the items under `pk`: counted at the first call, then kept up to date."""
        size = self._sizes.get(pk)
        if size is None:
            if len(self._sizes) >= _SIZES_KEPT:
                self._sizes.clear()
            size = self._sizes[pk] = sum(stored[1] for _, stored in self.range(pk))
        return size

    def range(
        self, pk: bytes, low: bytes = b"", high: bytes | None = None, reverse: bool = False
    ) -> Iterator[tuple[bytes, Stored]]:
        """Return the items under `pk` with low <= sort key < high."""
        for key, stored in self._walk(*self._keys.range(pk, low, high), reverse=reverse):
            yield read_key(key)[2], stored

    def scan(
        self, start: tuple[int, bytes, bytes] | None = None, hash_low: int = 0, hash_high: int = HASHES
    ) -> Iterator[tuple[int, bytes, bytes, Stored]]:
        """Yield the items with hash_low <= hash < hash_high, by hash, partition key and sort key."""
        for key, stored in self._walk(*self._keys.hashes(start, hash_low, hash_high), reverse=False):
            yield *read_key(key), stored

    def _write(self, pk: bytes, sk: bytes, key: bytes, old: Stored | None, new: Stored | None) -> None:
        writer, changes = self._writer, self.changes
        if not changes:
            writer.touched.append(self)
        if old is None:
            count_growth, size_growth = 1, 0
        else:
            count_growth, size_growth = 0, -old[1]
        if new is None:
            count_growth -= 1
        else:
            size_growth += new[1]
        version = key + (writer.log_stamp if self.is_global_index else writer.stamp)
        writer.put_version(version, new)
        writer.unflushed[key] = writer.recent[key] = new
        changes.append(change_of(version, count_growth, size_growth))
        self.count += count_growth
        self.size += size_growth
        writer.kept_bytes += size_growth
        if writer.is_late and not self.is_global_index:
            before = self.late.get(writer.stamp, Figures(0, 0))
            self.late[writer.stamp] = Figures(before.items + count_growth, before.size + size_growth)
        if pk in self._sizes:
            self._sizes[pk] += size_growth
        for view in self.views:
            view.keep(pk, sk, old)

    def _walk(self, first: bytes, end: bytes, *, reverse: bool) -> Iterator[tuple[bytes, Stored]]:
        """Yield the written versions, overlaid with those that are not written yet."""
        walk = walk_back if reverse else walk_on
        written = walk(self._engine.versions(), first, end, NEWEST)
        return overlaid(written, self._writer.unflushed, first, end, reverse=reverse)
