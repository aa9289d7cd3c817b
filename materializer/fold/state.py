"""The state of a partition: the result of folding its log.

    PartitionState
    ├── tables: id -> Table          definition, items, indexes
    ├── names: name -> id            the catalog
    ├── origins, tokens              make a repeated entry or request harmless
    ├── transactions                 transactions that take more than one step
    ├── outboxes, received, deferred messages between partitions (outbox.py, messages.py)
    ├── rollout                      definitions being sent to all partitions, at the catalog
    ├── streams, subscriptions       capture periods of tables, and the feed's consumers (feed/)
    ├── backups, restores            names of past states, and restores in progress, at the catalog (restores.py)
    ├── jobs                         exports, imports and bulk operations, at the catalog (jobs.py)
    └── genesis, level, log time, next offset, next id

The state depends only on the entries, so the same log produces the same state, byte for byte (`dump.py`). Only the
fold changes it.
"""

from bisect import bisect_left, insort
from collections import deque
from dataclasses import field, replace
from typing import Final

from ...log.commands import Genesis, IndexEntry, IndexSent, Relay
from ...model.backups import Backup
from ...model.capacity_partitions import first_boundary
from ...model.errors import ResourceNotFoundError
from ...model.jobs import Job
from ...model.keys import slot
from ...model.lazy_dataclass import dataclass
from ...model.limits import MODERN, Limits, limits_named
from ...model.slots import data_partitions, slots_of
from ...model.subscriptions import Subscription
from ...model.tables import IndexDefinition, TableDefinition, name_of
from ...model.throughput import units_of
from .feed.capture import CapturePeriod, CapturePeriods, ShardSplit, divide_shards, update_periods
from .storage import MemoryStore, NewStore, Store
from .transactions.state import Transactions

ORIGINS_KEPT = 1024
FEED_LEVEL: Final = 3
"""From this level on changes are captured, subscriptions exist, and a Commit names the changes of its transaction."""
EXPRESSION_LEVEL: Final = 4
"""From this level on an update that creates an item reads its key, and NOT_CONTAINS in Expected requires its attribute.
"""
HISTORY_LEVEL: Final = 5
"""From this level on entries have a salt, and commands may have a reason; backups, restores and jobs exist."""

_USABLE: Final = frozenset(("ACTIVE", "UPDATING"))


class Index:
    """A secondary index: its entries under (index partition key, composite of index sort key and table key).

    Attributes:
        cursor: During a backfill, the (hash, pk, sk) of the last table item that was entered.
        is_sent: Whether all items of this partition have their entries, here or in messages to other partitions.
        complete_senders: The partitions that have sent all their entries for this partition, sorted.
    """

    __slots__ = ("complete_senders", "cursor", "definition", "is_sent", "kept", "store")

    def __init__(self, definition: IndexDefinition, table: TableDefinition, new_store: NewStore) -> None:
        self.definition = definition
        self.store = new_store(definition.id, True)
        self.cursor: tuple[int, bytes, bytes] | None = None
        self.is_sent = False
        self.complete_senders: list[int] = []
        self.kept = _kept(definition, table)

    def define(self, definition: IndexDefinition) -> None:
        """Replace the definition of this index; a filled index drops the state of its backfill."""
        self.definition = definition
        if not definition.backfilling:
            self.is_sent, self.complete_senders = False, []

    @property
    def is_filling(self) -> bool:
        """Whether items of this partition may still lack their entries."""
        return self.definition.backfilling and not self.is_sent

    def filled_slots(self, slots: range) -> int:
        """Return how many of the partition's slots are entered during a backfill."""
        if self.is_sent:
            return len(slots)
        return 0 if self.cursor is None else slot(self.cursor[0]) - slots.start


class Table:
    """A table: its definition, its items, its indexes by name."""

    __slots__ = ("_new_store", "definition", "has_lsi", "indexes", "items")

    def __init__(self, definition: TableDefinition, new_store: NewStore = MemoryStore) -> None:
        self._new_store = new_store
        self.items = new_store(definition.id, bool(definition.key.sort))
        self.indexes: dict[str, Index] = {}
        self.define(definition)

    def define(self, definition: TableDefinition) -> list[Store]:
        """Replace the definition: add and remove indexes; an unchanged index keeps its entries.

        Return the stores of the removed indexes.
        """
        self.definition = definition
        self.has_lsi = bool(definition.lsis)
        kept = {}
        for index in definition.indexes:
            present = self.indexes.get(index.name)
            if present is None or present.definition.id != index.id:
                present = Index(index, definition, self._new_store)
            present.define(index)
            kept[index.name] = present
        removed = [index.store for name, index in self.indexes.items() if kept.get(name) is not index]
        self.indexes = kept
        return removed

    @property
    def stores(self) -> list[Store]:
        """The stores of the items and of the entries of each index."""
        return [self.items, *(index.store for index in self.indexes.values())]

    def collection_size(self, pk: bytes) -> int:
        """Return the bytes of an item collection: its items and their entries in local indexes."""
        size = self.items.collection_size(pk)
        for index in self.indexes.values():
            if index.definition.kind == "LSI":
                size += index.store.collection_size(pk)
        return size


@dataclass(frozen=True, slots=True)
class TransactionToken:
    """A used ClientRequestToken: the fingerprint of its payload, and the log time of its use."""

    fingerprint: bytes
    time: int


@dataclass(slots=True)
class Pending:
    """A table whose definition is being rolled out: until all apply `version` and, if `delayed`, until Settle."""

    version: int
    delayed: bool


@dataclass(slots=True)
class DefinitionRollout:
    """The rollout of the catalog's definitions to the other partitions.

    Attributes:
        version: The number of definitions sent so far.
        applied: By partition, the last version that it has applied.
        pending: The tables whose definitions are being rolled out.
        filled: By new index, the partitions that have filled their part of it, sorted.
    """

    version: int = 0
    applied: dict[int, int] = field(default_factory=dict)
    pending: dict[int, Pending] = field(default_factory=dict)
    filled: dict[int, list[int]] = field(default_factory=dict)


@dataclass(slots=True)
class Outbox:
    """The messages to one receiver that are not acknowledged, and the number of the next message."""

    next_message_number: int = 0
    unacknowledged: deque[Relay] = field(default_factory=deque)


@dataclass(slots=True)
class PartitionState:
    """The state of one partition. `origins` is in order of last use, oldest first; `tokens` is in order of time.

    Attributes:
        slots: The slots that the partition owns.
        outboxes: The messages to other partitions, by receiver.
        unacknowledged_bytes: The approximate size of all unacknowledged messages.
        received: By sender, the number of its next message.
        deferred: Messages about indexes whose definition has not arrived yet, with their senders.
        voided: Records and commands that were declared void and skipped: offset, and index for a single command.
        periods: The capture periods in this partition, by table id.
        subscriptions: All subscriptions by name, at the catalog.
        backups: All backups by ARN, at the catalog.
        restores: The cursors of restores in progress that have reported one, by table id, at the catalog.
        jobs: The jobs of the last 90 days by ARN, at the catalog, in the order in which they began.
        new_store: Makes the stores of new tables and indexes.
        unsettled: The ids of tables that are not ACTIVE or have an index that is not filled.
        expiring: The ids of tables that have a time-to-live attribute.
        sorted_names: The names of all tables.
        redefined: By id, the tables that the last record created, changed or deleted, with the definition before it.
        dropped: The stores that the last record removed from the state.
    """

    genesis: Genesis | None = None
    limits: Limits = MODERN
    level: int = 0
    next_offset: int = 0
    log_time: int = 0
    next_id: int = 1
    tables: dict[int, Table] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    origins: dict[bytes, int] = field(default_factory=dict)
    tokens: dict[str, TransactionToken] = field(default_factory=dict)
    transactions: Transactions = field(default_factory=Transactions)
    outboxes: dict[int, Outbox] = field(default_factory=dict)
    unacknowledged_bytes: int = 0
    received: dict[int, int] = field(default_factory=dict)
    deferred: list[tuple[int, IndexEntry | IndexSent]] = field(default_factory=list)
    rollout: DefinitionRollout = field(default_factory=DefinitionRollout)
    voided: list[tuple[int, int | None]] = field(default_factory=list)
    periods: CapturePeriods = field(default_factory=dict)
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    backups: dict[str, Backup] = field(default_factory=dict)
    restores: dict[int, bytes] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    new_store: NewStore = MemoryStore
    partition: int = field(init=False, default=0)
    partitions: int = field(init=False, default=1)
    slots: range = field(init=False, default=slots_of(0, 1))
    unsettled: set[int] = field(init=False, default_factory=set)
    expiring: set[int] = field(init=False, default_factory=set)
    sorted_names: list[str] = field(init=False, default_factory=list)
    redefined: dict[int, TableDefinition | None] = field(init=False, default_factory=dict)
    dropped: list[Store] = field(init=False, default_factory=list)
    _units: tuple[int, int] = field(init=False, default=(0, 0))

    def __post_init__(self) -> None:
        if self.genesis is not None:
            self._apply_genesis(self.genesis)

    def begin(self, genesis: Genesis) -> None:
        """Apply the first Genesis of the log."""
        self.genesis = genesis
        self.level = genesis.level
        self.limits = limits_named(genesis.limits)
        self._apply_genesis(genesis)

    def reset(self) -> None:
        """Become the empty state again, for all objects that refer to this one."""
        PartitionState.__init__(self, new_store=self.new_store)

    def _apply_genesis(self, genesis: Genesis) -> None:
        self.partition, self.partitions = genesis.partition, genesis.partitions
        self.slots = slots_of(genesis.partition, genesis.partitions)

    def install(self, definition: TableDefinition, sequence_number: int) -> None:
        """Create or redefine a table from the command with that sequence number on."""
        table = self.tables.get(definition.id)
        if table is None:
            self.add(definition)
            self.names[definition.name] = definition.id
        else:
            self._divide_shards(table.definition, definition, sequence_number)
            self._redefine(definition.id, table.definition, definition)
            self.dropped += table.define(definition)
        self.next_id = max([self.next_id, definition.id + 1, *(index.id + 1 for index in definition.indexes)])
        update_periods(self.periods, definition.id, definition, sequence_number, self.log_time)

    def add(self, definition: TableDefinition) -> Table:
        """Add an empty table, as it is created or loaded, and return it."""
        table = self.tables[definition.id] = Table(definition, self.new_store)
        self._redefine(definition.id, None, definition)
        return table

    def _redefine(self, table_id: int, before: TableDefinition | None, after: TableDefinition | None) -> None:
        """Keep the facts about all tables that no request can afford to collect from each of them."""
        self.redefined.setdefault(table_id, before)
        if after is not None and after.ttl_attribute is not None:
            self.expiring.add(table_id)
        else:
            self.expiring.discard(table_id)
        if before is None and after is not None:
            insort(self.sorted_names, after.name)
        elif before is not None and after is None:
            del self.sorted_names[bisect_left(self.sorted_names, before.name)]
        if after is None or (
            after.status == "ACTIVE" and not any(each.backfilling for each in after.indexes)
        ):
            self.unsettled.discard(table_id)
        else:
            self.unsettled.add(table_id)
        (read, write), (old_read, old_write) = self._units, _units_of(before)
        new_read, new_write = _units_of(after)
        self._units = read - old_read + new_read, write - old_write + new_write

    def begin_record(self) -> None:
        """Forget the effects of the last record on definitions."""
        if self.redefined:
            self.redefined.clear()
            self.dropped.clear()

    def units_of_others(self, table: Table | None) -> tuple[int, int]:
        """Return the read and write units that all tables but one have provisioned; None excludes no table."""
        own_read, own_write = _units_of(None if table is None else table.definition)
        read, write = self._units
        return read - own_read, write - own_write

    def _divide_shards(self, before: TableDefinition, after: TableDefinition, sequence_number: int) -> None:
        """Divide the shards of the table's stream at each new boundary between two keys of this partition."""
        known = len(before.capacity_partitions.splits) if before.capacity_partitions is not None else 0
        splits = () if after.capacity_partitions is None else after.capacity_partitions.splits[known:]
        for split in splits:
            boundary = split.boundary
            if slot(boundary.hash) in self.slots and boundary != first_boundary(self.slots.start):
                divided = ShardSplit(sequence_number, self.log_time, boundary)
                divide_shards(self.periods, after.id, divided)

    def drop(self, table_id: int, sequence_number: int) -> None:
        """Delete a table from the command with that sequence number on. That cancels its import."""
        table = self.tables.pop(table_id, None)
        if table is not None:
            self._redefine(table_id, table.definition, None)
            self.dropped += table.stores
            del self.names[table.definition.name]
            self.restores.pop(table_id, None)
            self._cancel_import(table_id)
            update_periods(self.periods, table_id, None, sequence_number, self.log_time)

    def _cancel_import(self, table_id: int) -> None:
        for job in self.jobs.values():
            if job.table_id == table_id and job.kind == "import" and job.is_running:
                self.jobs[job.arn] = replace(job, status="CANCELLED", ended_ms=self.log_time)

    def capture_periods(self, table_id: int) -> list[CapturePeriod]:
        """Return the capture periods of a table in this partition, in the order in which they began."""
        return self.periods.get(table_id, [])

    def is_applied_everywhere(self, version: int) -> bool:
        """Whether every partition is known to have applied the catalog's definitions up to `version`."""
        applied = self.rollout.applied
        return self.partitions == 1 or all(
            applied.get(partition, 0) >= version for partition in data_partitions(self.partitions)
        )

    def subscription(self, subscription_id: int) -> Subscription | None:
        """Return the subscription with that id, or None."""
        return next((one for one in self.subscriptions.values() if one.id == subscription_id), None)

    def table_named(self, name: str) -> Table | None:
        """Return the table with that name, or None."""
        table_id = self.names.get(name)
        return None if table_id is None else self.tables[table_id]

    def usable_table(self, name: str) -> Table:
        """Return the table that a TableName (a name or an ARN) means, to read or write items.

        Raises:
            ResourceNotFoundError: No table has the name, or the table is CREATING or DELETING.
        """
        table_id = self.names.get(name) or self.names.get(name_of(name))
        if table_id is not None:
            table = self.tables[table_id]
            if table.definition.status in _USABLE:
                return table
        raise ResourceNotFoundError

    def count_entry(self, origin: bytes, entry_number: int) -> bool:
        """Count the entry and return True if it is the next entry of its origin.

        A lower entry number is a duplicate. A higher one, or an unknown origin that does not begin at 0, is stale.
        Origins are dropped by count, never by time, so a process that slept for an hour cannot apply an entry twice.
        """
        if self.origins.get(origin, 0) != entry_number:
            return False
        self.origins.pop(origin, None)
        self.origins[origin] = entry_number + 1
        if len(self.origins) > ORIGINS_KEPT:
            del self.origins[next(iter(self.origins))]
        return True

    def forget_old_tokens(self) -> None:
        """Drop the tokens that are older than ten minutes, oldest first."""
        horizon = self.log_time - self.limits.token_window_ms
        while self.tokens:
            token = next(iter(self.tokens))
            if self.tokens[token].time > horizon:
                return
            del self.tokens[token]


def _units_of(definition: TableDefinition | None) -> tuple[int, int]:
    return (0, 0) if definition is None else units_of([definition])


def _kept(index: IndexDefinition, table: TableDefinition) -> tuple[str, ...] | None:
    """Return the attributes that the index's entries hold, in a fixed order; None for all."""
    if index.projection.kind == "ALL":
        return None
    named = (*table.key.names, *index.key.names, *index.projection.attributes)
    return tuple(dict.fromkeys(named))
