"""The item counts of tables and indexes, for DescribeTable.

The counts are exact, and reading them is cheap. With several partitions they are sums over the partitions that answer.
DynamoDB's counts are up to six hours old; a setting delays these, too, so that programs can be tested with old counts.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

from ...log.commands import Position
from ...materializer.fold.state import Table
from ...materializer.fold.storage import Store
from ...materializer.partition import Partition, ResultPosition
from ...model.capacity import storage_bytes
from ...model.errors import RequestError
from ...model.slots import CATALOG
from ..routing.fan_in import joined


class ItemCount(NamedTuple):
    """A number of items, and their bytes with the overhead of storage."""

    items: int
    bytes: int


class Counts(NamedTuple):
    """The counts of a table and of its indexes, and the position that they are true of; None if that is not known."""

    items: ItemCount
    indexes: dict[str, ItemCount]
    position: ResultPosition | None = None


Callback: TypeAlias = Callable[[Counts], None]


class TableCounter(Protocol):
    """Counts the items of tables."""

    def of(self, table: Table, callback: Callback) -> None:
        """Count a table and its indexes."""
        ...


class ItemCounter:
    """Counts the items of tables, and caches the counts.

    Args:
        refresh_ms: The maximum age of a cached count. 0 disables the cache.
        partitions: The router that collects the counts of all partitions; None if the tables of the catalog are whole.
        catalog: Returns the position of the catalog, whose definitions are described.
    """

    def __init__(
        self,
        clock: Callable[[], int],
        refresh_ms: int,
        partitions: Partition | None = None,
        catalog: Callable[[], Position] = lambda: Position(CATALOG, -1),
    ) -> None:
        self._clock = clock
        self._refresh_ms = refresh_ms
        self._partitions = partitions
        self._catalog = catalog
        self._counts: dict[int, tuple[int, Counts]] = {}

    def of(self, table: Table, callback: Callback) -> None:
        """Count a table and its indexes. An index that is newer than a cached count has 0 items."""
        now, table_id = self._clock(), table.definition.id
        counted = self._counts.get(table_id)
        if counted is None or now - counted[0] >= self._refresh_ms:
            self._count(table, partial(self._cache, table_id, callback))
        else:
            items, indexes, _ = counted[1]
            callback(Counts(items, {name: indexes.get(name, ItemCount(0, 0)) for name in table.indexes}))

    def _count(self, table: Table, callback: Callback) -> None:
        if self._partitions is None:
            callback(
                Counts(_of(table.items), {name: _of(index.store) for name, index in table.indexes.items()})
            )
        else:
            described_at = self._catalog()
            self._partitions.status(
                table.definition.id, lambda status: callback(_added_up(table, status, described_at))
            )

    def _cache(self, table_id: int, callback: Callback, counts: Counts) -> None:
        if self._refresh_ms:
            self._counts[table_id] = self._clock(), counts
        callback(counts)


def _of(store: Store) -> ItemCount:
    return ItemCount(store.count, storage_bytes(store.count, store.size))


def _added_up(table: Table, status: dict[str, Any] | RequestError, described_at: Position) -> Counts:
    each = {} if isinstance(status, RequestError) else status
    figures = {int(name): found for name, found in each.items() if not isinstance(found, RequestError)}
    counts = [{int(owner): count for owner, count in found["counts"].items()} for found in figures.values()]
    positions = [
        Position(partition_id, found["position"], time_ms=found["log_time"])
        for partition_id, found in figures.items()
    ]
    if len(positions) > 1:  # the catalog of several partitions has definitions alone, and may have moved on
        positions = [described_at, *(each for each in positions if each.partition != CATALOG)]
    return counts_of(table, counts, joined(positions) if positions else None)


def counts_of(
    table: Table, counts: Iterable[Mapping[int, Sequence[int]]], position: ResultPosition | None
) -> Counts:
    """Add up the counts of partitions: the number and the bytes of entries, by the id of the table or index."""
    each = list(counts)
    indexes = {index.name: _sum(each, index.id) for index in table.definition.indexes}
    return Counts(_sum(each, table.definition.id), indexes, position)


def _sum(counts: Iterable[Mapping[int, Sequence[int]]], owner: int) -> ItemCount:
    found = [each[owner] for each in counts if owner in each]
    items, size = sum(items for items, _ in found), sum(size for _, size in found)
    return ItemCount(items, storage_bytes(items, size))
