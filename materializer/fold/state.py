"""All that a partition knows: what the fold has made of the log so far.

    PartitionState
    ├── tables: id -> Table          definition, items, indexes
    ├── names: name -> id            the catalog
    ├── origins, tokens              what makes a repeated entry or request harmless
    ├── transactions                 those that take more than one step
    ├── outboxes, received, early    what partitions tell each other (outbox.py, messages.py)
    ├── spreading                    definitions on their way to all partitions, at the catalog
    ├── streams, subscriptions       what changes are captured, and who reads them (feed/)
    └── genesis, level, log time, next offset, next id

It depends on nothing but the entries, so the same log makes the same state, to the byte (`dump.py`). Nobody
but the fold changes it.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from ...log.commands import Genesis, IndexEntry, IndexSent, Relay
from ...model.limits import MODERN, Limits, limits_named
from ...model.slots import data_partitions, slots_of
from ...model.subscriptions import Subscription
from ...model.tables import IndexDefinition, TableDefinition
from .feed.capture import CapturePeriod, Windows, follow
from .storage import Store
from .transactions.state import Transactions

ORIGINS_KEPT = 1024
FEED_LEVEL: Final = 3
"""From this level on changes are captured, subscriptions are kept, and commits tell what they change."""
EXPRESSION_LEVEL: Final = 4
"""From this level on an update that creates an item reads its key, and NOT_CONTAINS in Expected needs its attribute."""


class Index:
    """A secondary index: its entries under (index partition key, composite of index sort key and table key).

    Attributes:
        cursor: While it is backfilled, the place of the last table item that has its entry, (hash, pk, sk).
        is_sent: All items of this partition have their entries, here or on their way to other partitions.
        heard: The partitions from which all entries for this one are here, sorted.
    """

    __slots__ = ("cursor", "definition", "heard", "is_sent", "kept", "store")

    def __init__(self, definition: IndexDefinition, table: TableDefinition) -> None:
        self.definition = definition
        self.store = Store(definition.id, has_sort_key=True)
        self.cursor: tuple[int, bytes, bytes] | None = None
        self.is_sent = False
        self.heard: list[int] = []
        self.kept = _kept(definition, table)

    def define(self, definition: IndexDefinition) -> None:
        """Take over a new definition of the same index; one that is filled everywhere has nothing more to tell."""
        self.definition = definition
        if not definition.backfilling:
            self.is_sent, self.heard = False, []

    @property
    def is_filling(self) -> bool:
        """Whether items of this partition may still be without their entries."""
        return self.definition.backfilling and not self.is_sent


class Table:
    """A table: its definition, its items, its indexes by name."""

    __slots__ = ("definition", "has_lsi", "indexes", "items")

    def __init__(self, definition: TableDefinition) -> None:
        self.items = Store(definition.id, has_sort_key=bool(definition.key.sort))
        self.indexes: dict[str, Index] = {}
        self.define(definition)

    def define(self, definition: TableDefinition) -> None:
        """Take over a new definition: indexes come and go, the others keep their entries."""
        self.definition = definition
        self.has_lsi = bool(definition.lsis)
        kept = {}
        for index in definition.indexes:
            here = self.indexes.get(index.name)
            if here is None or here.definition.id != index.id:
                here = Index(index, definition)
            here.define(index)
            kept[index.name] = here
        self.indexes = kept

    def collection_size(self, pk: bytes) -> int:
        """Bytes of an item collection: its items and their entries in local indexes."""
        size = self.items.collection_size(pk)
        for index in self.indexes.values():
            if index.definition.kind == "LSI":
                size += index.store.collection_size(pk)
        return size


@dataclass(frozen=True, slots=True)
class Token:
    """A ClientRequestToken that was used: by which payload, and when in log time."""

    fingerprint: bytes
    time: int


@dataclass(slots=True)
class Pending:
    """A table that is on its way: until all have applied `version`, and its delay is over if `delayed`."""

    version: int
    delayed: bool


@dataclass(slots=True)
class DefinitionRollout:
    """How the catalog's definitions get to the other partitions.

    Attributes:
        version: How many have been sent.
        applied: Of each partition the last that it has applied.
        pending: The tables that are on their way.
        filled: Of each new index the partitions whose part of it is whole, sorted.
    """

    version: int = 0
    applied: dict[int, int] = field(default_factory=dict)
    pending: dict[int, Pending] = field(default_factory=dict)
    filled: dict[int, list[int]] = field(default_factory=dict)


@dataclass(slots=True)
class Outbox:
    """The messages to one receiver: the number that the next one gets, and those that it has not acknowledged."""

    next_number: int = 0
    unacknowledged: deque[Relay] = field(default_factory=deque)


@dataclass(slots=True)
class PartitionState:
    """One partition's state. `origins` goes from the least to the most recently used, `tokens` by time.

    Attributes:
        slots: Those that the partition owns.
        outboxes: What it told the others, by receiver.
        unacknowledged_bytes: About how much of that waits to be acknowledged.
        received: The number of the next message from each sender.
        deferred: Messages about indexes of which the definition has yet to come, with their senders.
        voided: What an operator declared void and was passed over: offset, and index if it was one command.
        streams: From where to where changes are captured here, by table id.
        subscriptions: By name, at the catalog.
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
    tokens: dict[str, Token] = field(default_factory=dict)
    transactions: Transactions = field(default_factory=Transactions)
    outboxes: dict[int, Outbox] = field(default_factory=dict)
    unacknowledged_bytes: int = 0
    received: dict[int, int] = field(default_factory=dict)
    deferred: list[tuple[int, IndexEntry | IndexSent]] = field(default_factory=list)
    spreading: DefinitionRollout = field(default_factory=DefinitionRollout)
    voided: list[tuple[int, int | None]] = field(default_factory=list)
    streams: Windows = field(default_factory=dict)
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    partition: int = field(init=False, default=0)
    partitions: int = field(init=False, default=1)
    slots: range = field(init=False, default=slots_of(0, 1))

    def __post_init__(self) -> None:
        if self.genesis is not None:
            self._take_place(self.genesis)

    def begin(self, genesis: Genesis) -> None:
        """Take the first Genesis of the log."""
        self.genesis = genesis
        self.level = genesis.level
        self.limits = limits_named(genesis.limits)
        self._take_place(genesis)

    def _take_place(self, genesis: Genesis) -> None:
        self.partition, self.partitions = genesis.partition, genesis.partitions
        self.slots = slots_of(genesis.partition, genesis.partitions)

    def install(self, definition: TableDefinition, number: int) -> None:
        """Have a table be as `definition` says, from the command of that sequence number on."""
        table = self.tables.get(definition.id)
        if table is None:
            self.tables[definition.id] = Table(definition)
            self.names[definition.name] = definition.id
        else:
            table.define(definition)
        self.next_id = max([self.next_id, definition.id + 1, *(index.id + 1 for index in definition.indexes)])
        follow(self.streams, definition.id, definition, number, self.log_time)

    def drop(self, table_id: int, number: int) -> None:
        """Have a table no more, from the command of that sequence number on."""
        table = self.tables.pop(table_id, None)
        if table is not None:
            del self.names[table.definition.name]
            follow(self.streams, table_id, None, number, self.log_time)

    def windows_of(self, table_id: int) -> list[CapturePeriod]:
        """From where to where changes of a table are captured here, in the order in which that began."""
        return self.streams.get(table_id, [])

    def told_to_all(self, version: int) -> bool:
        """Whether, by what the catalog knows, every partition has applied its definitions up to `version`."""
        applied = self.spreading.applied
        return self.partitions == 1 or all(
            applied.get(partition, 0) >= version for partition in data_partitions(self.partitions)
        )

    def subscription(self, subscription_id: int) -> Subscription | None:
        """The subscription of that id, if there is one."""
        return next((one for one in self.subscriptions.values() if one.id == subscription_id), None)

    def table_named(self, name: str) -> Table | None:
        """The table of that name, if there is one."""
        table_id = self.names.get(name)
        return None if table_id is None else self.tables[table_id]

    def count_origin(self, origin: bytes, number: int) -> bool:
        """Whether entry `number` is the next of its origin; if so it is counted.

        Lower is a duplicate; higher, or an unknown origin that does not begin at 0, is stale. Origins are
        forgotten by count, never by time, so a process that slept for an hour cannot apply twice.
        """
        if self.origins.get(origin, 0) != number:
            return False
        self.origins.pop(origin, None)
        self.origins[origin] = number + 1
        if len(self.origins) > ORIGINS_KEPT:
            del self.origins[next(iter(self.origins))]
        return True

    def forget_old_tokens(self) -> None:
        """Drop the tokens whose ten minutes are over, oldest first."""
        horizon = self.log_time - self.limits.token_window_ms
        while self.tokens:
            token = next(iter(self.tokens))
            if self.tokens[token].time > horizon:
                return
            del self.tokens[token]


def _kept(index: IndexDefinition, table: TableDefinition) -> tuple[str, ...] | None:
    """The attributes that the index's entries hold, in a fixed order; None for all."""
    if index.projection.kind == "ALL":
        return None
    named = (*table.key.names, *index.key.names, *index.projection.attributes)
    return tuple(dict.fromkeys(named))
