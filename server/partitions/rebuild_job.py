"""A table refolded from the log beside the live one, compared with it, and installed; or one index of it.

    fold from the log ──► caught up ──► compare, folding new records, too ──► install ──► free the rest

Each step is a portion in one turn of the event loop, with other requests in between. A portion is compared when both
states are at the same position. Installing exchanges references in the turn of the last portion, so no write can come
between. A table in several partitions is rebuilt one partition after another. A rebuild is not persistent: after a
crash the start refolds everything.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from ...log.commands import Record
from ...materializer.disposer import Disposer, stores_of
from ...materializer.fold.state import PartitionState, Table
from ...materializer.gc_tuning import adding_items
from ...materializer.rebuild import Rebuild, RebuildComparison
from ...model.errors import (
    FoldbError,
    InternalServerError,
    RequestError,
    ResourceNotFoundError,
    ServiceUnavailableError,
    ValidationError,
)
from ...model.slots import data_partitions
from ...model.tables import TableDefinition
from .read_ahead import ReadAhead
from .replica import Partitions, Replica

# Steps folded in a turn: about ten milliseconds. An entry has fewer, and one turn writes at most one entry, so every
# rebuild catches up.
_PORTION: Final = 600
# Items compared in a turn: about ten milliseconds.
COMPARED_ITEMS: Final = 4_000
# A request for the progress is answered when the rebuild is done, or after this time.
_ANSWER_AFTER_S: Final = 0.5

OnProgress: TypeAlias = Callable[[dict[str, Any] | RequestError], None]
"""Receives the progress of a rebuild; the last has `Parts`, the result of each partition."""

LoadBase: TypeAlias = Callable[[int], "asyncio.Future[PartitionState] | None"]
"""Loads the state with which a trimmed log begins, in a thread, because it is as large as the live one. None: the log
has its whole history."""

logger = logging.getLogger(__name__)


class RebuildJob:
    """One rebuild, from its first portion to its answer."""

    def __init__(
        self,
        parts: Sequence[Replica],
        read: Callable[[int, int], Iterator[Record]],
        loop: asyncio.AbstractEventLoop,
        table: TableDefinition,
        job_id: int,
        index: str | None = None,
        load_base: LoadBase = lambda _: None,
    ) -> None:
        """Prepare a rebuild in these partitions: of the index named, or of the whole table if `index` is None.

        `read` returns the records of a partition from an offset on, `load_base` the state before the first one.
        """
        self.name = table.name
        self._table = table.id
        self.job_id = job_id
        self._index = index
        self.finished = False
        self._parts = parts
        self._nth = 0  # the index of the present partition
        self._read = read
        self._load_base = load_base
        self._loop = loop
        self._disposer = Disposer(loop)
        self._done: list[dict[str, Any]] = []  # the result of each partition
        self._loading: asyncio.Future[PartitionState] | None = None
        self._result: dict[str, Any] | RequestError = {}
        self._waiting: list[Callable[[], None]] = []
        self._begin()

    def advance(self) -> None:
        """Fold or compare a portion, and schedule the next one. Install the table after the last portion."""
        if self._loading is not None:
            self._loading.add_done_callback(self._loaded)
            return
        try:
            with adding_items():
                has_more = self._fold() or self._compare()
            if has_more:
                self._go_on()
                return
            self._install()
            self._end_part()
            if self._nth + 1 < len(self._parts):
                self._nth += 1
                self._begin()
                self._loop.call_soon(self.advance)
            else:
                self._finish({"Parts": self._done})
        except RequestError as error:
            self._end_part()
            self._finish(error)
        except FoldbError:
            self._fail()

    def _loaded(self, loading: "asyncio.Future[PartitionState]") -> None:
        """Continue with the base of a trimmed log."""
        self._loading = None
        try:
            self._work = Rebuild(self._live.voided, self._disposer.take, loading.result())
        except FoldbError:
            self._fail()
        else:
            self.advance()

    def _fail(self) -> None:
        # The live table stays as it is. `foldb verify` finds the damage of the log.
        logger.exception("the rebuild of %s stopped", self.name)
        self._end_part()
        self._finish(InternalServerError(f"The table {self.name} could not be rebuilt from the log"))

    def answer_later(self, callback: OnProgress) -> None:
        """Call back with the result when the rebuild is done, or with its progress after some time."""
        is_answered = False

        def answer() -> None:
            nonlocal is_answered
            if not is_answered:
                is_answered = True
                callback(self._progress())

        if self.finished:
            answer()
        else:
            self._waiting.append(answer)
            self._loop.call_later(_ANSWER_AFTER_S, answer)

    @property
    def _part(self) -> Replica:
        return self._parts[self._nth]

    @property
    def _live(self) -> PartitionState:
        return self._part.state

    def _go_on(self) -> None:
        """Schedule the next portion: in the next turn, or when a thread has read more of the log."""
        records = self._records
        if isinstance(records, ReadAhead) and records.is_waiting:
            records.when_ready(self.advance)
        else:
            self._loop.call_soon(self.advance)

    def _begin(self) -> None:
        self._work = Rebuild(self._live.voided, self._disposer.take)
        self._comparison = RebuildComparison(self._index)
        self._records: Iterator[Record] = iter(())
        # The records that the live state has folded since the rebuilt one caught up; None until then.
        self._new: deque[Record] | None = None
        self._stop_observing: Callable[[], None] | None = None
        self._loading = self._load_base(self._part.partition_id)

    def _end_part(self) -> None:
        """Stop following the partition, and free the refolded state, which is as large as the live one."""
        if self._stop_observing is not None:
            self._stop_observing()
            self._stop_observing = None
        self._disposer.take(stores_of(self._work.state))
        self._work, self._records, self._new = Rebuild(), iter(()), None

    def _fold(self) -> bool:
        """Fold a portion, and return whether the live state has more."""
        if self._part.is_closed:
            raise ServiceUnavailableError(
                f"The table {self.name} was not rebuilt: this node has stopped serving a part of it. Try again."
            )
        live, work = self._live.next_offset, self._work
        if self._new is not None:
            return work.fold(_taken_from(self._new), _PORTION, until=live)
        more = work.fold(self._records, _PORTION, until=live)
        if not more and work.state.next_offset < live:
            if isinstance(self._records, ReadAhead) and self._records.is_waiting:
                return True
            self._records = self._read(self._part.partition_id, work.state.next_offset)
            more = work.fold(self._records, _PORTION, until=live) or work.state.next_offset < live
        if not more and work.state.next_offset == live:
            self._records, self._new = iter(()), deque()
            self._stop_observing = self._part.worker.on_records.add(self._new.append)
        return more

    def _compare(self) -> bool:
        """Compare a portion, and return whether there is more."""
        if self._work.state.next_offset < self._live.next_offset:
            return True  # the log has fewer entries than the live state: the last one is being written
        table, rebuilt = self._tables()
        return self._comparison.advance(table, rebuilt, COMPARED_ITEMS)

    def _tables(self) -> tuple[Table, Table]:
        """Return the live table and the rebuilt one.

        Raises:
            ResourceNotFoundError: The table or the index was deleted during the rebuild.
        """
        table = self._live.tables.get(self._table)
        if table is None:
            raise ResourceNotFoundError(f"The table {self.name} was deleted while it was rebuilt")
        if self._index is not None and self._index not in table.indexes:
            raise ResourceNotFoundError(f"The index {self._index} was deleted while it was rebuilt")
        return table, self._work.state.tables[self._table]

    def _install(self) -> None:
        table, rebuilt = self._tables()
        same, index = self._comparison.same, self._index
        items = rebuilt.items.count if index is None else table.indexes[index].store.count
        part = {"Partition": self._part.partition_id, "Offset": self._live.next_offset - 1}
        self._done.append(part | {"Items": items, "Same": same})
        if index is None:
            self._work.install(self._live, self._table)
            return
        # Index entries share bytes with the items of their table. Those of the rebuilt index share with items that are
        # about to be dropped. So a correct index is kept: replacing it would cost its size in memory.
        if not same:
            self._work.install_index(self._live, self._table, index)
            self._done[-1]["Items"] = table.indexes[index].store.count

    def _finish(self, result: dict[str, Any] | RequestError) -> None:
        self._result = result
        self.finished = True
        for answer in self._waiting:
            answer()
        self._waiting.clear()

    def _progress(self) -> dict[str, Any] | RequestError:
        if isinstance(self._result, RequestError):
            return self._result
        ends = [part.state.next_offset for part in self._parts]
        progress = {
            "Id": self.job_id,
            "Status": "DONE" if self.finished else "RUNNING",
            "Folded": sum(ends) if self.finished else sum(ends[: self._nth]) + self._work.state.next_offset,
            "End": sum(ends),
        }
        return progress | self._result


class RebuildJobs:
    """The rebuilds of this process, one at a time.

    Attributes:
        job: The latest rebuild, running or finished; None before the first.
    """

    def __init__(self, partitions: Partitions, loop: asyncio.AbstractEventLoop) -> None:
        self.job: RebuildJob | None = None
        self._partitions = partitions
        self._loop = loop

    def start(self, table: TableDefinition, index: str | None) -> RebuildJob:
        """Start the rebuild of a table in the partitions of this process, or of the one index named.

        Raises:
            ValidationError: A rebuild is running.
            ServiceUnavailableError: This process folds no part of the table.
        """
        if self.job is not None and not self.job.finished:
            raise ValidationError(f"The table {self.job.name} is being rebuilt: one at a time")
        hosted = self._partitions.hosted
        parts = [hosted[each] for each in data_partitions(self._partitions.count) if each in hosted]
        if not parts:
            raise ServiceUnavailableError("This node folds no part of the table yet")
        job_id = 1 if self.job is None else self.job.job_id + 1
        partitions, loop = self._partitions, self._loop
        self.job = RebuildJob(parts, partitions.read_from, loop, table, job_id, index, partitions.load_base)
        self.job.advance()
        return self.job

    def running(self, name: str, job_id: int) -> RebuildJob:
        """Return the last rebuild, which has this id.

        Raises:
            ValidationError: No rebuild of the table has the id.
        """
        if self.job is None or self.job.job_id != job_id or self.job.name != name:
            raise ValidationError(f"No rebuild {job_id} of the table {name} is known")
        return self.job


def _taken_from(records: deque[Record]) -> Iterator[Record]:
    while records:
        yield records.popleft()
