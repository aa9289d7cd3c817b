"""How many items tables and indexes hold, as DescribeTable tells it.

They are exact and free. Where there are several partitions, those within reach are asked, and what they hold is added
up. DynamoDB's are up to six hours old; whoever wants to see what a program makes of that sets how old these may be.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from ...materializer.fold.state import Table
from ...materializer.fold.storage import Store
from ...materializer.partition import Partition
from ...model.capacity import storage_bytes
from ...model.errors import RequestError


class Count(NamedTuple):
    """Items, and their bytes with what their storage takes besides."""

    items: int
    bytes: int


Counts: TypeAlias = tuple[Count, dict[str, Count]]
Told: TypeAlias = Callable[[Counts], None]


class ItemCounter:
    """Counts tables, or remembers when it last did.

    Args:
        clock: Milliseconds since 1970.
        refresh_ms: How old a count may be.
        partitions: Asked for what it holds; None where the tables at hand hold everything.
    """

    def __init__(
        self, clock: Callable[[], int], refresh_ms: int, partitions: Partition | None = None
    ) -> None:
        self._clock = clock
        self._refresh_ms = refresh_ms
        self._partitions = partitions
        self._counted: dict[int, tuple[int, Counts]] = {}

    def of(self, table: Table, done: Told) -> None:
        """Of a table, and of its indexes by name. What came after the last count has none yet."""
        now, table_id = self._clock(), table.definition.id
        counted = self._counted.get(table_id)
        if counted is None or now - counted[0] >= self._refresh_ms:
            self._count(table, partial(self._note, table_id, done))
        else:
            items, indexes = counted[1]
            done((items, {name: indexes.get(name, Count(0, 0)) for name in table.indexes}))

    def _count(self, table: Table, done: Told) -> None:
        if self._partitions is None:
            done((_of(table.items), {name: _of(index.store) for name, index in table.indexes.items()}))
        else:
            self._partitions.status(lambda status: done(_added_up(table, status)))

    def _note(self, table_id: int, done: Told, counts: Counts) -> None:
        if self._refresh_ms:
            self._counted[table_id] = self._clock(), counts
        done(counts)


def _of(store: Store) -> Count:
    return Count(store.count, storage_bytes(store.count, store.size))


def _added_up(table: Table, status: dict[str, Any] | RequestError) -> Counts:
    each = [] if isinstance(status, RequestError) else status.values()
    counts = [figures["counts"] for figures in each if not isinstance(figures, RequestError)]
    indexes = table.definition.indexes
    return _sum(counts, table.definition.id), {index.name: _sum(counts, index.id) for index in indexes}


def _sum(counts: Iterable[dict[str, tuple[int, int]]], owner: int) -> Count:
    found = [each[str(owner)] for each in counts if str(owner) in each]
    items, size = sum(items for items, _ in found), sum(size for _, size in found)
    return Count(items, storage_bytes(items, size))
