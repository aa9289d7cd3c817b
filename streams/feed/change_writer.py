"""Moves a partition's changes from memory into segments, reads them back, and trims them after the retention.

    enough unsent changes ──► append to a segment        every 10 s ──► sync, write the durable offset, remove expired

Threads write and read files (serial_executor.py); the bookkeeping is done on the loop. A full disk does not block
writes to tables: beyond a bound the oldest changes are dropped from memory. Readers see that as a higher trim horizon,
and the next start rebuilds the changes.
"""

import logging
from collections.abc import Callable
from typing import Any, Final, TypeVar

from ...materializer.fold.state import PartitionState
from ...materializer.history.requests import LogPast
from ...materializer.worker import Cancellable, Scheduler
from ...model.errors import FoldbError
from ...model.sequence_numbers import SequenceNumber, number_before
from .change_codec import DamagedError
from .change_store import ChangeStore, IncompleteWriteError, SyncTarget
from .repairs import Repairs
from .segment_files import SegmentDamagedError, SegmentRemovedError
from .segments import Segments
from .serial_executor import InlineExecutor, SerialExecutor
from .table_changes import TableChanges

# Small, because the loop waits for the interpreter while a thread encodes changes.
SEND_BYTES: Final = 128 << 10
MAX_TABLE_BYTES: Final = 16 << 20
"""Readers poll a shard four times a second, so a table with 20,000 changes of 1 KB a second needs 5 MB. At the bound
the older half is dropped from memory. A change in a segment costs a reader three times as much."""
MIN_TABLE_BYTES: Final = 512 << 10
SYNC_INTERVAL_S: Final = 10.0
# A page seldom touches more than two segments: a read that meets more damage gets an error and is retried.
MAX_REPAIRS: Final = 4

# Memory of changes that a working disk has not written yet, and multiple of the usual bound if the disk refuses them.
MAX_UNWRITTEN_BYTES: Final = 512 << 20
_REFUSED_FACTOR: Final = 16

logger = logging.getLogger(__name__)

T = TypeVar("T")


class ChangeWriter:
    """The tables of a partition's feed, and their files.

    Attributes:
        tables: The captured tables by id.
        captured_offset: Changes of records before this offset were captured by an earlier start.
        trim_horizon: Sequence number up to which no change of any table was captured.
        repairs: The repairs of damaged segments.
    """

    def __init__(
        self,
        store: ChangeStore,
        scheduler: Scheduler,
        state: PartitionState,
        *,
        retention_ms: int,
        recent_bytes: int,
        past: LogPast | None = None,
    ) -> None:
        self.trim_horizon = 0
        self.repairs = Repairs(None if past is None else past.read, state, scheduler, self._trimmed)
        self._writing: SerialExecutor = InlineExecutor()
        self._reading: SerialExecutor = InlineExecutor()
        self._store = store
        self._scheduler = scheduler
        self._state = state
        self._retention_ms = retention_ms
        self._recent_bytes = recent_bytes
        self._past = past
        if store.durable_offset < state.next_offset:
            # The stored changes end before the state begins. They leave a gap, so none of them is served.
            store.reset()
            self.trim_horizon = number_before(state.next_offset) if state.next_offset else 0
        self.captured_offset = store.durable_offset
        self.tables = {table_id: TableChanges(table_id, found) for table_id, found in store.found.items()}
        self._timer: Cancellable | None = None
        self._next_offset = state.next_offset
        self.drops = 0  # times that changes were dropped
        self._dropped_ms: int | None = None  # log time when changes were dropped
        self._is_serving = self._is_refused = self._is_logged = False

    def serve(self, writing: SerialExecutor, reading: SerialExecutor) -> None:
        """Write and read files in executors from now on."""
        self._writing, self._reading, self._is_serving = writing, reading, True
        if self._state.periods:
            self.schedule_sync(self._next_offset)

    def close(self, next_offset: int) -> None:
        """Write and sync all changes that were folded, and close the files."""
        if self._timer is not None:
            self._timer.cancel()
        self.repairs.close()
        self._next_offset, self._is_serving = next_offset, False
        if self._store.is_durable and (self.tables or self._has_open_window):
            self._sync()
        segments = self._segments()
        self._writing.submit(lambda: self._store.close(segments), self._log_failure)

    def reset(self) -> None:
        """Discard all changes. If the durable offset cannot be removed, raise: a start must not use it."""
        segments = self._segments()
        self.tables.clear()
        self.captured_offset = self.trim_horizon = 0
        self._dropped_ms = None
        self._writing.submit(self._store.remove_durable_offset, _raise)
        for each in segments.values():
            self._writing.submit(each.remove_all, self._log_failure)

    def add_table(self, table_id: int) -> TableChanges:
        segments = self._store.segments(table_id, self.trim_horizon)
        table = self.tables[table_id] = TableChanges(table_id, segments)
        return table

    # Writing

    def flush_if_full(self, table: TableChanges) -> None:
        """Write changes to a segment if enough are unsent. A store that is not durable writes only to free memory."""
        if table.unsent_bytes >= SEND_BYTES:
            if self._store.is_durable or table.recent_bytes > self._max_bytes:
                self._send(table, SEND_BYTES)
            limit = _REFUSED_FACTOR * self._max_bytes if self._is_refused else MAX_UNWRITTEN_BYTES
            if table.recent_bytes > limit:
                table.drop_oldest(self._max_bytes)
                self._restart(table)

    def schedule_sync(self, next_offset: int) -> None:
        """Sync in a few seconds, after all records before an offset were captured.

        This is needed for records without changes too, or a start could not use a snapshot newer than the last change.
        """
        self._next_offset = next_offset
        if self._timer is None and self._is_serving:
            self._timer = self._scheduler.call_later(SYNC_INTERVAL_S, self._on_timer)

    @property
    def _max_bytes(self) -> int:
        """The memory that the newest changes of one table may take."""
        return max(MIN_TABLE_BYTES, min(MAX_TABLE_BYTES, self._recent_bytes // max(1, len(self.tables))))

    def _send(self, table: TableChanges, size: int) -> None:
        after, batches = table.sent, table.next_batches(size)
        last, segments = table.sent, table.segments

        def write() -> None:
            if segments.last == after:
                segments.append(after, batches)
            else:
                raise IncompleteWriteError  # an earlier write failed, so this one is repeated too

        self._writing.submit(write, lambda error: self._sent(table, segments, last, error))

    def _sent(self, table: TableChanges, segments: Segments, last: int, error: Exception | None) -> None:
        if table.segments is not segments:
            return  # the table has restarted in new segments
        table.stored = segments.last
        if error is None:
            table.stored = max(table.stored, last)
            if table.sent < table.stored:  # this was a repeated write
                table.reset_sent()
            table.evict_stored(self._max_bytes)
            self._is_refused = self._is_logged = False
            return
        self._is_refused = True
        table.reset_sent()
        self._handle_failure(error)

    def _handle_failure(self, error: Exception) -> None:
        """Restart the tables whose sync failed."""
        self._log(error)
        for table in self.tables.values():
            if table.segments.is_doubtful:
                self._restart(table)

    def _restart(self, table: TableChanges) -> None:
        """Continue in new segments with the changes in memory; older changes are trimmed for readers.

        Until the retention would trim them anyway, the durable offset is not written, so the next start rebuilds them.
        """
        logger.error(
            "the disk did not take all changes of table %d: the feed drops the oldest ones up to sequence number %d, "
            "so its readers see a later trim horizon; the next start rebuilds them",
            table.table_id,
            table.recent_after,
        )
        self.drops += 1
        self._dropped_ms = self._state.log_time
        old = table.segments
        table.restart_in(self._store.segments(table.table_id, table.recent_after))
        self._writing.submit(self._store.remove_durable_offset, self._log_failure)
        self._writing.submit(old.remove_all, self._log_failure)

    # Sync and retention

    def _on_timer(self) -> None:
        self._timer = None
        ended = self._remove_ended_tables()
        if self.tables or ended or self._has_open_window:
            self._sync()
        for segments in ended:  # the new durable offset no longer names them
            self._writing.submit(segments.remove_all, self._log_failure)

    def _sync(self) -> None:
        """Write all changes, sync, write the durable offset, and remove expired segments."""
        if self._store.is_durable:
            for table in self.tables.values():
                while table.sent < table.last:
                    self._send(table, SEND_BYTES)
        segments = self._segments()
        last = {table_id: table.sent for table_id, table in self.tables.items()}
        target = SyncTarget(self._next_offset, last, self.horizon_ms, self._trimmed())
        if self._has_gap:
            return
        self._writing.submit(lambda: self._store.sync(segments, target), self._synced)

    def _synced(self, firsts: dict[int, int] | Exception) -> None:
        if isinstance(firsts, Exception):
            self._handle_failure(firsts)
            self.schedule_sync(self._next_offset)
            return
        for table_id, after in firsts.items():
            if table_id in self.tables:
                self.tables[table_id].trim(after)

    def _trimmed(self) -> SequenceNumber:
        """Return the sequence number up to which the log has no records."""
        return number_before(0 if self._past is None else self._past.begin())

    def _remove_ended_tables(self) -> list[Segments]:
        """Remove the tables whose capture periods have all ended before the retention horizon."""
        ended = [
            table_id
            for table_id in self.tables
            if all(each.is_over(self.horizon_ms) for each in self._state.periods.get(table_id, ()))
        ]
        return [self.tables.pop(table_id).segments for table_id in ended]

    @property
    def _has_gap(self) -> bool:
        """Whether changes were dropped that a start must still serve."""
        return self._dropped_ms is not None and self.horizon_ms <= self._dropped_ms

    @property
    def _has_open_window(self) -> bool:
        """Whether there is a capture period whose changes must still be served."""
        return any(
            not each.is_over(self.horizon_ms) for windows in self._state.periods.values() for each in windows
        )

    @property
    def horizon_ms(self) -> int:
        """The log time before which changes are trimmed."""
        return self._state.log_time - self._retention_ms if self._retention_ms else 0

    def trim(self, table: TableChanges, then: Callable[[], None]) -> None:
        """Advance the table's trim horizon if enough log time has passed, and call `then`."""
        horizon_ms = self.horizon_ms
        if horizon_ms < table.next_trim_ms or horizon_ms <= 0:
            then()
            return
        table.next_trim_ms = horizon_ms + max(1, self._retention_ms // 1000)

        def found(after: int | None) -> None:
            if after is not None:
                table.trim(after)
            then()

        after = table.find(horizon_ms)
        if after is not None:
            found(after)
        else:
            self.read(table, lambda segments: segments.find(horizon_ms), found, repairs=0)

    # Reading

    def read(
        self,
        table: TableChanges,
        read: Callable[[Segments], T],
        on_read: Callable[[T | None], None],
        *,
        repairs: int = MAX_REPAIRS,
    ) -> None:
        """Read segments, and call `on_read` with the result, or with None if they cannot be read now.

        A read that meets a damaged segment waits until it is rebuilt, and is repeated, at most `repairs` times. With 0
        it does not wait.
        """
        segments = table.segments

        def done(outcome: T | Exception) -> None:
            if not isinstance(outcome, Exception):
                on_read(outcome)
            elif isinstance(outcome, SegmentRemovedError):
                self.read(table, read, on_read, repairs=repairs)
            elif isinstance(outcome, SegmentDamagedError) and table.segments is segments:
                then = repaired if repairs else _ignore
                self.repairs.repair(table.table_id, segments, outcome, self._writing, then)
                if not repairs:
                    on_read(None)
            else:
                self._log(outcome)
                on_read(None)

        def repaired(is_replaced: bool) -> None:
            if is_replaced:
                self._sync()  # until the durable offset has the size of the new file, a scrub reports it as damaged
                self.read(table, read, on_read, repairs=repairs - 1)
            else:
                on_read(None)

        self._reading.submit(lambda: read(segments), done)

    def _segments(self) -> dict[int, Segments]:
        return {table_id: table.segments for table_id, table in self.tables.items()}

    def _log_failure(self, outcome: Any) -> None:
        if isinstance(outcome, Exception):
            self._log(outcome)

    def _log(self, error: Exception) -> None:
        """Log that files cannot be written or read; once, until a write succeeds."""
        if not isinstance(error, OSError | DamagedError | IncompleteWriteError | FoldbError):
            raise error
        if not self._is_logged:
            self._is_logged = True
            logger.warning(
                "cannot write or read changes of partition %d: %s",
                self._state.partition,
                str(error) or "an earlier write failed",
            )


def _ignore(_: bool) -> None:
    """Ignore the result of a repair that no reader waits for."""


def _raise(outcome: Any) -> None:
    if isinstance(outcome, Exception):
        raise outcome
