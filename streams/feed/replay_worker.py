"""Replays a log to read the changes of a table in a range, or its items at a position, that no feed keeps.

    log ──► newest snapshot before the range ──► fold ──► change segments in a folder ──► progress

It runs in a process of its own (`python -m foldb.streams.feed.replay_worker`, with its job on stdin), because it folds
a whole state. For a log in memory, which no other process can read, it runs in a thread. Each line on stdout reports
the progress.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import orjson

from ...log.commands import Context, Genesis, Record
from ...log.local.filesystem import Filesystem, SystemFilesystem
from ...log.local.reader import LogReader
from ...log.log import HashedLog, ReadableLog
from ...materializer.feed_requests import images_of
from ...materializer.fold.fold_record import LateSkipError, Void
from ...materializer.fold.outcomes import Change, Outcome
from ...materializer.fold.state import PartitionState
from ...materializer.foundation import initial_state
from ...materializer.os_process import hide
from ...materializer.refold import Capture, FoldError, fold_record, more_void, refold
from ...materializer.snapshots import Snapshots
from ...model.sequence_numbers import position_of
from ..changes import changes
from .change_codec import SegmentOwner
from .segment_files import BlockCache
from .segments import SEGMENT_BYTES, Extent, Segments, ShardBatch
from .shards import period_in
from .table_changes import CHANGE_BYTES

WRITE_BYTES: Final = 256 << 10
_ONE_SEGMENT: Final = 1 << 62  # bytes: all changes go to one segment
_NO_REQUEST: Final = Context(request_id="")

# An acknowledged entry may be visible to another reader of the log a little later.
_LATE_S: Final = 10.0
_POLL_S: Final = 0.05


class ReplayLog(ReadableLog, Protocol):
    """The methods of a log that a replay needs."""

    def read(self, partition: int, start: int = 0) -> Iterator[Record]: ...

    def end(self, partition: int) -> int: ...

    def genesis(self, partition: int) -> Genesis: ...


@dataclass(frozen=True, slots=True)
class ReplayTask:
    """The range of a replay.

    Attributes:
        partition: Partition id.
        table: Table id.
        after: Exclusive lower bound of sequence numbers; with `items`, the number of items to skip.
        until: Inclusive upper bound of sequence numbers.
        items: Whether to read the items at `until`, which count from 1, rather than changes.
        is_segment: Whether to write only the changes that a feed captures, as one segment of it.
    """

    partition: int
    table: int
    after: int
    until: int
    items: bool = False
    is_segment: bool = False


class ReplayProgress(NamedTuple):
    """The extent of the written segments, the log time there, and whether the replay is complete."""

    extent: Extent | None
    time: int
    is_over: bool

    def to_json(self) -> Any:
        """Return the form of a line. Sequence numbers are longer than an integer of JSON may be."""
        extent = None if self.extent is None else [str(each) for each in self.extent]
        return [extent, self.time, self.is_over]

    @classmethod
    def from_json(cls, data: Any) -> "ReplayProgress":
        """Parse the form that `to_json` returns."""
        extent, time_ms, is_over = data
        return cls(None if extent is None else Extent(*map(int, extent)), time_ms, is_over)


OnProgress = Callable[[ReplayProgress], None]


def replay(
    log: ReplayLog,
    task: ReplayTask,
    folder: Path,
    report: OnProgress,
    snapshots: Snapshots | None = None,
    disk: Filesystem | None = None,
) -> None:
    """Write segments into `folder`, and report the progress now and then."""
    genesis = log.genesis(task.partition)
    last = position_of(task.until)[0] - genesis.base
    first = last if task.items else max(0, position_of(task.after)[0] - genesis.base)
    check_horizon(log, task)
    _wait_for(log, task.partition, last)
    if snapshots is None:
        state = initial_state(log, task.partition)
    else:
        state = snapshots.load_newest(_chained(log), lambda found, _: found.next_offset <= first).state
    owner = SegmentOwner(genesis.log_id, task.partition, task.table)
    segments = Segments(
        disk or SystemFilesystem(),
        lambda: folder,
        owner,
        BlockCache(),
        after=task.after,
        segment_bytes=_ONE_SEGMENT if task.is_segment else SEGMENT_BYTES,
    )
    writer = _Writer(log, task, state, segments, report)
    if task.items:
        _fold_through(writer, log, last - 1, None)
        _fold_part(writer, log, last)
        writer.append_items()
    else:
        _fold_through(writer, log, last, writer)
    writer.finish()


def check_horizon(log: ReplayLog, task: ReplayTask) -> None:
    """Check that the log has the range of a task. A range from the very first change begins at the history horizon.

    Raises:
        HorizonError: A trim removed records of the range.
    """
    base = log.genesis(task.partition).base
    if task.items:
        log.read(task.partition, position_of(task.until)[0] - base)
    elif task.after:
        log.read(task.partition, max(0, position_of(task.after)[0] - base + 1))


class _Writer:
    """Writes the changes of a task while a state is folded."""

    def __init__(
        self,
        log: ReplayLog,
        task: ReplayTask,
        state: PartitionState,
        segments: Segments,
        report: OnProgress,
    ) -> None:
        self.state = state
        self._log = log
        self._task = task
        self._segments = segments
        self._report = report
        self._waiting: list[Change] = []
        self._size = 0
        self._reported_at = 0
        self._shard = 0, 0
        self.partition, self.until = task.partition, task.until

    def folded(self, outcomes: list[Outcome]) -> None:
        """Append the changes of a folded record."""
        task, state = self._task, self.state
        for change in changes(outcomes, (task.table,), state.partition, state.partitions):
            sequence_number = change.sequence_number
            if task.after < sequence_number <= task.until and sequence_number > self._segments.last:
                held = [each for each in state.periods.get(task.table, ()) if each.holds(sequence_number)]
                window = max(held, key=lambda each: each.label, default=None)
                change.stream = 0 if window is None else window.label
                if not task.is_segment:
                    self.append(change)
                elif window is not None:
                    self._begin_shard(window.label, period_in(window, change.time))
                    self.append(change)
        if state.next_offset - self._reported_at >= 10_000:
            self._reported_at = state.next_offset
            self._report(ReplayProgress(self._segments.extent, state.log_time, False))

    def begin_again(self) -> None:
        """Begin with the beginning of the log. Written changes stay: their sequence numbers show that."""
        self.state = initial_state(self._log, self.partition)
        self._waiting, self._size = [], 0

    def append_items(self) -> None:
        """Append the items of the table, in the order of a Scan."""
        table, state = self._task.table, self.state
        live = state.tables.get(table)
        if live is None:
            return
        for rank, (_, pk, sk, (item, _)) in enumerate(live.items.scan(), start=1):
            if rank > self._task.after:
                self.append(
                    Change(table, pk, sk, None, item, rank, state.log_time, _NO_REQUEST, is_read=True)
                )

    def append(self, change: Change) -> None:
        self._waiting.append(change)
        self._size += CHANGE_BYTES + images_of(change)
        if self._size >= WRITE_BYTES:
            self._write()
            self._report(ReplayProgress(self._segments.extent, self.state.log_time, False))

    def finish(self) -> None:
        """Write the rest, and report the end."""
        self._write()
        self._report(ReplayProgress(self._segments.extent, self.state.log_time, True))

    def _begin_shard(self, stream: int, period: int) -> None:
        """Write the waiting changes if the next one belongs to another shard: a block has one shard."""
        if self._shard != (stream, period):
            self._write()
            self._shard = stream, period

    def _write(self) -> None:
        if self._waiting:
            self._segments.append(self._segments.last, [ShardBatch(self._shard[1], self._waiting)])
            self._waiting, self._size = [], 0


def _fold_through(writer: _Writer, log: ReplayLog, last: int, capture: Capture | None) -> None:
    """Fold all records up to offset `last`, without the void ones."""
    void: frozenset[Void] = frozenset()
    partition = writer.partition
    while True:
        state = writer.state
        try:
            refold(state, _through(log.read(partition, state.next_offset), last), None, void, capture)
            return
        except (FoldError, LateSkipError) as error:
            void = more_void(void, error, log, partition)
            writer.begin_again()


def _fold_part(writer: _Writer, log: ReplayLog, last: int) -> None:
    """Fold the record at offset `last` up to and including the task's last command."""
    record = next(log.read(writer.partition, last))
    commands = record.entry.commands[: position_of(writer.until)[1] + 1]
    fold_record(writer.state, replace(record, entry=replace(record.entry, commands=commands)))


def _through(records: Iterable[Record], last: int) -> Iterator[Record]:
    for record in records:
        if record.offset > last:
            return
        yield record


def _wait_for(log: ReplayLog, partition: int, offset: int) -> None:
    until = time.monotonic() + _LATE_S
    while log.end(partition) <= offset and time.monotonic() < until:
        time.sleep(_POLL_S)


def _chained(log: Any) -> HashedLog:
    chained: HashedLog = log
    return chained


# The process


@dataclass(frozen=True, slots=True)
class ReplayJob:
    """The job that the process reads from stdin: the location of the log, and the task."""

    task: ReplayTask
    folder: str
    database: str | None = None
    kafka: str | None = None
    security: str | None = None
    variables: dict[str, str] = field(default_factory=dict, repr=False)

    def encode(self) -> bytes:
        """Return the job as a line of JSON."""
        task = asdict(self.task) | {"after": str(self.task.after), "until": str(self.task.until)}
        return orjson.dumps(asdict(self) | {"task": task}) + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> "ReplayJob":
        """Parse the line that `encode` returns."""
        data = orjson.loads(line)
        task = data.pop("task")
        bounds = {"after": int(task["after"]), "until": int(task["until"])}
        return cls(ReplayTask(**(task | bounds)), **data)


def main() -> None:
    """Run the job on stdin. Without a parent the next line of progress fails, and the process ends."""
    hide()  # before there is a password to be read
    job = ReplayJob.decode(sys.stdin.buffer.readline())

    def report(progress: ReplayProgress) -> None:
        sys.stdout.buffer.write(orjson.dumps(progress.to_json()) + b"\n")
        sys.stdout.buffer.flush()

    snapshots = None
    log: Any
    if job.database is not None:
        folder = Path(job.database)
        disk = SystemFilesystem().hold(folder)
        log = LogReader(folder, disk)
        snapshots = Snapshots(folder, disk, job.task.partition, log.partitions)
    else:
        from ...log.kafka import KafkaLog, Security

        assert job.kafka is not None, "a log is in a folder or in Kafka"
        file = None if job.security is None else Path(job.security)
        log = KafkaLog.open_reader(job.kafka, Security.read(file, job.variables))
    try:
        replay(log, job.task, Path(job.folder), report, snapshots)
    finally:
        log.close()


if __name__ == "__main__":
    main()
