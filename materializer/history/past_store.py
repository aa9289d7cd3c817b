"""A store at a cut, to be read only: of each key the newest version that is visible at the cut.

    range, scan    next key ──► its newest version ──► the one at the cut ──► the next key
                                        one seek if it is newer than the cut ──┘   └── one seek over older versions

So the cost of a page depends on the keys in it, and hardly on the number of their versions. Keys that are deleted at
the cut are looked at as well: `Looks` counts versions, and ends a page that would look at too many.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NoReturn

from ..fold.storage import HASHES, Stored, WriteObserver
from .engine import Engine, VersionCursor
from .timeline import Figures, figures_at, late_growth
from .version_keys import (
    AFTER_OLDEST,
    NEWEST,
    POSITION_AT,
    STAMP_BYTES,
    StoreKeys,
    is_visible,
    read_key,
    read_sort_key,
)

PAGE_LOOKS: Final = 10_000
"""The versions that one page looks at, at most."""

# Older versions of a key that are passed one by one, before a seek passes the rest. A seek costs about four steps.
# After a seek the next keys have no step at all, and the key after them one, until a key has no older version.
_STEPS: Final = 4
_KEYS_WITHOUT_STEPS: Final = 8
_READ_ONLY: Final = "a store at a cut is read only"


class Looks:
    """Counts the versions that a page looks at.

    Attributes:
        stopped_at: An item of the last key that the page looked at, if it ended because of the count.
        last_key: That key.
    """

    __slots__ = ("_left", "last_key", "stopped_at")

    def __init__(self, most: int = PAGE_LOOKS) -> None:
        self._left = most
        self.stopped_at: Stored | None = None
        self.last_key = b""

    def take(self, count: int) -> bool:
        """Count versions; return whether the page may look at more."""
        self._left -= count
        return self._left > 0

    def stop(self, key: bytes, stored: Stored | None) -> None:
        """End the page after a key, at which this item is or was."""
        self.last_key, self.stopped_at = key, stored


class PastStore:
    """See the module. Its answers never change, unless an item is laid over it.

    Args:
        cut: The stamp of the cut.
        packed: The last position that the cut includes, packed.
        time_ms: The time of a cut by time; None for a cut by position.
        looks: Limits the versions that are looked at.
    """

    __slots__ = (
        "_cut",
        "_engine",
        "_figures",
        "_id",
        "_keys",
        "_laid",
        "_looks",
        "_packed",
        "_time_ms",
        "views",
    )

    def __init__(
        self,
        engine: Engine,
        store_id: int,
        cut: bytes,
        packed: int,
        time_ms: int | None = None,
        looks: Looks | None = None,
    ) -> None:
        self._engine = engine
        self._id = store_id
        self._keys = StoreKeys(store_id)
        self._cut = cut
        self._packed = packed
        self._time_ms = time_ms
        self._looks = looks
        self._figures: Figures | None = None
        self._laid: dict[bytes, Stored | None] = {}
        self.views: list[WriteObserver] = []  # never called: nothing writes to this store

    @property
    def count(self) -> int:
        """The number of items."""
        return self._read_figures().items

    @property
    def size(self) -> int:
        """The sum of their sizes."""
        return self._read_figures().size

    def hash_of(self, pk: bytes) -> int:
        """Return the hash of `pk`, which is its position in the order of a scan."""
        return self._keys.hash_of(pk)

    def slot_of(self, pk: bytes) -> int:
        """Return the slot of `pk`."""
        return self._keys.slot_of(pk)

    def lay(self, pk: bytes, sk: bytes, stored: Stored | None) -> None:
        """Show this item at a key, or none there, in place of the version at the cut. Count and size remain."""
        self._laid[self._keys.key(pk, sk)] = stored

    def get(self, pk: bytes, sk: bytes) -> Stored | None:
        """Return the item at a key."""
        key = self._keys.key(pk, sk)
        if key in self._laid:
            return self._laid[key]
        cursor = self._engine.chains()
        at = cursor.seek(key + self._cut)
        while at is not None and at.startswith(key):
            if is_visible(at[-STAMP_BYTES:], self._cut):
                return cursor.value()
            at = cursor.next()
        return None

    def collection_size(self, pk: bytes) -> int:
        """Return the sum of the sizes of the items under `pk`."""
        return sum(size for _, (_, size) in self.range(pk))

    def range(
        self, pk: bytes, low: bytes = b"", high: bytes | None = None, reverse: bool = False
    ) -> Iterator[tuple[bytes, Stored]]:
        """Return the items under `pk` with low <= sort key < high."""
        first, end = self._keys.range(pk, low, high)
        sort_part = len(self._keys.collection(pk))
        for key, stored in self._walk(first, end, reverse=reverse):
            yield read_sort_key(key, sort_part), stored

    def scan(
        self, start: tuple[int, bytes, bytes] | None = None, hash_low: int = 0, hash_high: int = HASHES
    ) -> Iterator[tuple[int, bytes, bytes, Stored]]:
        """Yield the items with hash_low <= hash < hash_high, by hash, partition key and sort key."""
        first, end = self._keys.hashes(start, hash_low, hash_high)
        for key, stored in self._walk(first, end, reverse=False):
            yield *read_key(key), stored

    def _walk(self, first: bytes, end: bytes, *, reverse: bool) -> Iterator[tuple[bytes, Stored]]:
        walk = walk_back if reverse else walk_on
        versions = walk(self._engine.versions(), first, end, self._cut, self._looks)
        return overlaid(versions, self._laid, first, end, self._looks, reverse=reverse)

    def put(self, *_: object) -> NoReturn:
        """Refuse a write: the past does not change."""
        raise AssertionError(_READ_ONLY)

    def remove(self, *_: object) -> NoReturn:
        """Refuse a write."""
        raise AssertionError(_READ_ONLY)

    def extend(self, *_: object) -> NoReturn:
        """Refuse a write."""
        raise AssertionError(_READ_ONLY)

    def discard(self, *_: object) -> NoReturn:
        """Refuse a write."""
        raise AssertionError(_READ_ONLY)

    def _read_figures(self) -> Figures:
        if self._figures is None:
            items, size = figures_at(self._engine, self._id, self._packed)
            if self._time_ms is not None:
                late = late_growth(self._engine, self._id, self._time_ms)
                items, size = items + late.items, size + late.size
            self._figures = Figures(items, size)
        return self._figures


def walk_on(
    cursor: VersionCursor, first: bytes, end: bytes, cut: bytes, looks: Looks | None = None
) -> Iterator[tuple[bytes, Stored]]:
    """Yield key and item of the keys between both bounds, in their order."""
    last_position = cut[POSITION_AT:]
    steps, without_steps = _STEPS, 0
    at = cursor.seek(first)
    while at is not None and at < end:
        key, written = at[:-STAMP_BYTES], at[-STAMP_BYTES:]
        looked = 1
        if written < cut or written[POSITION_AT:] < last_position:  # is_visible, without a call
            at = cursor.seek(key + cut)
            looked += 1
            while at is not None and at.startswith(key) and not is_visible(at[-STAMP_BYTES:], cut):
                at = cursor.next()
                looked += 1
        stored = None
        if at is not None and at.startswith(key):
            stored = cursor.value()
            if stored is not None:
                yield key, stored
            if without_steps:
                at = cursor.seek(key + AFTER_OLDEST)
                without_steps -= 1
            else:
                at = cursor.next()
                left = steps
                while at is not None and at.startswith(key):
                    if not left:
                        at = cursor.seek(key + AFTER_OLDEST)
                        steps, without_steps = 0, _KEYS_WITHOUT_STEPS  # they probably have many versions too
                        break
                    at = cursor.next()
                    looked += 1
                    left -= 1
                else:
                    steps = _STEPS
        if looks is not None and not looks.take(looked):
            looks.stop(key, stored or _oldest(cursor, key))
            return


def walk_back(
    cursor: VersionCursor, first: bytes, end: bytes, cut: bytes, looks: Looks | None = None
) -> Iterator[tuple[bytes, Stored]]:
    """Yield key and item of the keys between both bounds, in the reverse order."""
    at = cursor.seek_back(end)  # no key ends in the bytes of a bound, so this is before it
    while at is not None and at >= first:
        key = at[:-STAMP_BYTES]
        looked = 1
        stored = None
        if is_visible(at[-STAMP_BYTES:], cut):  # the oldest version
            at = cursor.seek(key + cut)
            while at is not None and not is_visible(at[-STAMP_BYTES:], cut):
                at = cursor.next()
                looked += 1
            stored = cursor.value()
            if stored is not None:
                yield key, stored
        if looks is not None and not looks.take(looked):
            looks.stop(key, stored or _oldest(cursor, key))
            return
        at = cursor.seek_back(key)


def overlaid(
    versions: Iterator[tuple[bytes, Stored]],
    laid: Mapping[bytes, Stored | None],
    first: bytes,
    end: bytes,
    looks: Looks | None = None,
    *,
    reverse: bool,
) -> Iterator[tuple[bytes, Stored]]:
    """Merge the versions between both bounds with the laid items, which count at their keys; None is no item."""
    keys = sorted((key for key in laid if first <= key + NEWEST and key < end), reverse=reverse)
    return _merged(versions, keys, laid, looks, reverse) if keys else versions


def _merged(
    versions: Iterator[tuple[bytes, Stored]],
    keys: list[bytes],
    laid: Mapping[bytes, Stored | None],
    looks: Looks | None,
    reverse: bool,
) -> Iterator[tuple[bytes, Stored]]:
    waiting = iter(keys)
    key = next(waiting, None)
    for entry in versions:
        while key is not None and (key > entry[0] if reverse else key < entry[0]):
            stored = laid[key]
            if stored is not None:
                yield key, stored
            key = next(waiting, None)
        if key != entry[0]:
            yield entry
    last = b"" if looks is None else looks.last_key
    while key is not None and not (last and (key < last if reverse else key > last)):
        stored = laid[key]
        if stored is not None:
            yield key, stored
        key = next(waiting, None)


def _oldest(cursor: VersionCursor, key: bytes) -> Stored | None:
    """Return the oldest version of a key. It is an item: nothing removes a key before it exists."""
    cursor.seek_back(key + AFTER_OLDEST)
    return cursor.value()
