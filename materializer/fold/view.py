"""A store as of one position of the log, read while writes continue.

    store.put, store.remove ──► the old item, once per key ──► view ──► the items at that position

Opening a view copies nothing. The store passes each view the item that a write replaces or removes, and the view
lays these old items over the live ones when it is read. So a page that is read in several portions still shows the
state at one position of the log. An open view costs each write to its store about two microseconds: close it.

A transaction may be decided and not yet applied to the store (transactions/decided.py). Its items are laid over a view,
which then shows the state with that transaction.
"""

from collections.abc import Iterator
from typing import TypeAlias

from sortedcontainers import SortedDict

from .storage import HASHES, Store, Stored

ScanPosition: TypeAlias = tuple[int, bytes, bytes]
"""Hash, partition key, sort key: the order of a scan."""

ViewEntry: TypeAlias = tuple[int, bytes, bytes, Stored]


class StoreView:
    """The items of a store at the moment at which the view was opened."""

    def __init__(self, store: Store, pk: bytes | None = None) -> None:
        """Open a view of the whole store, or of one partition key."""
        self._store = store
        self._pk = pk
        self._old: SortedDict = SortedDict()  # Place -> the item that was there, or None
        store.views.append(self)

    def close(self) -> None:
        """Release the view. A second call does nothing."""
        if self in self._store.views:
            self._store.views.remove(self)

    def keep(self, pk: bytes, sk: bytes, old: Stored | None) -> None:
        """Keep the item that a write is about to replace; None if the write adds one."""
        if self._pk is None or self._pk == pk:
            self._old.setdefault((self._store.hash_of(pk), pk, sk), old)

    def lay(self, pk: bytes, sk: bytes, stored: Stored | None) -> None:
        """Show this item at a key, or none there, in place of the store's."""
        self._old[self._store.hash_of(pk), pk, sk] = stored

    def get(self, pk: bytes, sk: bytes) -> Stored | None:
        """Return the item at a key."""
        if self._old:
            position = (self._store.hash_of(pk), pk, sk)
            if position in self._old:
                found: Stored | None = self._old[position]
                return found
        return self._store.get(pk, sk)

    def scan(
        self, after: ScanPosition | None = None, hash_low: int = 0, hash_high: int = HASHES
    ) -> Iterator[ViewEntry]:
        """Yield the entries after `after` with hash_low <= hash < hash_high, in the order of a scan."""
        live = self._store.scan(after, hash_low, hash_high)
        if not self._old:
            return live
        kept = self._old.irange(after or (hash_low,), (hash_high,), inclusive=(False, False))
        return self._overlaid(live, kept)

    def range(self, pk: bytes, low: bytes, high: bytes | None, reverse: bool) -> Iterator[ViewEntry]:
        """Yield the entries of one partition key with low <= sort key < high, from either end."""
        hashed = self._store.hash_of(pk)
        live = _placed(hashed, pk, self._store.range(pk, low, high, reverse))
        if not self._old:
            return live
        end = (hashed, pk + b"\0") if high is None else (hashed, pk, high)
        kept = self._old.irange((hashed, pk, low), end, inclusive=(True, False), reverse=reverse)
        return self._overlaid(live, kept, reverse=reverse)

    def _overlaid(
        self, live: Iterator[ViewEntry], kept: Iterator[ScanPosition], *, reverse: bool = False
    ) -> Iterator[ViewEntry]:
        """Merge live entries with kept ones; at the same place the kept one counts."""
        old = self._old
        position = next(kept, None)
        for entry in live:
            current = entry[:3]
            while position is not None and (position > current if reverse else position < current):
                if old[position] is not None:
                    yield (*position, old[position])
                position = next(kept, None)
            if position != current:
                yield entry
                continue
            if old[position] is not None:
                yield (*position, old[position])
            position = next(kept, None)
        while position is not None:
            if old[position] is not None:
                yield (*position, old[position])
            position = next(kept, None)


def _placed(hashed: int, pk: bytes, found: Iterator[tuple[bytes, Stored]]) -> Iterator[ViewEntry]:
    """Yield the entries of one partition key as those of a scan."""
    for sk, stored in found:
        yield hashed, pk, sk, stored
