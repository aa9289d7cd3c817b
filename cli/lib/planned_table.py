"""A table with another definition, which follows the writes of the real one.

    ItemWrite ──► key and attributes by the plan ──► the fold's own put or delete ──► units, entries, sizes
                                                            └──► meters at log time ──► throttled requests

The items and entries are in a state of one partition, and the functions of the fold change it: so entries, sizes and
units are those of a table that had this definition from its first write on. An item whose attributes are no valid keys
of an index has no entry in it, as in a backfill.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from decimal import Decimal
from typing import Any, Final, NamedTuple, TypeAlias

from ...log.commands import Delete, Put, new_context
from ...materializer.fold.index_entries import EntryKey, IndexUpdate
from ...materializer.fold.outcomes import Units, cost
from ...materializer.fold.state import PartitionState
from ...materializer.fold.storage import Store, Stored
from ...materializer.fold.transactions.participant import current_decision
from ...materializer.fold.writes import apply
from ...model.capacity import storage_bytes
from ...model.errors import ValidationError
from ...model.index_keys import key_error_of_index
from ...model.key_schema import KeySchema
from ...model.lazy_dataclass import dataclass
from ...model.limits import Limits
from ...model.tables import IndexDefinition, TableDefinition
from ...model.values import Item, dump, item_size, load
from ...server.throttling.buckets import HALF_UNIT, PartitionBucket
from ...server.throttling.meters import Policy, TableMeters
from .item_writes import ItemWrite, Request
from .read_series import Reads

_CONTEXT: Final = new_context("client", "whatif")
_SECOND_MS: Final = 1_000
_UNIT: Final = 2 * HALF_UNIT

Split: TypeAlias = Callable[[Stored | None], Stored | None]
"""Returns the part of an item that a table holds; None for no part."""


def whole(stored: Stored | None) -> Stored | None:
    """Return the item."""
    return stored


def kept_attributes(moved: Sequence[str], limits: Limits) -> Split:
    """Return the split of the table from which attributes are moved."""

    def split(stored: Stored | None) -> Stored | None:
        if stored is None:
            return None
        item = load(stored[0])
        if not any(name in item for name in moved):
            return stored
        return _stored({name: value for name, value in item.items() if name not in moved}, limits)

    return split


def moved_attributes(moved: Sequence[str], key: KeySchema, limits: Limits) -> Split:
    """Return the split of the table to which attributes are moved: items that have none of them have no part in it."""

    def split(stored: Stored | None) -> Stored | None:
        if stored is None:
            return None
        item = load(stored[0])
        if not any(name in item for name in moved):
            return None
        return _stored({name: item[name] for name in (*key.names, *moved) if name in item}, limits)

    return split


def _stored(item: Item, limits: Limits) -> Stored:
    return dump(item), item_size(item, limits)


@dataclass(slots=True)
class Part:
    """A table or an index, and the figures of its writes.

    Attributes:
        definition: The definition of the table or of the index.
        store: Its items or entries.
        table: The name of an index's table; None for a table.
        units: Consumed write units.
        throttled: Requests that its own throughput would have refused.
        units_of_keys: Consumed write units by partition key.
        large: The partition keys whose item collections have been above the limit.
        read_half_units: Estimated half units of reads; None if reads are not counted.
        throttled_half_units: Those that its throughput would have refused.
        largest_read: The partition key with the most read units, and its share of them; None if it is not known.
        invalid: The items whose attributes are no valid keys: a table does not hold them, an index makes DynamoDB
            refuse them.
        collisions: The items that are missing because another item has the same key.
    """

    definition: TableDefinition | IndexDefinition
    store: Store
    table: str | None = None
    units: int = 0
    throttled: int = 0
    units_of_keys: Counter[bytes] = field(default_factory=Counter)
    large: set[bytes] = field(default_factory=set)
    read_half_units: int | None = None
    throttled_half_units: int = 0
    largest_read: tuple[Any, Decimal] | None = None
    invalid: int = 0
    collisions: int = 0

    @property
    def size(self) -> int:
        """Return the bytes as DescribeTable has them."""
        return storage_bytes(self.store.count, self.store.size)

    def count(self, pk: bytes, units: int) -> None:
        self.units += units
        self.units_of_keys[pk] += units

    def largest_key(self) -> tuple[Item, int] | None:
        """Return the partition key with the most units, and the units; None without a write."""
        if not self.units_of_keys:
            return None
        pk = min(self.units_of_keys, key=lambda each: (-self.units_of_keys[each], each))
        return KeySchema(self.definition.key.partition).decode(pk, b""), self.units_of_keys[pk]


class Cost(NamedTuple):
    """The units that a write consumes of a planned table.

    Attributes:
        table: The table.
        key: The key of the item; None if it is not known.
        own: The units of the table with its local indexes.
        indexes: The entries of global indexes and their units, by name. An entry that moves counts at its new key.
    """

    table: "PlannedTable"
    key: EntryKey | None
    own: int
    indexes: dict[str, tuple[EntryKey, int]]


class PlannedTable:
    """A table with a definition.

    Attributes:
        definition: The definition.
        own: The table's own figures.
        indexes: The figures of its indexes, by name.
    """

    def __init__(
        self,
        definition: TableDefinition,
        limits: Limits,
        *,
        split: Split = whole,
        has_rest: bool = True,
        is_rekeyed: bool = False,
    ) -> None:
        """Create an empty table.

        Args:
            definition: Its definition.
            limits: The limits of the log.
            split: Returns the part of each item that the table holds.
            has_rest: Whether a write that changes nothing is a write of this table.
            is_rekeyed: Whether it has another key than the real table. Items may then have no key, or the same one.
        """
        self.definition = definition
        self._split = split
        self._has_rest = has_rest
        self._limits = limits
        self._is_rekeyed = is_rekeyed
        self._state = PartitionState(limits=limits)
        self._state.install(definition, 0)
        self._table = self._state.tables[definition.id]
        self._hidden: Counter[tuple[bytes, bytes]] = Counter()  # by key, the items that another one replaces
        self._meters: TableMeters | None = None
        self.own = Part(definition, self._table.items)
        self.indexes = {
            name: Part(index.definition, index.store, definition.name)
            for name, index in self._table.indexes.items()
        }

    def parts(self) -> Iterator[Part]:
        """Yield the table and its indexes."""
        yield self.own
        yield from self.indexes.values()

    def items(self) -> Iterator[Stored]:
        """Yield the items."""
        return (stored for _, _, _, stored in self._table.items.scan())

    def count_invalid(self, items: Iterable[Stored]) -> None:
        """Count the invalid items and the collisions among the items of the real table."""
        self.own.collisions = self._hidden.total()
        if not (self._is_rekeyed or self.indexes):
            return
        for stored in items:
            item = load(stored[0])
            self.own.invalid += self._is_rekeyed and self._key(stored) is None
            for index in self.definition.indexes:
                is_invalid = key_error_of_index(index, item, self._limits) is not None
                self.indexes[index.name].invalid += is_invalid

    def read(self, reads: Reads) -> None:
        """Estimate the reads: those of a second are one request, and the seconds of a bucket have equal parts of it."""
        for part in self.parts():
            name = None if part.table is None else part.definition.name
            series = reads.get((self.definition.name, name))
            part.read_half_units = 0
            if series is not None and not (self._is_rekeyed and part is self.own):
                part.largest_read = series.largest
            meters: TableMeters | None = None
            for begin_ms, units in () if series is None else series.units.items():
                assert series is not None, "it has units"
                seconds, half_units = series.bucket_ms // _SECOND_MS, int(2 * units)
                meters = meters or TableMeters(self.definition, self._limits, Policy(), begin_ms)
                meter = meters.indexes.get(name or "", meters.own).read
                part.read_half_units += half_units
                for second in range(seconds):
                    share = half_units * (second + 1) // seconds - half_units * second // seconds
                    now_ms = begin_ms + second * _SECOND_MS
                    if meter.limit_at(None, now_ms) is None:
                        meter.take(share * HALF_UNIT, None)
                    else:
                        part.throttled_half_units += share

    def meters(self, now_ms: int) -> TableMeters:
        """Return the meters of the table's throughput, which begin at the first call."""
        if self._meters is None:
            self._meters = TableMeters(self.definition, self._limits, Policy(), now_ms)
        return self._meters

    def write(self, write: ItemWrite, *, is_counted: bool) -> list[Cost]:
        """Follow a write, and return its costs: none if it is not counted, or costs nothing."""
        units = write.units if is_counted else None
        if write.is_refused:
            return [] if units is None or not self._has_rest else [self._cost_without_effect(write, units)]
        old, new = self._split(write.old), self._split(write.new)
        if old == new and (write.old != write.new or not self._has_rest):
            return []
        if not self._is_rekeyed:
            return self._store((write.pk, write.sk), new, write, units)
        before, after = self._key(old), self._key(new)
        if old is None and new is None and units is not None:
            return [self._cost_without_effect(write, units)]
        costs: list[Cost] = []
        if before is not None and before != after:
            costs += self._store(before, None, write, units)
        if after is not None:
            if before != after and self._table.items.get(*after) is not None:
                self._hidden[after] += 1
            costs += self._store(after, new, write, units)
        return costs

    def _key(self, stored: Stored | None) -> tuple[bytes, bytes] | None:
        """Return the key of an item; None if it has no valid one."""
        if stored is None:
            return None
        try:
            return self.definition.key.item_key(load(stored[0]), self._limits)
        except ValidationError:
            return None

    def _cost_without_effect(self, write: ItemWrite, units: Units) -> Cost:
        """Return the cost of a write without an effect: it is refused, or there is no item before and after."""
        if self._is_rekeyed:
            self.own.units += units.table
            return Cost(self, None, units.table, {})
        self.own.count(write.pk, units.table)
        return Cost(self, (write.pk, write.sk), units.table, {})

    def _store(
        self, key: tuple[bytes, bytes], stored: Stored | None, write: ItemWrite, units: Units | None
    ) -> list[Cost]:
        """Store or remove the item at a key, and return the cost."""
        pk, sk = key
        table_id = self.definition.id
        effect = Put(table_id, pk, sk, *stored, _CONTEXT) if stored else Delete(table_id, pk, sk, _CONTEXT)
        decision = current_decision(self._table, effect, self._limits)
        if stored is None and self._hidden[key]:
            self._hidden[key] -= 1  # the item of the others stays
            own, updates = cost(decision.old, None) << write.is_doubled, []
        else:
            applied = apply(self._state, self._table, effect, decision, 0, twice=write.is_doubled)
            own, updates = applied.units.table, decision.index_updates
            self._note_large(pk, updates)
        if units is None:
            return []
        self.own.count(pk, own)
        indexes = {}
        for update in updates:
            name, index_key = update.index.definition.name, update.new_key or update.old_key
            if index_key is None:
                continue  # the item has no valid key of the index
            self.indexes[name].count(index_key[0], update.units)
            if update.index.definition.kind == "GSI":
                indexes[name] = index_key, update.units
            else:
                own += update.units
        return [Cost(self, key, own, indexes)]

    def _note_large(self, pk: bytes, updates: Sequence[IndexUpdate]) -> None:
        """Note the item collections that are above the limit after a write."""
        if self._table.collection_size(pk) > self._limits.collection_bytes:
            self.own.large.add(pk)
        for update in updates:
            if update.new_key is not None and update.index.definition.kind == "GSI":
                index_pk = update.new_key[0]
                if update.index.store.collection_size(index_pk) > self._limits.collection_bytes:
                    self.indexes[update.index.definition.name].large.add(index_pk)


class Plan:
    """One or more tables that follow the writes of a table, and the requests that their throughput refuses.

    Attributes:
        tables: The tables.
    """

    def __init__(self, tables: Sequence[PlannedTable]) -> None:
        self.tables = tables

    @property
    def units(self) -> int:
        """The consumed write units of all tables and indexes."""
        return sum(part.units for part in self.parts())

    def parts(self) -> Iterator[Part]:
        """Yield the tables and their indexes."""
        for table in self.tables:
            yield from table.parts()

    def follow(self, request: Request) -> None:
        """Follow the writes of a request."""
        costs = [
            cost
            for write in request.writes
            for table in self.tables
            for cost in table.write(write, is_counted=request.is_counted)
        ]
        refusing = next(filter(None, (_refusing(each, request.time_ms) for each in costs)), None)
        if refusing is not None:
            refusing.throttled += 1
            return
        for each in costs:
            _take(each, request.time_ms)


def _refusing(cost: Cost, now_ms: int) -> Part | None:
    """Return the table or the index whose throughput refuses a write; None if it is admitted."""
    meters = cost.table.meters(now_ms)
    if meters.own.write.limit_at(_bucket(meters, cost), now_ms) is not None:
        return cost.table.own
    for name, (key, units) in cost.indexes.items():
        part = meters.indexes[name]
        if units and part.write.limit_at(part.at(*key).write, now_ms) is not None:
            return cost.table.indexes[name]
    return None


def _take(cost: Cost, now_ms: int) -> None:
    meters = cost.table.meters(now_ms)
    meters.own.write.take(_UNIT * cost.own, _bucket(meters, cost))
    for name, (key, units) in cost.indexes.items():
        meters.indexes[name].write.take(_UNIT * units, meters.indexes[name].at(*key).write)


def _bucket(meters: TableMeters, cost: Cost) -> PartitionBucket | None:
    """Return the bucket of the capacity partition that a write belongs to."""
    return None if cost.key is None else meters.own.at(*cost.key).write
