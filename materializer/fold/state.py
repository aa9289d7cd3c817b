"""All that a partition knows: what the fold has made of the log so far.

    PartitionState
    ├── tables: id -> Table          definition, items, indexes
    ├── names: name -> id            the catalog
    ├── origins, tokens              what makes a repeated entry or request harmless
    └── genesis, level, log time, next offset, next id

It depends on nothing but the entries, so the same log makes the same state, to the byte (`dump.py`). Nobody
but the fold changes it.
"""

from dataclasses import dataclass, field

from ...log.commands import Genesis
from ...model.limits import MODERN, Limits, limits_named
from ...model.tables import IndexDefinition, TableDefinition
from .storage import Store

ORIGINS_KEPT = 1024


class Index:
    """A secondary index: its entries under (index partition key, composite of index sort key and table key).

    While it is backfilled, `cursor` is the place of the last table item that has its entry, (hash, pk, sk).
    """

    __slots__ = ("cursor", "definition", "kept", "store")

    def __init__(self, definition: IndexDefinition, table: TableDefinition) -> None:
        self.definition = definition
        self.store = Store(definition.id, has_sort_key=True)
        self.cursor: tuple[int, bytes, bytes] | None = None
        self.kept = _kept(definition, table)


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
            here.definition = index
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
class PartitionState:
    """One partition's state. `origins` goes from the least to the most recently used, `tokens` by time."""

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

    def begin(self, genesis: Genesis) -> None:
        """Take the first Genesis of the log."""
        self.genesis = genesis
        self.level = genesis.level
        self.limits = limits_named(genesis.limits)

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
