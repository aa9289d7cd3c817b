"""A partition that goes through stops, kills and power cuts, and beside it a plain list of expected changes.

The list does not depend on sequence numbers, segments or capture periods: a change is in it if the test's own books say
that the item was different before, and that the table's stream was enabled.
"""

import random
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from foldb.log.commands import Command
from foldb.log.local import LocalLog
from foldb.log.local.reader import LogReader
from foldb.materializer.feed_requests import Changes, FeedRequest, ReadChanges, images_of
from foldb.materializer.history.epochs import Epochs, memory_history
from foldb.materializer.history.history import PartitionCut
from foldb.materializer.history.reads import read_past
from foldb.materializer.history.requests import LogPast
from foldb.materializer.local_partition import LocalPartition
from foldb.materializer.long_reads import LongReads
from foldb.materializer.snapshots import Snapshots
from foldb.materializer.worker import Worker
from foldb.model.errors import RequestError
from foldb.model.values import dump
from foldb.streams.feed import ChangeStore, Feed, change_writer, segments, table_changes
from foldb.streams.feed.serial_executor import outcome_of
from foldb.streams.formats.stored_size import stored_size
from tests.unit.log.fake_disk import FakeDisk
from tests.unit.log.local_logs import Inline
from tests.unit.materializer.fake_loop import FakeLoop
from tests.unit.materializer.ledger import define, delete, put, table_request
from tests.unit.streams.feed.bench import NO_STREAM, STREAM

FOLDER = Path("/data")
CHANGES = FOLDER / "changes" / "0"
RETENTION_MS = 20_000


def make_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make blocks, batches and the memory for changes small, so that a few changes exercise all limits."""
    monkeypatch.setattr(change_writer, "SEND_BYTES", 2000)
    monkeypatch.setattr(change_writer, "MIN_TABLE_BYTES", 4000)
    monkeypatch.setattr(segments, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(table_changes, "MAX_FILTERED", 5)


class Held:
    """An executor that runs jobs on demand."""

    def __init__(self) -> None:
        self.jobs: list[Any] = []

    def submit(self, job: Any, done: Any) -> None:
        self.jobs.append((job, done))

    def run(self, count: int = 1 << 30) -> None:
        """Run at most `count` jobs."""
        while self.jobs and count:
            job, done = self.jobs.pop(0)
            done(outcome_of(job))
            count -= 1

    def run_without_delivery(self) -> "Held":
        """Run all jobs. The returned executor delivers their outcomes."""
        outcomes = Held()
        for job, done in self.jobs:
            outcomes.submit(partial(_again, outcome_of(job)), done)
        self.jobs.clear()
        return outcomes

    def close(self) -> None:
        self.run()


@dataclass
class Entry:
    """An expected change, with the sequence number that the feed returned first."""

    table: int
    pk: bytes
    old: bytes | None
    new: bytes | None
    stream: int
    time: int
    number: int | None = None


@dataclass
class Books:
    """The expected state: items and labels by table, and all changes."""

    items: dict[int, dict[str, dict[str, Any]]] = field(default_factory=dict)
    labels: dict[int, int] = field(default_factory=dict)
    all_labels: dict[int, list[int]] = field(default_factory=dict)
    changes: list[Entry] = field(default_factory=list)


class Life:
    """A partition through several starts."""

    def __init__(
        self, dice: random.Random, *, retention_ms: int = RETENTION_MS, segment_bytes: int = 3000
    ) -> None:
        self.dice = dice
        self.disk = FakeDisk()
        self.books = Books()
        self.now = 1_700_000_000_000
        self.starts = 0
        self.log_begin = 0
        self.retention_ms = retention_ms
        self.segment_bytes = segment_bytes
        self.rebuilt: list[
            tuple[int, int]
        ] = []  # the segments that were read from the past: table, last number
        self.start()

    def start(self) -> None:
        """Start with the files on the disk."""
        self.starts += 1
        self.past: Epochs | None = None
        self.loop = FakeLoop(self.now)
        self.log = LocalLog(
            FOLDER,
            clock=lambda: self.now,
            deliver=lambda callback: callback(),
            random_bytes=lambda size: b"l" * size,
            on_fatal=_raise,
            disk=self.disk,
            background=Inline(),
            level=3,
        )
        store = ChangeStore(
            CHANGES, self.log.genesis(0).log_id, 0, disk=self.disk, segment_bytes=self.segment_bytes
        )
        store.open(self.log.end(0))
        start = Snapshots(FOLDER, self.disk).load_newest(
            self.log, lambda state, now_ms: store.suits(state, now_ms, self.retention_ms)
        )
        self.folded_from = start.state.next_offset
        self.feed = Feed(
            start.state,
            lambda: self.worker.position,
            self.loop,
            store,
            retention_ms=self.retention_ms,
            recent_bytes=6000,
            past=LogPast(self.read_past, lambda: self.log_begin),
        )
        self.worker = Worker(
            self.log,
            start.state,
            origin=b"%016d" % self.starts,
            scheduler=self.loop,
            capture=self.feed,
            on_fatal=_raise,
        )
        self.worker.open()
        self.writing, self.reading = Held(), Held()
        self.feed.serve(self.writing, self.reading)
        self.partition = LocalPartition(self.worker, self.feed.ask, long_reads=LongReads(self.loop))

    def stop(self) -> None:
        """Stop and start."""
        self.feed.close()
        self.writing.close()
        self.log.close()
        self.start()

    def kill(self) -> None:
        """Kill the process, which loses its memory, and start."""
        self.disk.crash()
        self.start()

    def cut_power(self) -> None:
        """Cut the power, and start."""
        self.disk.power_cut(self.dice)
        self.start()

    def read_past(self, cut: PartitionCut, read: Any, done: Any) -> None:
        """Read the past from the log, as the history process does."""
        if self.past is None:
            self.past = memory_history(LogReader(FOLDER, self.disk), 0)
        self.past.catch_up()
        page, position = read_past(self.past.history, cut, replace(read, limit=4), 1)
        assert isinstance(page, Changes)
        if page.is_end:
            self.rebuilt.append((read.table, read.until))
        done(page, position)

    def snapshot(self) -> None:
        """Make a snapshot."""
        Snapshots(FOLDER, self.disk).make(LogReader(FOLDER, self.disk))

    def trim_log(self) -> None:
        """Announce a trim of all records so far. The log keeps them, so an error of a start stays visible."""
        self.log_begin = self.log.end(0)
        self.feed.schedule_sync()

    def remove_changes(self) -> None:
        """Remove the derived files."""
        for name in self.disk.names(CHANGES) if CHANGES in self.disk.folders else []:
            self.disk.remove(CHANGES / name)

    # Writing

    @property
    def table(self) -> int:
        """Return the only table."""
        [table] = self.books.items
        return table

    def submit(self, *commands: Command) -> None:
        """Fold commands in one entry."""
        for command in commands:
            self.worker.submit(command, 100, lambda *_: None)
        self.loop.settle()

    def create(self, name: str, *, stream: bool = True) -> int:
        self.submit(define("CreateTable", 0, table_request(name, "pk:S", **(STREAM if stream else {}))))
        table = self.worker.state.names[name]
        self.books.items[table] = {}
        self.books.all_labels[table] = []
        self._note_label(table)
        return table

    def define(self, table: int, settings: dict[str, Any]) -> None:
        name = self.worker.state.tables[table].definition.name
        self.submit(define("UpdateTable", table, {"TableName": name, **settings}))
        self._note_label(table)

    def enable(self, table: int) -> None:
        self.define(table, STREAM)

    def disable(self, table: int) -> None:
        self.define(table, NO_STREAM)

    def drop(self, table: int) -> None:
        name = self.worker.state.tables[table].definition.name
        self.submit(define("DeleteTable", table, {"TableName": name}))
        del self.books.items[table]
        self.books.labels.pop(table, None)

    def write(self, table: int, *writes: tuple[str, dict[str, Any] | None]) -> None:
        """Put items by key, or delete those without an item, in one entry."""
        live, books = self.worker.state.tables[table], self.books
        commands: list[Command] = []
        made = []
        for key, attributes in writes:
            item = None if attributes is None else {"pk": {"S": key}, **attributes}
            commands.append(delete(live, {"pk": {"S": key}}) if item is None else put(live, item))
            old = books.items[table].get(key)
            if old != item and table in books.labels:
                made.append((key, old, item, books.labels[table]))
            if item is None:
                books.items[table].pop(key, None)
            else:
                books.items[table][key] = item
        self.submit(*commands)
        for key, old, new, label in made:
            time = self.worker.state.log_time
            books.changes.append(Entry(table, key.encode(), _dumped(old), _dumped(new), label, time))

    def fill(self, table: int, count: int) -> None:
        """Write `count` changes with time between them; the disk executes all writes."""
        for n in range(count):
            self.now += 10
            self.write(table, (f"k{n % 7}", {"n": {"N": str(self.now)}, "x": {"S": "x" * 100}}))
            self.writing.run()

    def sync(self) -> None:
        """Advance the time to the next sync, and run it."""
        self.loop.advance(change_writer.SYNC_INTERVAL_S)
        self.writing.run()

    def _note_label(self, table: int) -> None:
        stream = self.worker.state.tables[table].definition.stream
        self.books.labels.pop(table, None)
        if stream is not None and stream.enabled:
            self.books.labels[table] = stream.created_ms
            self.books.all_labels[table].append(stream.created_ms)

    # Reading

    def ask(self, request: FeedRequest) -> Any:
        """Return the answer to a request."""
        answers: list[Any] = []
        self.partition.feed(request, lambda answer, _: answers.append(answer))
        while not answers:
            assert self.reading.jobs or self.writing.jobs, "nobody would ever answer"
            self.reading.run()
            if not answers:
                self.writing.run()
        [answer] = answers
        assert not isinstance(answer, RequestError), answer
        return answer

    def read_all(self, table: int, stream: int) -> tuple[list[Any], int]:
        """Return all changes of a stream, read in pages of random size, and the trim horizon."""
        found: list[Any] = []
        after = 0
        while True:
            limit, size = self.dice.choice(
                [(1, 1 << 20), (3, 1 << 20), (1000, 1), (1000, 700), (1000, 1 << 20)]
            )
            page: Changes = self.ask(ReadChanges(table, after, stream=stream, limit=limit, size=size))
            assert 1 >= len(page.changes) or size >= sum(map(images_of, page.changes)), "a page is too large"
            found += page.changes
            assert after <= page.next
            if page.is_end:
                return found, page.trim_horizon
            assert after < page.next, "a reader would not get on"
            after = page.next

    def check(self) -> None:
        """Check that the feed returns the expected changes, each with its first sequence number."""
        horizon = self.worker.state.log_time - self.retention_ms
        for table, labels in self.books.all_labels.items():
            for label in labels:
                expected = [one for one in self.books.changes if (one.table, one.stream) == (table, label)]
                found, trim_horizon = self.read_all(table, label)
                over = len(expected) - len(found)
                assert over >= 0, "a change was read that nobody made, or twice"
                assert all(one.time < horizon for one in expected[:over]), "a change is missing"
                for entry, change in zip(expected[over:], found, strict=True):
                    assert (entry.pk, entry.old, entry.new) == (change.pk, change.old, change.new)
                    assert (entry.stream, entry.time) == (change.stream, change.time)
                    assert change.old_size in (0, _size(change.old))
                    assert change.new_size in (0, _size(change.new))
                    assert entry.number in (None, change.sequence_number), "a number has changed"
                    assert change.sequence_number > trim_horizon
                    entry.number = change.sequence_number


def _again(outcome: Any) -> Any:
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _dumped(item: dict[str, Any] | None) -> bytes | None:
    return None if item is None else dump(item)


def _size(image: bytes | None) -> int:
    return 0 if image is None else stored_size(image)


def _raise(error: BaseException) -> None:
    raise error
