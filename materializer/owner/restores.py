"""The copies of items into tables that are being restored or imported: a duty of the catalog's owner.

    page of the source ──► Load to the partitions that own the keys in the new table ──► RestoreProgress
        ──► next page, read in the meantime ... ──► RestoreProgress(done): the table becomes ACTIVE

The source is the past of a table, or files (copy_sources.py). All that a copy needs is in the state: the source, and
the cursor of the last progress. So another owner continues, after a crash or a failover, with the page after the
cursor. Two owners at once do no harm, because an item can be loaded twice. A page is loaded in portions, one per turn
of the loop. A deleted table ends its copy.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Final

from ...log.commands import Load, LoadedItem, new_context
from ...model.errors import RequestError, ServiceUnavailableError
from ...model.keys import Slots
from ...model.slots import CATALOG, partition_of
from ...model.tables import TableDefinition
from ..fold.outcomes import Failed, Outcome, Skipped
from ..fold.state import PartitionState
from ..history.requests import PartitionWithHistory
from ..partition import ResultPosition
from ..worker import Cancellable, Scheduler
from .copy_sources import CopySource, ImportSource, PastSource, SourcePage
from .job_files import JobFiles
from .timers import Proposer

PORTION_ITEMS = 500
"""Items that are loaded in one turn of the loop: about ten milliseconds of work, here and in the fold."""

PORTION_BYTES = 256 * 1024
"""The bytes after which a portion of larger items ends."""

UNANSWERED_ITEMS = 1_000
"""Items that are loaded and not answered, at which the next portion waits. So the next portion is made while the log
syncs the one before, and a client's write to the same partition waits for few items."""

_COMMAND_BYTES: Final = 256
_RETRY_SECONDS: Final = 1.0
# Seconds between two looks whether all partitions have the definition of the table.
_POLL_SECONDS: Final = 0.005
_RESTORER: Final = new_context(request_id="", source="restore")

logger = logging.getLogger(__name__)


class Restores:
    """The copies that run here, one for each table that is being restored. A partition other than the catalog has none.

    Args:
        catalog: Receives the progress.
        state: The state of the catalog.
        partitions: All partitions, by id; the caller may replace elements.
        scheduler: The loop.
        files: The files of imports; without them no import runs.
    """

    def __init__(
        self,
        catalog: Proposer,
        state: PartitionState,
        partitions: Sequence[PartitionWithHistory],
        scheduler: Scheduler,
        files: JobFiles | None = None,
    ) -> None:
        self._catalog = catalog
        self._state = state
        self._partitions = partitions
        self._scheduler = scheduler
        self._files = files
        self._copies: dict[int, Copy] = {}
        self._is_closed = False

    def begin(self, table_id: int) -> None:
        """Start the copy of a table that is being restored, unless it runs."""
        if self._is_closed or self._state.partition != CATALOG or table_id in self._copies:
            return
        source = self._source(self._state.tables[table_id].definition)
        if source is None:
            return
        self._copies[table_id] = copy = Copy(
            self._catalog,
            self._state,
            self._partitions,
            self._scheduler,
            table_id,
            source,
            ended=self._ended,
        )
        copy.advance()

    def close(self) -> None:
        self._is_closed = True
        for copy in self._copies.values():
            copy.close()

    def _source(self, definition: TableDefinition) -> CopySource | None:
        restore = definition.restore
        assert restore is not None, "a table that is being restored has a source"
        if not restore.is_import:
            return PastSource(self._state, self._partitions, definition)
        return None if self._files is None else ImportSource(self._state, self._files, definition)

    def _ended(self, table_id: int) -> None:
        del self._copies[table_id]


class Copy:
    """The copy of the items of one table. `ended` is called with the table's id."""

    def __init__(
        self,
        catalog: Proposer,
        state: PartitionState,
        partitions: Sequence[PartitionWithHistory],
        scheduler: Scheduler,
        table_id: int,
        source: CopySource,
        *,
        ended: Callable[[int], None],
    ) -> None:
        self._catalog = catalog
        self._state = state
        self._partitions = partitions
        self._scheduler = scheduler
        self._table_id = table_id
        self._source = source
        self._ended = ended
        self._slots: Slots = Slots(table_id)
        self._timer: Cancellable | None = None
        self._is_closed = False
        self._has_failed = False
        # The read of a page: its cursor, its answer if it came before it was needed, and whether the copy waits for it.
        self._reading: bytes | None = None
        self._ahead: SourcePage | RequestError | None = None
        self._is_awaited = False
        # The page that is being loaded: its items, and the cursor after it.
        self._items: Iterator[LoadedItem] = iter(())
        self._following = b""
        self._positions: dict[int, ResultPosition] = {}  # of the last Load of the page, by partition
        self._unanswered = 0  # the items under way, or the partitions that are waited for
        self._error: RequestError | None = None

    def advance(self) -> None:
        """Read the page after the cursor in the state."""
        self._timer = None
        if self._definition is None:
            self._source.close()
            self._ended(self._table_id)
            return
        if not self._state.is_applied_everywhere(self._state.rollout.version):
            self._timer = self._scheduler.call_later(_POLL_SECONDS, self.advance)
            return
        cursor = self._source.cursor
        if self._source.is_end(cursor):
            self._report(cursor, done=True)
            return
        if self._reading != cursor:
            self._read(cursor)
        answer, self._ahead = self._ahead, None
        self._is_awaited = answer is None
        if answer is not None:
            self._on_page(answer)

    def close(self) -> None:
        """Stop; commands in flight complete by themselves."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._source.close()

    @property
    def _definition(self) -> TableDefinition | None:
        """The table; None if the copy has to end, because the table is deleted or has all items."""
        table = self._state.tables.get(self._table_id)
        if self._is_closed or table is None or not table.definition.is_restoring:
            return None
        return table.definition

    def _read(self, cursor: bytes) -> None:
        """Read the page after a cursor, now or while the page before it is loaded."""
        self._reading, self._ahead, self._is_awaited = cursor, None, False
        self._source.read(cursor, partial(self._on_read, cursor))

    def _on_read(self, cursor: bytes, answer: SourcePage | RequestError) -> None:
        if cursor != self._reading:
            return  # the copy was tried again since
        if self._is_awaited:
            self._is_awaited = False
            self._on_page(answer)
        else:
            self._ahead = answer

    def _on_page(self, answer: SourcePage | RequestError) -> None:
        self._reading = None
        if isinstance(answer, RequestError):
            self._retry(answer)
            return
        self._following = answer.following
        if self._definition is not None and not self._source.is_end(self._following):
            self._read(self._following)
        self._items = iter(answer.items)
        self._positions = {}
        self._error = None
        self._load()

    def _load(self) -> None:
        """Load the next portion of the page, if few items are under way; report the page when all are answered."""
        self._timer = None
        definition = self._definition
        may_load = self._error is None and self._unanswered < UNANSWERED_ITEMS
        batches = self._next_batches() if definition is not None and may_load else {}
        if batches:
            for partition_id, items in batches.items():
                self._submit(partition_id, items)
            self._load_soon()
        elif self._unanswered:
            pass  # the next answer continues
        elif self._error is not None:
            self._retry(self._error)
        elif definition is None:
            self.advance()
        elif definition.gsis and self._positions:
            self._reach_all()
        else:
            self._report(self._following)

    def _load_soon(self) -> None:
        if self._timer is None:
            self._timer = self._scheduler.call_later(0, self._load)

    def _next_batches(self) -> dict[int, list[LoadedItem]]:
        """Take the next portion of items, by the partitions that own their keys."""
        batches: dict[int, list[LoadedItem]] = {}
        size = 0
        for item in islice(self._items, PORTION_ITEMS):
            owner = partition_of(self._slots.of(item.pk), self._state.partitions)
            batches.setdefault(owner, []).append(item)
            size += len(item.item)
            if size >= PORTION_BYTES:
                break
        return batches

    def _submit(self, partition_id: int, items: list[LoadedItem]) -> None:
        self._unanswered += len(items)
        size = sum(len(each.item) + len(each.pk) + len(each.sk) for each in items)
        command = Load(self._table_id, items, _RESTORER)
        self._partitions[partition_id].submit(
            command, size + _COMMAND_BYTES, partial(self._on_loaded, partition_id, len(items))
        )

    def _on_loaded(self, partition_id: int, count: int, outcome: Outcome, position: ResultPosition) -> None:
        self._positions[partition_id] = position
        match outcome:
            case Failed(error):
                self._answered(count, error)
            case Skipped():  # the partition does not have the table yet
                self._answered(count, ServiceUnavailableError())
            case _:
                self._answered(count, None)

    def _reach_all(self) -> None:
        """Wait until the indexes have all items of the page."""
        positions, self._positions = self._positions, {}
        self._unanswered = len(positions)
        for partition_id, position in positions.items():
            self._partitions[partition_id].reach(position, partial(self._answered, 1))

    def _answered(self, count: int, error: RequestError | None) -> None:
        self._unanswered -= count
        self._error = self._error or error
        self._load_soon()

    def _report(self, cursor: bytes, *, done: bool = False) -> None:
        """Append that all items up to the cursor are loaded, and continue there."""
        command = self._source.progress(cursor, done=done)
        self._catalog.submit(command, _COMMAND_BYTES, self._on_reported)

    def _on_reported(self, outcome: Outcome, _: ResultPosition) -> None:
        if isinstance(outcome, Failed):
            self._retry(outcome.error)
        else:
            self._has_failed = False
            self.advance()

    def _retry(self, error: RequestError) -> None:
        """Continue at the cursor in the state after a pause. A copy whose table was deleted ends at once."""
        self._reading = self._ahead = None
        if self._definition is None:
            self.advance()
            return
        if not self._has_failed:
            self._has_failed = True
            logger.warning(
                "cannot continue the restore of table %d: %s; trying again every second",
                self._table_id,
                error.message,
            )
        self._timer = self._scheduler.call_later(_RETRY_SECONDS, self.advance)
