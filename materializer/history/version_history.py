"""The versions of one epoch, and its states at cuts.

at(cut) ──► stamp of the cut ──► VersionedState ──► Table with its definition at the cut, and stores at the cut

The versions of the *base* are copies of older ones, at the offset before the epoch's first record.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol

from ...log.commands import Position, Put
from ...model.errors import HorizonError
from ...model.limits import MODERN, Limits
from ...model.tables import TableDefinition
from ..fold.read_requests import Page
from ..fold.reads import PageReader, Request, last_key
from ..fold.state import Table
from ..fold.storage import Stored
from ..fold.transactions.participant import current_decision
from ..fold.transactions.state import Effect, TransactionId
from .decided_parts import decided_parts
from .definitions import Catalog, Definitions
from .engine import Engine
from .history import History, NotFoldedError, PartitionCut, TimeCut
from .past_store import PAGE_LOOKS, Looks, PastStore
from .timeline import last_offset_at, time_at
from .version_keys import StoreKeys, offset_of, pack_position, stamp, time_stamp

_WHOLE_PAGE: Final = 1 << 62


class VersionHistory:
    """See the module. A follower (follower.py) keeps the attributes of an epoch that is being folded up to date.

    Attributes:
        engine: The storage.
        partition: The partition.
        first_offset: The offset of the first record of the epoch.
        end_offset: The offset of the first record of the next epoch; None for the newest.
        next_offset: The offset after the newest that can be read.
        log_time: Log time there.
        closed_before: The times below this one are closed.
        limits: The limits of the log.
        definitions: The definitions of tables over time.
        prepared: The positions of the Prepares that have no decision before `next_offset`; see PartWriter.
    """

    def __init__(self, engine: Engine, partition: int, first_offset: int) -> None:
        self.engine = engine
        self.partition = partition
        self.first_offset = first_offset
        self.end_offset: int | None = None
        self.next_offset = first_offset
        self.log_time = 0
        self.closed_before = 0
        self.limits: Limits = MODERN
        self.definitions = Definitions(engine)
        self.prepared: Mapping[TransactionId, int] = {}

    def is_of_base(self, packed: int) -> bool:
        """Return whether the version at a packed position is a copy in the base."""
        return offset_of(packed) < self.first_offset

    def at(self, cut: PartitionCut, horizon: int) -> "VersionedState":
        """Return the state at a cut, which is not before the base. `horizon` is the first offset of the log.

        Raises:
            HorizonError: The cut is a time before the log's first record.
            NotFoldedError: The cut is newer than the folded records, or is a time that is not closed.
        """
        if isinstance(cut, TimeCut):
            return self._at_time(cut.time_ms, horizon)
        if cut.offset >= self.next_offset:
            raise NotFoldedError(f"position {cut.text()} is not folded yet")
        packed = pack_position(cut.offset, cut.index)
        time_ms = time_at(self.engine, cut.offset)
        position = Position(cut.partition, cut.offset, cut.index, time_ms)
        return VersionedState(
            self, stamp(time_ms, packed), position, self.definitions.at_position(packed), None
        )

    def _at_time(self, time_ms: int, horizon: int) -> "VersionedState":
        if time_ms >= self.closed_before:
            raise NotFoldedError(f"the state at {time_ms} ms is not final yet")
        offset = last_offset_at(self.engine, time_ms, self.first_offset, self.next_offset)
        if offset < horizon:
            raise HorizonError(f"the log begins after {time_ms} ms")
        position = Position(self.partition, offset, time_ms=time_at(self.engine, offset))
        return VersionedState(self, time_stamp(time_ms), position, self.definitions.at_time(time_ms), time_ms)


class SpannedHistory(History, Protocol):
    """A history whose reads go on from one epoch to the next older one."""

    def at(self, cut: PartitionCut) -> "VersionedState":
        """Return the state at a cut, in one epoch; see `History`."""
        ...

    def epoch_at(self, offset: int) -> VersionHistory:
        """Return the epoch of the record at an offset, with all its records.

        Raises:
            NotFoldedError: The epoch is not folded yet. It will be.
        """
        ...


class VersionedState:
    """The state of a partition at a cut, to be read only; see `PastState` in history.py.

    Attributes:
        history: The epoch.
        engine: Its storage.
        cut: The stamp of the cut.
        time_ms: The time of a cut by time; None for a cut by position.
    """

    def __init__(
        self, history: VersionHistory, cut: bytes, position: Position, catalog: Catalog, time_ms: int | None
    ) -> None:
        self.history = history
        self.position = position
        self.limits = history.limits
        self.names = catalog.names
        self.engine = history.engine
        self.cut = cut
        self.time_ms = time_ms
        self._definitions = catalog.definitions
        self._effects: Sequence[tuple[int, Effect]] = ()
        self.tables: Mapping[int, Table] = _Tables(self)

    def same_definitions(self) -> tuple[int, int]:
        """Return the cuts of the same kind that have the tables of this one: the first, and the one after the last.

        They are milliseconds or packed positions. The first is in the epoch, whose base defines its tables again; it is
        0 without tables. The last is in the folded part.
        """
        history, definitions = self.history, self.history.definitions
        if self.time_ms is not None:
            since, until = definitions.same_times(self.time_ms)
            return since, min(until, history.closed_before)
        since, until = definitions.same_positions(pack_position(self.position.offset, self.position.index))
        return since, min(until, pack_position(history.next_offset, 0))

    def lay_decided(self, positions: Sequence[Position]) -> None:
        """Show the transactions that were decided at these positions of other partitions and are applied later here.

        Raises:
            NotFoldedError: A transaction was prepared at the cut, and its decision is not folded yet.
        """
        own, history = self.history.partition, self.history
        cut = pack_position(self.position.offset, self.position.index)
        decided = {
            each.partition: pack_position(each.offset, each.index)
            for each in positions
            if each.partition != own
        }
        for (coordinator, _), prepared in history.prepared.items():
            if coordinator in decided and prepared <= cut:
                raise NotFoldedError(f"a transaction of position {self.position.text()} is not decided yet")
        self._effects = list(decided_parts(self.engine, cut, decided))

    def laid(self, table_id: int) -> dict[bytes, tuple[int, Stored | None]]:
        """Return the items that `lay_decided` shows in a table, by version key, with the positions of the Commits."""
        keys = StoreKeys(table_id)
        return {
            keys.key(each.pk, each.sk): (commit, (each.item, each.size) if isinstance(each, Put) else None)
            for commit, each in self._effects
            if each.table == table_id
        }

    def table(self, definition: TableDefinition, looks: Looks | None = None) -> Table:
        """Return a table with stores at the cut."""
        packed = pack_position(self.position.offset, self.position.index)
        table = Table(
            definition,
            lambda store_id, _: PastStore(self.engine, store_id, self.cut, packed, self.time_ms, looks),
        )
        for _, effect in self._effects:
            if effect.table == definition.id:
                _lay(table, effect, self.limits)
        return table

    def read_page(
        self, request: Request, page_bytes: int = MODERN.page_bytes, looks: int = PAGE_LOOKS
    ) -> Page:
        """Read a page of a Query or Scan. The page also ends after it has looked at `looks` versions.

        Raises:
            KeyError: The table did not exist.
            ValidationError: The index does not exist or is being backfilled, or `start` belongs to another segment.
        """
        counter = Looks(looks)
        table = self.table(self._definitions[request.table], counter)
        page = PageReader(table, request, page_bytes).read(_WHOLE_PAGE)
        assert page is not None, "a portion without a bound is the whole page"
        if counter.stopped_at is not None and page.last is None:
            index = None if request.index is None else table.indexes[request.index]
            page.last = page.tail = last_key(table, index, counter.stopped_at)
        return page


def _lay(table: Table, effect: Effect, limits: Limits) -> None:
    """Show an item, and its entries in local indexes, as if a transaction had applied this effect already.

    Entries of a global index follow by messages, also to a live read.
    """
    decision = current_decision(table, effect, limits)
    laid = [(table.items, (effect.pk, effect.sk), decision.new)]
    for update in decision.index_updates:
        if update.index.definition.kind == "LSI":
            if update.old_key is not None:
                laid.append((update.index.store, update.old_key, None))
            if update.new_key is not None:
                laid.append((update.index.store, update.new_key, update.entry))
    for store, key, stored in laid:
        assert isinstance(store, PastStore), "a table at a cut has stores at the cut"
        store.lay(*key, stored)


class _Tables(Mapping[int, Table]):
    """The tables at a cut, by id. Each is made when it is used: a request needs one of many."""

    def __init__(self, state: VersionedState) -> None:
        self._state = state
        self._made: dict[int, Table] = {}

    def __getitem__(self, table_id: int) -> Table:
        table = self._made.get(table_id)
        if table is None:
            table = self._state.table(self._state._definitions[table_id])
            self._made[table_id] = table
        return table

    def __iter__(self) -> Iterator[int]:
        return iter(self._state._definitions)

    def __len__(self) -> int:
        return len(self._state._definitions)
