"""The images that recent writes replaced: a partition as it was at a recent moment.

    record is folded ──► the images that its writes replace, then a moment: time and position
    read at a moment ──► the present store, with the first image that each key lost after the moment laid over it

A store begins to keep images when it can be read: a new table when it is ACTIVE, a new index when it is filled. An
earlier moment shows it as it was then, so a table that was just created or restored is complete.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from ..log.commands import Delete, Expire, Position, Put, Record, Transact, Update
from .fold.state import PartitionState
from .fold.storage import Store, Stored
from .worker import Worker

# Commands that neither define a table or an index nor complete one.
_WRITES: Final = frozenset((Put, Update, Delete, Transact, Expire))

# A rebuild exchanges a store without a record. So the stores are compared with those of the state after this time.
_FOLLOW_MS: Final = 1000

_Key: TypeAlias = tuple[bytes, bytes]


class Moment(NamedTuple):
    """The state after a record: its number among the moments, its time, and its position."""

    number: int
    time_ms: int
    position: Position


class _Replaced(NamedTuple):
    """An image that a write replaced before the moment with that number; None if the write added an item."""

    number: int
    old: Stored | None


class RecentImages:
    """The replaced images of all stores of a partition, and its recent moments.

    Attributes:
        count, size: The number of kept images, and the sum of their sizes.

    Args:
        worker: Folds the partition.
        kept_ms: How long an image is kept after it was replaced.
        clock: Returns milliseconds since any moment; it never goes back.
        log_clock: Returns the present log time. A record that is folded late, such as after a start, is as old as its
            log time.
    """

    def __init__(
        self, worker: Worker, kept_ms: int, clock: Callable[[], int], log_clock: Callable[[], int]
    ) -> None:
        self.count = 0
        self.size = 0
        self._worker = worker
        self._kept_ms = kept_ms
        self._clock = clock
        self._log_clock = log_clock
        self._moments = deque([Moment(0, clock() - kept_ms, worker.position)])
        self._followed_ms = 0
        self._order: deque[tuple[_StoreImages, _Key]] = deque()
        self._stores: dict[int, _StoreImages] = {}  # by the identity of the store, which they refer to
        self._follow()
        self._stop_observing = worker.on_records.add(self._folded)

    @property
    def last(self) -> Moment:
        """The present moment."""
        return self._moments[-1]

    def moment_before(self, age_ms: int, stores: Iterable[Store]) -> Moment:
        """Return the moment that was the last one that long ago, or the first one with images of all these stores."""
        number = bisect_right(self._moments, self._clock() - age_ms, key=_time_of)
        return max([self._moments[max(0, number - 1)], *map(self._begin, stores)])

    def item_at(self, moment: Moment, store: Store, pk: bytes, sk: bytes) -> Stored | None:
        """Return the item at a key as of a moment."""
        first = _first_after(moment, self._images_of(store).get((pk, sk), ()))
        return store.get(pk, sk) if first is None else first.old

    def replaced_since(
        self, moment: Moment, store: Store, pk: bytes | None
    ) -> list[tuple[bytes, bytes, Stored | None]]:
        """Return the keys that were written after a moment, each with its image at the moment.

        They are those of one partition key, or of the whole store if it is None.
        """
        if moment is self.last:
            return []
        firsts = [
            (key, _first_after(moment, images))
            for key, images in self._images_of(store).items()
            if pk is None or key[0] == pk
        ]
        return [(*key, first.old) for key, first in firsts if first is not None]

    def close(self) -> None:
        """Release the stores."""
        self._stop_observing()
        for each in self._stores.values():
            each.close()

    def note(self, replaced: "_StoreImages", key: _Key, old: Stored | None) -> None:
        """Keep an image that the record that is being folded replaces."""
        replaced.images.setdefault(key, []).append(_Replaced(self.last.number + 1, old))
        self._order.append((replaced, key))
        self._add(old, 1)

    def _folded(self, record: Record) -> None:
        now_ms, last = self._clock(), self.last
        age_ms = max(0, self._log_clock() - self._worker.state.log_time)
        time_ms = max(last.time_ms, now_ms - age_ms)
        self._moments.append(Moment(last.number + 1, time_ms, self._worker.position))
        if now_ms >= self._followed_ms + _FOLLOW_MS or not all(
            type(command) in _WRITES for command in record.entry.commands
        ):
            self._follow()
        self.forget()

    def forget(self) -> None:
        """Forget the moments that no read can need, and the images from before the first of the others."""
        moments, until_ms = self._moments, self._clock() - self._kept_ms
        while len(moments) > 1 and moments[1].time_ms <= until_ms:
            moments.popleft()
        while self._order:
            replaced, key = self._order[0]
            if replaced.images[key][0].number > moments[0].number:
                return
            self._order.popleft()
            images = replaced.images[key]
            self._add(images.pop(0).old, -1)
            if not images:
                del replaced.images[key]

    def _add(self, old: Stored | None, count: int) -> None:
        self.count += count
        self.size += 0 if old is None else count * old[1]

    def _follow(self) -> None:
        """Keep the images of the stores that can be read now, and of no others."""
        self._followed_ms = self._clock()
        readable = {id(store): store for store in _readable(self._worker.state)}
        for number in self._stores.keys() - readable.keys():
            self._stores.pop(number).close()
        for number in readable.keys() - self._stores.keys():
            self._stores[number] = _StoreImages(readable[number], self)

    def _begin(self, store: Store) -> Moment:
        """Return the moment from which on the images of a store are kept."""
        if id(store) not in self._stores:
            self._follow()
        found = self._stores.get(id(store))
        return self.last if found is None else found.begin

    def _images_of(self, store: Store) -> Mapping[_Key, Iterable[_Replaced]]:
        found = self._stores.get(id(store))  # none if the catalog is ahead of this partition
        return {} if found is None else found.images


class _StoreImages:
    """Receives the images that the writes to one store replace.

    Attributes:
        images: By key, the oldest first.
        begin: The moment from which on they are complete.
    """

    __slots__ = ("_recent", "_store", "begin", "images")

    def __init__(self, store: Store, recent: RecentImages) -> None:
        self.images: dict[_Key, list[_Replaced]] = {}
        self.begin = recent.last
        self._store = store
        self._recent = recent
        store.views.append(self)

    def keep(self, pk: bytes, sk: bytes, old: Stored | None) -> None:
        """Keep the image that a write replaced or removed; None if the write added one."""
        self._recent.note(self, (pk, sk), old)

    def close(self) -> None:
        self._store.views.remove(self)


def _first_after(moment: Moment, images: Iterable[_Replaced]) -> _Replaced | None:
    return next((image for image in images if image.number > moment.number), None)


def _time_of(moment: Moment) -> int:
    return moment.time_ms


def _readable(state: PartitionState) -> Iterator[Store]:
    """Yield the stores of the tables and indexes that are filled."""
    for table in state.tables.values():
        if table.definition.is_restoring:
            continue
        yield table.items
        for index in table.indexes.values():
            if not index.definition.backfilling:
                yield index.store
