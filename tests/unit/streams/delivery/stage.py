"""The environment of a dispatcher in a test: feeds, a sink that fails at random, dead letters, and checkpoints.

A crash loses the dispatcher. The stage keeps everything that outlives it: feeds, dead letters and checkpoints.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import orjson

from foldb.log.commands import Position, new_context
from foldb.materializer.feed_requests import (
    Changes,
    FeedRequest,
    FindSequenceNumber,
    FoundSequenceNumber,
    OnFed,
    ReadChanges,
)
from foldb.materializer.fold.outcomes import Change, Tx
from foldb.materializer.history.history import PartitionCut
from foldb.materializer.history.requests import OnPast, PastRead, ReadPast
from foldb.materializer.partition import Page, ScanRequest
from foldb.model.errors import ServiceUnavailableError
from foldb.model.key_schema import KeyAttribute, KeySchema
from foldb.model.limits import MODERN
from foldb.model.sequence_numbers import sequence_number
from foldb.model.subscriptions import Subscription
from foldb.model.subscriptions.settings import check
from foldb.streams.delivery.checkpoints import Progress
from foldb.streams.delivery.dead_letters import DeadLetter, ItemKey, item_key_of
from foldb.streams.delivery.dispatcher import Dispatcher, DispatcherContext
from foldb.streams.delivery.filter import ChangeFilter
from foldb.streams.formats.table_view import Delivery, TableView
from foldb.streams.sinks.sink import Batch, DeliveryResult, Failure, PartialFailure, Success
from tests.unit.streams.delivery.virtual import VirtualLoop

START_MS = 1_700_000_000_000
_API = new_context("request")
_KEY = KeySchema((KeyAttribute("pk", "S"),))


def view(table: int, _: int = 0) -> TableView:
    """Return the view of a table."""
    return TableView(table, f"table-{table}", _KEY, None, "arn", b"log", 1)


def body_of(delivery: Delivery) -> dict[str, Any]:
    """Return the new item of a change."""
    assert delivery.change.new is not None
    body: dict[str, Any] = orjson.loads(delivery.change.new)
    return body


def key(delivery: Delivery) -> str:
    """Return the partition key of a change."""
    return delivery.change.pk.decode()


class FakePartition:
    """The feed of one partition, for several tables."""

    def __init__(self, number: int, as_of: ReadPast) -> None:
        self.number = number
        self.as_of = as_of
        self.offset = 0
        self.time = START_MS
        self.changes: dict[int, list[Change]] = defaultdict(list)
        self.trim_horizon: dict[int, int] = defaultdict(int)
        self.trimmed_tables: set[int] = set()  # tables whose changes are all trimmed, also future ones
        self.is_away = self.is_folding = False
        self.reads = 0
        self.page = 7
        self._waiting: list[tuple[ReadChanges, OnFed]] = []

    @property
    def end(self) -> int:
        """An upper bound of the sequence numbers of all entries."""
        return sequence_number(self.offset, 9999, 9999)

    def write(
        self,
        key: str,
        *,
        table: int = 1,
        tx: Tx | None = None,
        depth: int = 0,
        old: bytes | None = None,
        **body: Any,
    ) -> Change:
        """Append an entry with one change."""
        self.offset += 1
        return self.write_on(key, table=table, tx=tx, depth=depth, old=old, body=body)

    def write_on(
        self,
        key: str,
        *,
        table: int = 1,
        nth: int = 0,
        tx: Tx | None = None,
        depth: int = 0,
        old: bytes | None = None,
        body: dict[str, Any] | None = None,
    ) -> Change:
        """Append a change to the last entry's command."""
        context = new_context("request", depth=depth) if depth else _API
        new = orjson.dumps({"pk": {"S": key}, **(body or {})})
        number = sequence_number(self.offset, 0, nth)
        change = Change(table, key.encode(), b"", old, new, number, self.time, context, tx)
        self.changes[table].append(change)
        self.wake()
        return change

    def pass_by(self) -> None:
        """Append an entry without changes of these tables."""
        self.offset += 1

    def feed(self, request: FeedRequest, done: OnFed) -> None:
        """Answer a request like a partition."""
        if self.is_away:
            done(ServiceUnavailableError(), Position(self.number, -1))
        elif isinstance(request, FindSequenceNumber):
            kept = self._trim_horizon(request.table)
            before = [
                each.sequence_number for each in self.changes[request.table] if each.time < request.time_ms
            ]
            done(FoundSequenceNumber(max([kept, *before]), kept), Position(self.number, self.offset))
        else:
            assert isinstance(request, ReadChanges)
            self._read(request, done)

    def _read(self, request: ReadChanges, done: OnFed) -> None:
        self.reads += 1
        kept = self._trim_horizon(request.table)
        after = max(request.after_sequence_number, kept)
        found = [each for each in self.changes[request.table] if each.sequence_number > after]
        page = found[: min(request.limit, self.page)]
        if not page and request.wait_ms and kept <= request.after_sequence_number:
            waiting = (request, done)
            self._waiting.append(waiting)
            asyncio.get_running_loop().call_later(request.wait_ms / 1000, self._expire, waiting)
            return
        is_end = len(page) == len(found)
        end = max(self.end, request.after_sequence_number) if is_end else page[-1].sequence_number
        done(Changes(page, end, kept, is_end, self.time), Position(self.number, self.offset))

    def _trim_horizon(self, table: int) -> int:
        return self.end if table in self.trimmed_tables else self.trim_horizon[table]

    def _expire(self, waiting: tuple[ReadChanges, OnFed]) -> None:
        if waiting in self._waiting:
            self._waiting.remove(waiting)
            request, done = waiting
            self._read(replace(request, wait_ms=0), done)

    def wake(self) -> None:
        """Answer waiting reads, unless a command is half folded."""
        if self.is_folding:
            return
        waiting, self._waiting = self._waiting, []
        for request, done in waiting:
            self.feed(request, done)

    def crash(self) -> None:
        """Lose the waiting reads."""
        self._waiting.clear()


@dataclass
class Call:
    """One call of the sink, and its result."""

    life: int
    at: float
    batch: Batch
    result: DeliveryResult | None

    @property
    def sequence_numbers(self) -> list[int]:
        """Return the sequence numbers of its changes."""
        return [each.change.sequence_number for each in self.batch.changes]


Judge = Callable[[Batch], DeliveryResult]


class FakeSink:
    """A sink whose calls take `seconds` and have the result of the judge."""

    is_single = False
    problem = None

    def __init__(self, stage: "Stage") -> None:
        self.version = "v1"
        self._stage = stage
        self.is_open = False

    async def start(self) -> None:
        """Start, or fail."""
        if self._stage.starts_fail:
            raise OSError(self._stage.starts_fail.pop(0))
        self.is_open = True

    async def deliver(self, batch: Batch) -> DeliveryResult:
        """Record the call, and return the judge's result."""
        stage = self._stage
        assert self.is_open
        call = Call(
            stage.life, asyncio.get_running_loop().time(), replace(batch, changes=list(batch.changes)), None
        )
        stage.calls.append(call)
        await asyncio.sleep(stage.seconds())
        call.result = result = stage.judge(batch)
        stage.deliver(batch, result)
        return result

    async def close(self) -> None:
        """Close it."""
        self.is_open = False


@dataclass
class Stage:
    """Everything that outlives a dispatcher, and a record of what happened."""

    settings: dict[str, Any] = field(default_factory=dict)
    partitions: int = 1
    seed: int = 0
    judge: Judge = lambda _: Success()
    seconds: Callable[[], float] = lambda: 0.01
    tables: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        self.jitter = random.Random(self.seed)
        partition_ids = range(1) if self.partitions == 1 else range(1, self.partitions + 1)
        self.feeds = {
            partition: FakePartition(partition, partial(self._read_past, partition))
            for partition in partition_ids
        }
        self.feed = next(iter(self.feeds.values()))
        self.dead_letters: dict[ItemKey, dict[int, DeadLetter]] = defaultdict(dict)
        self.written_dead_letters: dict[
            tuple[ItemKey, int], int
        ] = {}  # and the number of changes handled before
        self.dead_letters_fail = 0.0
        self.starts_fail: list[str] = []  # the errors of the next starts
        self.calls: list[Call] = []
        self.handled: list[tuple[int, Delivery]] = []  # with the life that handled it
        self.checkpoints: list[Progress] = []
        self.checkpoints_at: dict[int, dict[int, int]] = {}  # the checkpoints at the start of each life
        self.ended: list[str] = []
        self.gone: set[int] = set()
        self.past_reads = 0
        self.failing_past_reads: set[int] = set()  # the first is number 1
        self.life = 0
        self.hours_s = 0.0
        names = {f"table-{table}": table for table in self.tables}
        given = {
            "TableNames": list(names),
            "Sink": {"Kind": "file"},
            "Start": {"At": "BEGINNING"},
            **self.settings,
        }
        settings = check("orders", given)
        self.subscription = Subscription(1, "orders", "", tuple(names.items()), settings, START_MS, START_MS)

    # The context of a dispatcher

    def dispatcher(self) -> Dispatcher:
        """Return a dispatcher that continues from the last checkpoint."""
        self.life += 1
        self.checkpoints_at[self.life] = dict(self.subscription.checkpoints)
        context = DispatcherContext(
            partitions=lambda: self.feeds,  # type: ignore[arg-type, return-value]  # partitions that only feeds are read of
            key_of=lambda table, item: view(table).key.item_key(orjson.loads(item), MODERN),
            table_exists=lambda table: table not in self.gone,
            view=view,
            dead_letters=_DeadLetters(self),
            checkpoint=self.checkpoint,
            on_end=self.ended.append,
            clock=self.clock,
            seconds=asyncio.get_running_loop().time,
            jitter=self.jitter.random,
        )
        return Dispatcher(
            self.subscription, FakeSink(self), context, ChangeFilter(self.subscription.settings).test
        )

    def started(self) -> Dispatcher:
        """Return a started dispatcher."""
        dispatcher = self.dispatcher()
        dispatcher.start()
        return dispatcher

    def clock(self) -> int:
        """Return the virtual time in milliseconds since 1970."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        return START_MS + int((self.hours_s + loop.time()) * 1000)

    async def checkpoint(self, progress: Progress) -> None:
        """Store a checkpoint."""
        if self.jitter.random() < self.dead_letters_fail:
            raise ServiceUnavailableError
        self.checkpoints.append(progress)
        self.subscription = self.subscription.checkpointed(
            progress.checkpoints, progress.version, progress.handled, progress.dead
        )

    def _read_past(self, partition: int, cut: PartitionCut, read: PastRead, done: OnPast) -> None:
        """Answer a read of the past, five changes or items at a time."""
        self.past_reads += 1
        assert isinstance(cut, Position)
        if self.past_reads in self.failing_past_reads:
            done(ServiceUnavailableError(), cut)
            return
        until = sequence_number(cut.offset, cut.index or 0, 9999)
        cut = replace(cut, time_ms=START_MS)
        assert isinstance(read, ReadChanges | ScanRequest)
        earlier = [
            each for each in self.feeds[partition].changes[read.table] if each.sequence_number <= until
        ]
        if isinstance(read, ReadChanges):
            after = read.after_sequence_number
            found = [each for each in earlier if each.sequence_number > after]
            is_end = len(found) <= 5
            following = until if is_end else found[4].sequence_number
            done(Changes(found[:5], following, after, is_end, START_MS), cut)
            return
        latest = {(each.pk, each.sk): each.new for each in earlier}
        items = [
            item for key, item in sorted(latest.items()) if item and (read.start is None or key > read.start)
        ]
        last = None if len(items) <= 5 else items[4]
        done(Page(items[:5], 5, 5, last, 0), cut)

    # What happened

    def deliver(self, batch: Batch, result: DeliveryResult) -> None:
        """Record the result of a call."""
        done = list(batch.changes)
        if isinstance(result, PartialFailure):
            places = [(each.partition, each.change.sequence_number) for each in done]
            done = done[: places.index((result.partition, result.sequence_number))]
        elif isinstance(result, Failure):
            done = []
        self.handled += [(self.life, each) for each in done]

    def crash(self) -> None:
        """Lose the waiting reads of all feeds."""
        for feed in self.feeds.values():
            feed.crash()

    def written(self) -> set[tuple[int, int, int]]:
        """Return partition, table and sequence number of every change."""
        return {
            (number, table, each.sequence_number)
            for number, feed in self.feeds.items()
            for table in self.tables
            for each in feed.changes[table]
        }

    def ends(self) -> dict[int, int]:
        """Return the current end of each partition."""
        return {number: feed.end for number, feed in self.feeds.items()}

    def dead(self) -> list[int]:
        """Return the sequence numbers of all dead letters."""
        return sorted(number for dead_letters in self.dead_letters.values() for number in dead_letters)

    def keys(self) -> list[str]:
        """Return the keys of the handled changes, in order."""
        return [key(delivery) for _, delivery in self.handled]

    def called_with(self) -> list[list[str]]:
        """Return the keys of each call's changes."""
        return [[key(each) for each in call.batch.changes] for call in self.calls]

    def values(self, name: str = "n") -> list[str]:
        """Return an attribute of the handled changes, in order."""
        return [body_of(delivery)[name]["N"] for _, delivery in self.handled]


async def settled(stage: Stage) -> None:
    """Run a dispatcher until it has handled every change."""
    dispatcher = stage.started()
    await dispatcher.reach(stage.ends())
    await dispatcher.stop()


async def lasting(stage: Stage, seconds: float) -> None:
    """Run a dispatcher for some seconds."""
    dispatcher = stage.started()
    await asyncio.sleep(seconds)
    await dispatcher.stop()


class _DeadLetters:
    """A store of dead letters that fails at random."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def keys(self) -> dict[ItemKey, int]:
        return {
            key: min(dead_letters) for key, dead_letters in self._stage.dead_letters.items() if dead_letters
        }

    async def first(self, delivery: Delivery) -> int | None:
        await self._work()
        dead_letters = self._stage.dead_letters.get(item_key_of(delivery))
        return min(dead_letters) if dead_letters else None

    async def write(self, dead_letters: Sequence[DeadLetter]) -> None:
        await self._work()
        for dead_letter in dead_letters:
            number = dead_letter.delivery.sequence_number
            key = item_key_of(dead_letter.delivery)
            self._stage.dead_letters[key].setdefault(number, dead_letter)
            self._stage.written_dead_letters.setdefault((key, number), len(self._stage.handled))

    async def _work(self) -> None:
        await asyncio.sleep(0.002)
        if self._stage.jitter.random() < self._stage.dead_letters_fail:
            raise ServiceUnavailableError
