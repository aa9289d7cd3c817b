"""Folds a log to tell what no feed keeps: the changes of a table in some stretch, or its items as they were.

    log ──► from the newest snapshot before the stretch ──► fold ──► change segments in a folder ──► told how far

It runs in a process of its own (`python -m foldb.streams.feed.replay_worker`, its task on stdin), because it
goes through a
whole state; for a log in memory, which no other process has, in a thread. Each line on stdout says how far it is.
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
from ...materializer.fold.fold_record import LateSkipError, Void
from ...materializer.fold.outcomes import Change, Outcome, position_of
from ...materializer.fold.state import PartitionState
from ...materializer.os_process import hide
from ...materializer.refold import Capture, FoldError, fold_record, more_void, refold
from ...materializer.snapshots import HashedLog, Snapshots
from ..changes import changes
from .change_codec import Owner
from .segments import SEGMENT_BYTES, Batch, Blocks, Extent, Segments
from .shards import nth_in
from .table_changes import CHANGE_BYTES, images_of

WRITE_BYTES: Final = 256 << 10
_ONE_SEGMENT: Final = 1 << 62  # bytes: all is in one, however large
_NOBODY: Final = Context(request_id="")

# A reader may hear a little later of what a writer has acknowledged.
_LATE_S: Final = 10.0
_LOOK_AGAIN_S: Final = 0.05


class Readable(Protocol):
    """The part of a log that is needed here."""

    def read(self, partition: int, start: int = 0) -> Iterator[Record]: ...

    def end(self, partition: int) -> int: ...

    def genesis(self, partition: int) -> Genesis: ...


@dataclass(frozen=True, slots=True)
class Task:
    """What is asked for: the changes of a table with after < number <= until; or with `items`, not they but the items
    as they were at `until`, which count from 1. With `kept`, the changes that a feed keeps, as one segment of it.
    """

    partition: int
    table: int
    after: int
    until: int
    items: bool = False
    kept: bool = False


class Told(NamedTuple):
    """How far it is: what is in the folder, log time there, and whether that was all."""

    extent: Extent | None
    time: int
    is_over: bool

    def to_json(self) -> Any:
        """As a line has it. Sequence numbers are longer than an integer of JSON may be."""
        extent = None if self.extent is None else [str(each) for each in self.extent]
        return [extent, self.time, self.is_over]

    @classmethod
    def from_json(cls, data: Any) -> "Told":
        """Read what `to_json` has written."""
        extent, time_ms, is_over = data
        return cls(None if extent is None else Extent(*map(int, extent)), time_ms, is_over)


Tell = Callable[[Told], None]


def make(
    log: Readable,
    task: Task,
    folder: Path,
    tell: Tell,
    snapshots: Snapshots | None = None,
    disk: Filesystem | None = None,
) -> None:
    """Do it: write segments into `folder`, and tell now and then how far they go."""
    genesis = log.genesis(task.partition)
    last = position_of(task.until)[0] - genesis.base
    first = last if task.items else max(0, position_of(task.after)[0] - genesis.base)
    _wait_for(log, task.partition, last)
    state = PartitionState()
    if snapshots is not None:
        state = snapshots.load_newest(_chained(log), lambda found, _: found.next_offset <= first).state
    owner = Owner(genesis.log_id, task.partition, task.table)
    segments = Segments(
        disk or SystemFilesystem(),
        lambda: folder,
        owner,
        Blocks(),
        after=task.after,
        segment_bytes=_ONE_SEGMENT if task.kept else SEGMENT_BYTES,
    )
    writer = _Writer(task, state, segments, tell)
    if task.items:
        _fold_through(writer, log, last - 1, None)
        _fold_part(writer, log, last)
        writer.take_items()
    else:
        _fold_through(writer, log, last, writer)
    writer.finish()


class _Writer:
    """Takes what is asked for while a state is folded, and writes it."""

    def __init__(self, task: Task, state: PartitionState, segments: Segments, tell: Tell) -> None:
        self.state = state
        self._task = task
        self._segments = segments
        self._tell = tell
        self._waiting: list[Change] = []
        self._size = 0
        self._told_at = 0
        self._shard = 0, 0
        self.partition, self.until = task.partition, task.until

    def folded(self, outcomes: list[Outcome]) -> None:
        """See Capture."""
        task, state = self._task, self.state
        for change in changes(outcomes, (task.table,), state.partition, state.partitions):
            number = change.sequence_number
            if task.after < number <= task.until and number > self._segments.last:
                held = [each for each in state.periods.get(task.table, ()) if each.holds(number)]
                window = max(held, key=lambda each: each.label, default=None)
                change.stream = 0 if window is None else window.label
                if not task.kept:
                    self.take(change)
                elif window is not None:
                    self._begin_shard(window.label, nth_in(window, change.time))
                    self.take(change)
        if state.next_offset - self._told_at >= 10_000:
            self._told_at = state.next_offset
            self._tell(Told(self._segments.extent, state.log_time, False))

    def begin_again(self) -> None:
        """See Capture. What was written stays: numbers tell what was taken before."""
        self.state = PartitionState()
        self._waiting, self._size = [], 0

    def take_items(self) -> None:
        """Take the items as they are, in the order of a Scan."""
        table, state = self._task.table, self.state
        live = state.tables.get(table)
        if live is None:
            return
        for rank, (_, pk, sk, (item, _)) in enumerate(live.items.scan(), start=1):
            if rank > self._task.after:
                self.take(Change(table, pk, sk, None, item, rank, state.log_time, _NOBODY, is_read=True))

    def take(self, change: Change) -> None:
        """Take the next one."""
        self._waiting.append(change)
        self._size += CHANGE_BYTES + images_of(change)
        if self._size >= WRITE_BYTES:
            self._write()
            self._tell(Told(self._segments.extent, self.state.log_time, False))

    def finish(self) -> None:
        """Tell that this was all."""
        self._write()
        self._tell(Told(self._segments.extent, self.state.log_time, True))

    def _begin_shard(self, stream: int, nth: int) -> None:
        """Write what waits, if what follows is of another shard: a block is of one."""
        if self._shard != (stream, nth):
            self._write()
            self._shard = stream, nth

    def _write(self) -> None:
        if self._waiting:
            self._segments.append(self._segments.last, [Batch(self._shard[1], self._waiting)])
            self._waiting, self._size = [], 0


def _fold_through(writer: _Writer, log: Readable, last: int, capture: Capture | None) -> None:
    """Fold everything up to the record at offset `last`, past what is void."""
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


def _fold_part(writer: _Writer, log: Readable, last: int) -> None:
    """Fold the record at offset `last` up to and including the command that is asked for."""
    record = next(log.read(writer.partition, last))
    commands = record.entry.commands[: position_of(writer.until)[1] + 1]
    fold_record(writer.state, replace(record, entry=replace(record.entry, commands=commands)))


def _through(records: Iterable[Record], last: int) -> Iterator[Record]:
    for record in records:
        if record.offset > last:
            return
        yield record


def _wait_for(log: Readable, partition: int, offset: int) -> None:
    until = time.monotonic() + _LATE_S
    while log.end(partition) <= offset and time.monotonic() < until:
        time.sleep(_LOOK_AGAIN_S)


def _chained(log: Any) -> HashedLog:
    chained: HashedLog = log
    return chained


# The process


@dataclass(frozen=True, slots=True)
class Job:
    """What the process reads from stdin: where the log is, and what is to be done."""

    task: Task
    folder: str
    database: str | None = None
    kafka: str | None = None
    security: str | None = None
    variables: dict[str, str] = field(default_factory=dict, repr=False)

    def encode(self) -> bytes:
        """The line."""
        task = asdict(self.task) | {"after": str(self.task.after), "until": str(self.task.until)}
        return orjson.dumps(asdict(self) | {"task": task}) + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> "Job":
        """Read what `encode` has written."""
        data = orjson.loads(line)
        task = data.pop("task")
        numbers = {"after": int(task["after"]), "until": int(task["until"])}
        return cls(Task(**(task | numbers)), **data)


def main() -> None:
    """Do the job on stdin. A parent that is gone reads no lines, and the next one ends this."""
    hide()  # before there is a password to be read
    job = Job.decode(sys.stdin.buffer.readline())

    def tell(told: Told) -> None:
        sys.stdout.buffer.write(orjson.dumps(told.to_json()) + b"\n")
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
        make(log, job.task, Path(job.folder), tell, snapshots)
    finally:
        log.close()


if __name__ == "__main__":
    main()
