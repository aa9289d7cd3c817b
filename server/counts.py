"""How many items tables and indexes hold, as DescribeTable tells it.

They are exact and free. DynamoDB's are up to six hours old; whoever wants to see what a program makes of that sets
how old these may be.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from ..materializer.fold.state import Table
from ..materializer.fold.storage import Store
from ..model.capacity import storage_bytes


class Count(NamedTuple):
    """Items, and their bytes with what their storage takes besides."""

    items: int
    bytes: int


Counts: TypeAlias = tuple[Count, dict[str, Count]]


class Counter:
    """Counts tables, or remembers when it last did.

    Args:
        clock: Milliseconds since 1970.
        refresh_ms: How old a count may be.
    """

    def __init__(self, clock: Callable[[], int], refresh_ms: int) -> None:
        self._clock = clock
        self._refresh_ms = refresh_ms
        self._counted: dict[int, tuple[int, Counts]] = {}

    def of(self, table: Table) -> Counts:
        """Of a table, and of its indexes by name. What came after the last count has none yet."""
        if not self._refresh_ms:
            return _count(table)
        now, table_id = self._clock(), table.definition.id
        counted = self._counted.get(table_id)
        if counted is None or now - counted[0] >= self._refresh_ms:
            counted = self._counted[table_id] = (now, _count(table))
        items, indexes = counted[1]
        return items, {name: indexes.get(name, Count(0, 0)) for name in table.indexes}


def _count(table: Table) -> Counts:
    return _of(table.items), {name: _of(index.store) for name, index in table.indexes.items()}


def _of(store: Store) -> Count:
    return Count(store.count, storage_bytes(store.count, store.size))
