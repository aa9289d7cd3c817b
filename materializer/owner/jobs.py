"""Exports and bulk operations: a duty of the catalog's owner. Imports are copies into their tables (restores.py).

    export:  page of the past, or of differences ──► data file ──► JobProgress, when a file is complete ──► manifests
    bulk:    page of the files ──► Put to the partitions that own the keys ──► report ──► JobProgress

All that a job needs is in the state, and the progress has the cursor after which it continues. So another owner
continues, after a crash or a failover. A progress names the cursor that it follows, so two owners at once count a
portion once. They write equal files.

A run is a generator, which yields its steps: functions that call back. The runner sends it the answer of each step in a
later turn of the loop.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from ...log.commands import Put
from ...model.errors import (
    ConditionalCheckFailedError,
    JobFailedError,
    RequestError,
    ResourceNotFoundError,
    TransactionConflictError,
    ValidationError,
)
from ...model.jobs import Job, JobStatus
from ...model.slots import CATALOG, data_partitions, partition_of_key
from ...model.tables import TableDefinition
from ...model.values import load
from ..fold.outcomes import Failed, Outcome, Refused, Skipped
from ..fold.state import PartitionState
from ..history.history import TimeCut
from ..history.requests import PartitionWithHistory, PastDifferences, PastRead, ReadDifferences
from ..partition import Page, ResultPosition, ScanRequest
from ..worker import Cancellable, Scheduler
from .copy_sources import PAGE_ITEMS, added, key_of
from .job_files import ExportOutput, InputPage, JobFiles, JobInput, job_progress
from .timers import Proposer

PORTION_ITEMS: Final = 500
"""Items that are written in one turn of the loop."""

_COMMAND_BYTES: Final = 256
_RETRY_SECONDS: Final = 1.0
_KIB: Final = 1024

logger = logging.getLogger(__name__)

Step: TypeAlias = Callable[[Callable[[Any], None]], None]
"""Begins an action, and calls back once with its answer or with the exception that it raised."""

Run: TypeAlias = Generator[Step, Any, None]


class Jobs:
    """The exports and bulk operations that run here. A partition other than the catalog has none.

    Args:
        catalog: Receives the progress.
        state: The state of the catalog.
        partitions: All partitions, by id; the caller may replace elements.
        scheduler: The loop.
        files: The files of jobs; without them no job runs.
    """

    def __init__(
        self,
        catalog: Proposer,
        state: PartitionState,
        partitions: Sequence[PartitionWithHistory],
        scheduler: Scheduler,
        files: JobFiles | None,
    ) -> None:
        self._catalog = catalog
        self._state = state
        self._partitions = partitions
        self._scheduler = scheduler
        self._files = files
        self._runners: dict[str, Runner] = {}
        self._is_closed = False

    def begin(self) -> None:
        """Start the jobs in the state that run nowhere."""
        files = self._files
        if files is None or self._is_closed or self._state.partition != CATALOG:
            return
        for job in list(self._state.jobs.values()):
            if job.is_running and job.kind != "import" and job.arn not in self._runners:
                kind = Export if job.kind == "export" else BulkPuts
                work = kind(self._catalog, self._state, self._partitions, self._scheduler, files, job.arn)
                runner = Runner(work, self._scheduler, partial(self._ended, job.arn))
                self._runners[job.arn] = runner
                runner.start()

    def close(self) -> None:
        self._is_closed = True
        for runner in self._runners.values():
            runner.close()

    def _ended(self, arn: str) -> None:
        del self._runners[arn]


class Work(ABC):
    """The work of one job.

    Args:
        catalog, state, partitions, scheduler: See Jobs.
        files: The files of jobs.
        arn: The job.
    """

    def __init__(
        self,
        catalog: Proposer,
        state: PartitionState,
        partitions: Sequence[PartitionWithHistory],
        scheduler: Scheduler,
        files: JobFiles,
        arn: str,
    ) -> None:
        self.catalog = catalog
        self.state = state
        self.partitions = partitions
        self.scheduler = scheduler
        self.files = files
        self.arn = arn

    @property
    def job(self) -> Job:
        """The job as it is in the state. It is kept while it runs."""
        return self.state.jobs[self.arn]

    @abstractmethod
    def run(self) -> Run:
        """Work from the cursor in the state to the end of the job."""

    @abstractmethod
    def close(self) -> None:
        """Close the files of a run that does not continue."""

    def in_thread(self, work: Callable[[], Any]) -> Step:
        return partial(self.files.submit, work)

    def report(
        self,
        cursor: Any,
        counts: dict[str, int],
        *,
        files: Sequence[dict[str, Any]] = (),
        status: JobStatus | None = None,
        failure: Sequence[str] | None = None,
    ) -> Step:
        """Append the progress. A progress of another owner makes it one without effect; then the run begins again."""
        command = job_progress(self.job, cursor, counts, files=files, status=status, failure=failure)
        return partial(_submit, self.catalog, command, len(command.request))

    def fail(self, error: JobFailedError) -> Step:
        """Append that the job has failed."""
        job = self.job
        return self.report(job.cursor, job.counts, status="FAILED", failure=[error.code, error.message])


class Runner:
    """Sends the answers of the steps to a run, and begins it again a second after an error of a partition.

    Args:
        work: The work of the job.
        scheduler: The loop.
        ended: Called when the job has ended.
    """

    def __init__(self, work: Work, scheduler: Scheduler, ended: Callable[[], None]) -> None:
        self._work = work
        self._scheduler = scheduler
        self._ended = ended
        self._run: Run | None = None
        self._timer: Cancellable | None = None
        self._is_closed = False
        self._has_failed = False

    def start(self) -> None:
        """Begin with the cursor in the state, or end if the job has ended."""
        self._timer = None
        if not self._work.job.is_running:
            self._ended()
            return
        self._run = self._work.run()
        self._send(None)

    def close(self) -> None:
        """Stop; a step under way completes by itself."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._run is not None:
            self._run = None
            self._work.close()

    def _send(self, answer: Any) -> None:
        run = self._run
        if run is None or self._is_closed:
            return
        try:
            step = run.throw(answer) if isinstance(answer, Exception) else run.send(answer)
        except StopIteration:
            self._again(0)
        except JobFailedError as error:
            self._fail(error)
        except ValidationError as error:  # a trim has removed the cut
            self._fail(JobFailedError(error.wire_name, error.message))
        except RequestError as error:
            if not self._has_failed:
                self._has_failed = True
                logger.warning(
                    "cannot continue the job %s: %s; trying again every second", self._work.arn, error.message
                )
            self._again(_RETRY_SECONDS)
        else:
            step(self._later)

    def _fail(self, error: JobFailedError) -> None:
        logger.warning("the job %s has failed: %s", self._work.arn, error.message)
        self._work.close()
        self._run = _single(self._work.fail(error))
        self._send(None)

    def _later(self, answer: Any) -> None:
        if not self._is_closed:
            self._timer = self._scheduler.call_later(0, self._send, answer)

    def _again(self, seconds: float) -> None:
        self._run = None
        self._work.close()
        self._timer = self._scheduler.call_later(seconds, self.start)


def _single(step: Step) -> Run:
    yield step


def _submit(catalog: Proposer, command: Any, size: int, done: Callable[[Any], None]) -> None:
    def on_outcome(outcome: Outcome, _: ResultPosition) -> None:
        done(outcome.error if isinstance(outcome, Failed) else outcome)

    catalog.submit(command, size + _COMMAND_BYTES, on_outcome)


class Export(Work):
    """An export. Its cursor is a partition and the start of a page there, always at the end of a data file.

    The start is the JSON text of the last key, or the `next` of the differences; None at the beginning of a partition.
    """

    _output: ExportOutput | None = None

    def run(self) -> Run:
        own = data_partitions(self.state.partitions)
        output: ExportOutput = yield self.in_thread(partial(self.files.open_export, self.job))
        self._output = output
        read_page = self._read_items if self.job.since_ms is None else self._read_changes
        partition_id, start = self.job.cursor or (own.start, None)
        while partition_id in own:
            is_full, start = yield from read_page(output, partition_id, start)
            if start is None:
                partition_id += 1
            if is_full or start is None:
                complete = yield self.in_thread(output.end_file)
                counts = {"items": complete.items, "bytes": complete.bytes}
                yield self.report([partition_id, start], counts, files=complete.files)
                if self.job.cursor != [partition_id, start]:
                    return  # another owner was faster
        yield self.in_thread(partial(output.finish, self.state.log_time))
        yield self.report(self.job.cursor, self.job.counts, status="COMPLETED")

    def close(self) -> None:
        if self._output is not None:
            self.files.submit(self._output.discard, lambda _: None)
            self._output = None

    def _read_items(
        self, output: ExportOutput, partition_id: int, start: Any
    ) -> Generator[Step, Any, tuple[bool, Any]]:
        """Write a page of items; return whether the data file is large enough, and the start of the next page."""
        after = None if start is None else key_of(self.job.key, load(start.encode()))
        request = ScanRequest(self.job.table_id, None, start=after, limit=PAGE_ITEMS)
        try:
            page = yield self._as_of(partition_id, request)
        except ResourceNotFoundError:  # the partition had no such table at the cut
            return False, None
        assert isinstance(page, Page), "the answer to a scan is a page"
        is_full = yield self.in_thread(partial(output.add_items, page.items))
        return is_full, None if page.last is None else page.last.decode()

    def _read_changes(
        self, output: ExportOutput, partition_id: int, start: Any
    ) -> Generator[Step, Any, tuple[bool, Any]]:
        """Write a page of changes, as `_read_items` writes items."""
        since_ms = self.job.since_ms
        assert since_ms is not None, "an incremental export has a beginning"
        begin = None if start is None else (start[0], start[1])
        request = ReadDifferences(self.job.table_id, TimeCut(since_ms), begin, PAGE_ITEMS)
        found = yield self._as_of(partition_id, request)
        assert isinstance(found, PastDifferences), "the answer to a read of differences has them"
        is_full = yield self.in_thread(partial(output.add_changes, found.differences))
        return is_full, None if found.next is None else list(found.next)

    def _as_of(self, partition_id: int, read: PastRead) -> Step:
        cut_ms = self.job.cut_ms
        assert cut_ms is not None, "an export has a cut"

        def begin(done: Callable[[Any], None]) -> None:
            self.partitions[partition_id].as_of(TimeCut(cut_ms), read, lambda answer, _: done(answer))

        return begin


class BulkPuts(Work):
    """A bulk operation. Its cursor is a place of its files, at which it may put the items of one page again.

    An item that is present as a repeated page has it was put by the run before: a false condition does not count.
    """

    _input: JobInput | None = None

    def run(self) -> Run:
        source: JobInput = yield self.in_thread(
            partial(self.files.open_input, self.job, self._definition, self.job.cursor)
        )
        self._input = source
        is_repeated = True
        while True:
            job = self.job
            if job.status == "CANCELLING":
                reason = ["Cancelled", "The bulk operation was cancelled by a CancelBulkOperation"]
                yield self.report(job.cursor, job.counts, status="CANCELLED", failure=reason)
                return
            page: InputPage = yield self.in_thread(partial(source.read, PAGE_ITEMS))
            figures = {"put_bytes": 0, "failed": 0, "conditions": 0}
            reports = list(page.errors)
            for first in range(0, len(page.puts), PORTION_ITEMS):
                puts = page.puts[first : first + PORTION_ITEMS]
                refused = yield from self._put(puts)
                for put, error in refused:
                    if isinstance(error, ConditionalCheckFailedError):
                        if is_repeated and error.item == put.item:
                            continue
                        figures["conditions"] += 1
                    else:
                        figures["failed"] += 1
                    reports.append(_report(put, error))
                figures["put_bytes"] += sum(put.size for put in puts) - sum(put.size for put, _ in refused)
                yield self._pause(puts)
            is_repeated = False
            counts = added(job.counts, added(page.counts, figures))
            kinds = job.request["OutputS3Configuration"]["OutputType"]
            wanted = [each for each in reports if each["Type"] in kinds]
            if wanted:
                yield self.in_thread(partial(self.files.write_report, job, counts["processed"], wanted))
            status: JobStatus | None = None
            if page.is_last:
                status = "COMPLETED_WITH_ERRORS" if counts["errors"] + counts["failed"] else "COMPLETED"
            yield self.report(page.place, counts, status=status)
            if page.is_last or self.job.cursor != page.place:
                return

    def close(self) -> None:
        if self._input is not None:
            self.files.submit(self._input.close, lambda _: None)
            self._input = None

    @property
    def _definition(self) -> TableDefinition:
        table = self.state.tables.get(self.job.table_id)
        if table is None or table.definition.status == "DELETING":
            raise JobFailedError("TableNotFound", f"The table was deleted: {self.job.table_arn}")
        return table.definition

    def _put(self, puts: Sequence[Put]) -> Generator[Step, Any, list[tuple[Put, RequestError]]]:
        """Put items; return those that are refused. Items that a transaction holds are put again after a pause."""
        refused: list[tuple[Put, RequestError]] = []
        waiting = list(puts)
        while waiting:
            _ = self._definition
            outcomes = yield partial(self._submit_all, waiting)
            again = []
            for put, outcome in zip(waiting, outcomes, strict=True):
                match outcome:
                    case Failed() | Skipped() | Refused(TransactionConflictError()):
                        again.append(put)
                    case Refused(error):
                        refused.append((put, error))
            waiting = again
            if waiting:
                yield partial(self._later, _RETRY_SECONDS)
        return refused

    def _submit_all(self, puts: Sequence[Put], done: Callable[[Any], None]) -> None:
        outcomes: list[Outcome | None] = [None] * len(puts)
        unanswered = len(puts)

        def on_outcome(nth: int, outcome: Outcome, _: ResultPosition) -> None:
            nonlocal unanswered
            outcomes[nth] = outcome
            unanswered -= 1
            if not unanswered:
                done(outcomes)

        for nth, put in enumerate(puts):
            owner = partition_of_key(put.table, put.pk, self.state.partitions)
            size = len(put.item) + _COMMAND_BYTES
            self.partitions[owner].submit(put, size, partial(on_outcome, nth))

    def _pause(self, puts: Sequence[Put]) -> Step:
        """Wait as long as the units of some puts take at the rate of the request."""
        rate = self.job.request.get("MaxWriteRequestUnits")
        units = sum(-(-put.size // _KIB) for put in puts)
        return partial(self._later, units / rate if rate else 0)

    def _later(self, seconds: float, done: Callable[[Any], None]) -> None:
        self.scheduler.call_later(seconds, done, None)


def _report(put: Put, error: RequestError) -> dict[str, Any]:
    """Return the entry of a report about an item that was not written."""
    is_condition = isinstance(error, ConditionalCheckFailedError)
    report: dict[str, Any] = {
        "Type": "CONDITION_CHECK_FAILURE" if is_condition else "ERROR",
        "Code": error.wire_name,
        "Message": error.message,
        "Item": load(put.item),
    }
    if isinstance(error, ConditionalCheckFailedError) and error.item is not None:
        report["ExistingItem"] = load(error.item)
    return report
