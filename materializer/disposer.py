"""Frees the stores of deleted tables and indexes, a portion in each turn of the loop.

    fold deletes a table ──► its stores ──► Disposer ──► a portion of items per turn ──► all free

Python frees a store of a million items in one step of a tenth of a second or more, which would delay all requests.
The state no longer refers to such a store: no digest, dump or read includes it.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, Protocol

from .fold.state import PartitionState
from .fold.storage import Store

# At most ten milliseconds, for a sorted map; items of 400 KB take as long for each 64 MB.
PORTION_ITEMS: Final = 5_000
_PORTION_BYTES: Final = 64 * 1024 * 1024

# The retry interval while an open view still reads the store: a page of a scan, or a digest.
_VIEWED_SECONDS: Final = 0.1


class Loop(Protocol):
    """The required part of an event loop."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> object: ...

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> object: ...


class Disposer:
    """Frees stores in portions."""

    def __init__(self, scheduler: Loop) -> None:
        self._scheduler = scheduler
        self._waiting: deque[Store] = deque()

    def take(self, stores: Iterable[Store]) -> None:
        """Free these stores. They must have no writer, and no readers but open views."""
        was_idle = not self._waiting
        self._waiting.extend(stores)
        if was_idle and self._waiting:
            self._scheduler.call_soon(self._free)

    @property
    def waiting(self) -> Collection[Store]:
        """The stores that are not free yet."""
        return self._waiting

    def _free(self) -> None:
        """Free a portion of the first store that no view reads."""
        store = next((store for store in self._waiting if not store.views), None)
        if store is None:
            self._scheduler.call_later(_VIEWED_SECONDS, self._free)
            return
        store.discard(min(PORTION_ITEMS, 1 + store.count * _PORTION_BYTES // (store.size + 1)))
        if not store.count:
            self._waiting.remove(store)
        if self._waiting:
            self._scheduler.call_soon(self._free)


def stores_of(state: PartitionState) -> list[Store]:
    """Return the stores of all tables and indexes of a state."""
    return [store for table in state.tables.values() for store in table.stores]
