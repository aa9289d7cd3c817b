"""Runs one subscription: reads, filters, spreads over lanes, and says how far all is handled.

    sources ──► filter ──► lanes, by partition key ──► sink
                             └── the lowest number that is not handled ──► checkpoint

The checkpoint of a partition stays below everything of it that is neither handled nor in a letter, so whoever goes on
from it misses nothing; what was handled beyond it is delivered again. It is written a moment after something was
handled and never without that: where nothing is written nothing happens.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from ...materializer.feed_requests import LONGEST_WAIT_MS, Reader
from ...materializer.fold.outcomes import Change
from ...model.errors import FoldbError, RequestError
from ...model.subscriptions import Subscription
from ..formats.table_view import Delivery, TableView
from ..sinks.sink import Sink
from .attempts import DeliveryContext
from .dead_letters import DeadLetters
from .delivery_policy import DeliveryPolicy
from .lane import Lane
from .metrics import SubscriptionMetrics
from .source import AGAIN_S, LATE_MS, Histories, Source, stretch_of
from .transaction_grouping import Read, TransactionGrouping

CHECKPOINT_S: Final = 0.2
_AHEAD_BYTES: Final = 32 * 1024 * 1024
_START_AGAIN_S: Final = 1.0
_GRACE_S: Final = 3.0
_BEYOND: Final = 10**41
"""Above every number and every time."""

DONE: Final = "done"
"""Why one has ended that has delivered all up to its end: a replay, as a rule."""

GONE: Final = "its tables are gone"
"""Why one has ended that has delivered all there was of tables which were deleted."""

logger = logging.getLogger(__name__)

Filter: TypeAlias = Callable[[Delivery], bool]


@dataclass(frozen=True, slots=True)
class Progress:
    """What a checkpoint says.

    Attributes:
        checkpoints: Of each partition a number up to which all is handled.
        version: Of the code that was called.
        handled: How many changes since the last.
        dead: How many of them became letters.
    """

    checkpoints: dict[int, int]
    version: str
    handled: int
    dead: int


@dataclass(frozen=True, slots=True)
class DispatcherContext:
    """All that a dispatcher needs of its surroundings.

    Attributes:
        readers: Of each partition the one that reads its feed.
        histories: Tells what the feed does not keep.
        exists: Whether there is a table (by id) still.
        view: What formats say of a table (by id) while the stream of that label was enabled.
        dead_letters: Where letters go.
        checkpoint: Writes a checkpoint.
        ended: Told that there is nothing more to do, and why.
        clock: Milliseconds since 1970.
        seconds: A clock for what calls take.
        dice: From 0 to 1, by chance.
    """

    readers: Mapping[int, Reader]
    histories: Histories
    exists: Callable[[int], bool]
    view: Callable[[int, int], TableView]
    dead_letters: DeadLetters
    checkpoint: Callable[[Progress], Awaitable[None]]
    ended: Callable[[str], None]
    clock: Callable[[], int]
    seconds: Callable[[], float]
    jitter: Callable[[], float]


class Dispatcher:
    """One subscription at work.

    Attributes:
        subscription: As it was when this began.
        figures: How it is doing.
        is_started: Whether its sink is ready.
    """

    def __init__(
        self, subscription: Subscription, sink: Sink, world: DispatcherContext, passes: Filter | None = None
    ) -> None:
        """Nothing happens before `start`; `passes` says what is delivered."""
        self.subscription = subscription
        self.figures = SubscriptionMetrics()
        self.is_started = False
        self._terms = terms = DeliveryPolicy.of(subscription.settings)
        self._sink = sink
        self._world = world
        self._passes = passes
        self._loop = asyncio.get_running_loop()
        self._views: dict[tuple[int, int], TableView] = {}
        self._around = DeliveryContext(
            terms,
            world.dead_letters,
            {},
            world.clock,
            world.seconds,
            world.jitter,
            lambda: sink.version,
            self._buried,
            self._trouble,
        )
        self._sources = [
            self._source(partition, table) for partition in world.readers for table in subscription.table_ids
        ]
        # The state of a tumbling window is one partition's, as its log time is.
        groups = len(world.readers) if terms.tumbling_ms else 1
        self._lanes = [self._lane(number) for number in range(terms.lanes * groups)]
        self._first_lane = {
            partition: nth % groups * terms.lanes for nth, partition in enumerate(world.readers)
        }
        self._joining = TransactionGrouping(self._loop, self._queue_together) if terms.together else None
        self._spread: list[list[Delivery]] = []  # transactions over partitions that marks may still divide
        self._tasks: list[asyncio.Task[None]] = []
        self._ahead = self._ahead_bytes = 0
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._handled = self._dead = 0  # since the last checkpoint
        self._tops: dict[int, int] = {}  # of each partition the highest number that was handled
        self._written = dict(subscription.checkpoints)
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._moved: asyncio.Future[None] | None = None  # somebody waits for progress
        self._is_closed = self._is_ended = False
        self._woken: set[int] = set()
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, once the sink is ready."""
        self._tasks.append(self._loop.create_task(self._begin()))

    async def stop(self) -> None:
        """Let calls that are under way come to their end, for a moment, and leave a checkpoint of what is handled."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*(lane.close(_GRACE_S) for lane in self._lanes))
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._joining is not None:
            self._joining.close()
        if self._timer is not None:
            self._timer.cancel()
        if self._writing is not None:
            await self._writing
        if self._looking is not None:
            self._looking.cancel()
        if self._is_behind():
            await self._write()
        await self._sink.close()

    async def reach(self, numbers: Mapping[int, int]) -> None:
        """Wait until of each partition all up to a number is handled."""
        while True:
            behind = self._behind(numbers)
            await _look_at(behind)
            if not behind or not self._behind(numbers):
                return
            if self._moved is None:
                self._moved = self._loop.create_future()
            await asyncio.shield(self._moved)

    def checkpoints(self) -> dict[int, int]:
        """Of each partition the number up to which all is handled."""
        marks = self._read_by_one()
        for (partition, _), number in self._lows().items():
            marks[partition] = min(number, marks[partition])
        self._spare_transactions(marks)
        return marks

    def _spare_transactions(self, marks: dict[int, int]) -> None:
        """Put back the marks that fall between the parts of a transaction: it comes again as a whole or not at all."""
        is_whole = False
        while not is_whole:
            is_whole = True
            for group in self._spread:
                numbers = [(each.partition, each.change.sequence_number) for each in group]
                if any(number > marks[partition] for partition, number in numbers):
                    for partition, number in numbers:
                        if number <= marks[partition]:
                            marks[partition], is_whole = number - 1, False

    def depth(self, lane: int) -> int:
        """How many triggers led to what the lane handles."""
        return self._lanes[lane].depth if 0 <= lane < len(self._lanes) else 0

    @property
    def blocked(self) -> list[str]:
        """Why lanes stand still, of those that do."""
        return [lane.blocked for lane in self._lanes if lane.blocked is not None]

    def holds(self, partition: int) -> bool:
        """Whether something of a partition was read and is not handled yet."""
        return any(each.partition == partition for each in self._unhandled())

    def failing(self) -> list[tuple[Delivery, int]]:
        """What is tried again now: the first change of each such batch, and how often it has failed."""
        return [(lane.under_way()[0], lane.tries) for lane in self._lanes if lane.tries and lane.under_way()]

    # Beginning

    def _source(self, partition: int, table: int) -> Source:
        return Source(
            partition,
            table,
            stretch_of(self.subscription, partition),
            read=self._world.readers[partition],
            histories=self._world.histories,
            exists=partial(self._world.exists, table),
            take=self._take,
            room=self._room,
            waits_ms=self._waits_ms,
            clock=self._world.clock,
            troubled=self._trouble,
        )

    def _lane(self, number: int) -> Lane:
        return Lane(
            number,
            self.subscription.name,
            self._sink,
            self._around,
            self.figures,
            handled=self._done,
            gone=self._world.ended,
            broken=self._break,
        )

    async def _begin(self) -> None:
        told = ""
        while True:
            try:
                await self._sink.start()
                self._around.open.update(await self._world.dead_letters.keys())
                break
            except Exception as error:  # whatever a sink needs may be there in a moment
                ours = isinstance(error, FoldbError)  # and a sentence
                trouble = str(error) if ours else f"it cannot start: {type(error).__name__}: {error}"
                self._trouble(trouble)
                if trouble != told:
                    logger.warning("subscription %s: %s", self.subscription.name, trouble)
                    told = trouble
            await asyncio.sleep(_START_AGAIN_S)
        self.is_started = True
        self._tasks += [self._loop.create_task(self._read(source)) for source in self._sources]

    async def _read(self, source: Source) -> None:
        try:
            await source.run()
        except Exception as error:
            self._break(error)
        else:
            self._page_read(source)

    def _break(self, error: Exception) -> None:
        """What nobody thought of: not to go on is what an operator sees, and nothing is lost by it."""
        logger.error("subscription %s cannot go on", self.subscription.name, exc_info=error)
        self._trouble(f"it cannot go on: {error!r}")
        self._world.ended(f"it cannot go on: {error!r}")

    # Reading

    async def _room(self) -> None:
        await self._has_room.wait()

    def _waits_ms(self) -> int:
        """How long to wait for more: until a tumbling window may be over. Of one that is over its lane knows."""
        now = self._world.clock() - LATE_MS
        ends = [end for lane in self._lanes if (end := lane.window_end()) is not None and end > now]
        if ends:
            return min(ends) - now
        # What is on its way to a lane opens a window there, after this was asked.
        return self._terms.tumbling_ms or LONGEST_WAIT_MS if self._ahead else LONGEST_WAIT_MS

    def _take(self, source: Source, changes: Sequence[Change]) -> None:
        """What a source read goes to its lanes; called without changes when a page is through."""
        passes, joining, queue, partition = self._passes, self._joining, self._queue, source.partition
        dropped = 0
        for change in changes:
            view = self._views.get((change.table, change.stream)) or self._view(change)
            delivery = Delivery(change, partition, view, source.snapshot if change.is_read else 0)
            if passes is not None and not passes(delivery):
                dropped += 1
                if joining is not None:
                    joining.add((Read(delivery, False),))
            elif joining is not None:
                joining.add((Read(delivery, True),))
            else:
                queue(delivery)
        self._wake()
        if dropped:
            self._tops[partition] = max(self._tops.get(partition, 0), changes[-1].sequence_number)
        self._count(dropped)
        if not changes:
            self._page_read(source)

    def _queue(self, delivery: Delivery) -> None:
        """Put a change into its lane: that of its partition key."""
        change = delivery.change
        number = self._first_lane[delivery.partition] + self._terms.lane_of(change.pk)
        self._lanes[number].queue.append(delivery)
        self._woken.add(number)
        self._ahead += 1
        self._ahead_bytes += _size(change)

    def _queue_together(self, deliveries: list[Delivery]) -> None:
        if len({each.partition for each in deliveries}) > 1:
            self._spread.append(deliveries)
        for each in deliveries:
            self._queue(each)
        self._wake()

    def _wake(self) -> None:
        for number in self._woken:
            self._lanes[number].wake()
        self._woken.clear()
        if self._ahead >= self._terms.ahead or self._ahead_bytes >= _AHEAD_BYTES:
            self._has_room.clear()

    def _view(self, change: Change) -> TableView:
        view = self._views[change.table, change.stream] = self._world.view(change.table, change.stream)
        return view

    def _page_read(self, source: Source) -> None:
        if self._terms.tumbling_ms and (source.is_at_end or source.is_over):
            self._end_windows(source)
        if self._joining is not None:
            self._complete(source.partition)
        self._count(0)
        self._move()
        self._end_if_over()

    def _end_windows(self, source: Source) -> None:
        """Tell how far log time is where a source, the only one there, reads; of one that is over nothing comes."""
        passed = _BEYOND if source.is_over else max(source.time, self._world.clock() - LATE_MS)
        first = self._first_lane[source.partition]
        for lane in self._lanes[first : first + self._terms.lanes]:
            lane.has_passed(passed)

    def _complete(self, partition: int) -> None:
        """Tell how far a partition is read, in all tables: a transaction may be complete by that."""
        assert self._joining is not None, "transactions are together"
        waiting = self._joining.partitions()
        if partition in waiting:
            self._joining.is_read(partition, self._read_by_all(partition))
            if partition in self._joining.partitions() and self._looking is None:
                self._looking = self._loop.create_task(self._look(partition))

    async def _look(self, partition: int) -> None:
        """Where nothing was written to one of the tables, that is to be found out, not waited for."""
        assert self._joining is not None, "transactions are together"
        try:
            await _look_at([source for source in self._sources if source.partition == partition])
            self._joining.is_read(partition, self._read_by_all(partition))
        except Exception as error:
            self._break(error)
        finally:
            self._looking = None

    # What was handled

    def _done(self, batch: Sequence[Delivery]) -> None:
        """These were handled, or are in letters."""
        self._ahead -= len(batch)
        self._ahead_bytes -= sum(_size(each.change) for each in batch)
        if self._ahead < self._terms.ahead and self._ahead_bytes < _AHEAD_BYTES:
            self._has_room.set()
        self.figures.delivered += len(batch)
        tops = self._tops
        for each in batch:
            if each.change.sequence_number > tops.get(each.partition, 0):
                tops[each.partition] = each.change.sequence_number
        self._count(len(batch))
        self._move()
        self._end_if_over()

    def _count(self, handled: int) -> None:
        self._handled += handled
        self.figures.handled += handled
        if self._is_behind() and self._timer is None and self._writing is None and not self._is_closed:
            self._timer = self._loop.call_later(CHECKPOINT_S, self._begin_writing)

    def _is_behind(self) -> bool:
        """Whether something was handled that the last checkpoint does not tell of."""
        written = self._written
        return any(number > written.get(partition, 0) for partition, number in self._tops.items())

    def _buried(self, letters: int) -> None:
        self._dead += letters
        self.figures.dead += letters
        self.figures.delivered -= letters

    def _trouble(self, error: str) -> None:
        self.figures.failure(error, None, self._world.clock())

    def _move(self) -> None:
        """Those who wait for progress look again."""
        if self._moved is not None:
            self._moved.set_result(None)
            self._moved = None

    def _end_if_over(self) -> None:
        if self._is_ended or not all(source.is_over for source in self._sources):
            return
        if not any(self._unhandled()):
            self._is_ended = True
            self._world.ended(DONE if self.subscription.settings["End"] else GONE)

    def _unhandled(self) -> Iterator[Delivery]:
        """All that was read and is not handled yet."""
        for lane in self._lanes:
            yield from lane.unhandled()
        if self._joining is not None:
            yield from self._joining.held()

    def _lows(self) -> dict[tuple[int, int], int]:
        """Of each source the number up to which all is handled; one that is over holds nothing back."""
        lows = {
            (source.partition, source.table): _BEYOND if source.is_over else source.after
            for source in self._sources
        }
        for lane in self._lanes:
            seen = set()
            for delivery in lane.unhandled():
                place = delivery.partition, delivery.change.table
                lows[place] = min(lows[place], delivery.change.sequence_number - 1)
                seen.add(place)
                # A lane has the changes of a source in their order, but for those that waited for a transaction.
                if len(seen) == len(lows) and self._joining is None:
                    break
        for delivery in () if self._joining is None else self._joining.held():
            place = delivery.partition, delivery.change.table
            lows[place] = min(lows[place], delivery.change.sequence_number - 1)
        return lows

    def _read_by_one(self) -> dict[int, int]:
        """Of each partition the number up to which one table at least is read."""
        reached: dict[int, int] = {}
        for source in self._sources:
            reached[source.partition] = max(source.after, reached.get(source.partition, 0))
        return reached

    def _read_by_all(self, partition: int) -> int:
        """The number up to which all tables are read there."""
        return min(
            _BEYOND if source.is_over else source.after
            for source in self._sources
            if source.partition == partition
        )

    def _behind(self, numbers: Mapping[int, int]) -> list[Source]:
        """The sources that do not have all handled up to their partition's number."""
        lows = self._lows()
        return [
            source
            for source in self._sources
            if lows[source.partition, source.table] < numbers.get(source.partition, 0)
        ]

    # Checkpoints

    def _begin_writing(self) -> None:
        self._timer = None
        self._writing = self._loop.create_task(self._write())

    async def _write(self) -> None:
        """Write how far all is. What cannot be written now is told with the next."""
        try:
            marks = await self._marks_of_all()
            risen = {place: number for place, number in marks.items() if number > self._written.get(place, 0)}
            handled, dead = self._handled, self._dead
            if risen or handled:
                await self._world.checkpoint(Progress(risen, self._sink.version, handled, dead))
                self._written.update(risen)
                self._spread = [group for group in self._spread if any(map(self._is_beyond, group))]
                self._handled -= handled
                self._dead -= dead
        except RequestError as error:
            self._trouble(f"no checkpoint can be written now: {error}")
        finally:
            self._writing = None
        if self._handled:  # meanwhile, or still
            self._count(0)

    def _is_beyond(self, delivery: Delivery) -> bool:
        return delivery.change.sequence_number > self._written.get(delivery.partition, 0)

    async def _marks_of_all(self) -> dict[int, int]:
        """As `marks`. A table to which nothing is written must not hold back the mark of its partition.

        Where that cannot be found out now it does until the next checkpoint: a stop waits for this one.
        """
        if len(self.subscription.table_ids) > 1 and not self._is_closed:
            reached = self._read_by_one()
            for source in self._sources:
                if source.after < reached[source.partition]:
                    await source.look()
        return self.checkpoints()


async def _look_at(sources: Sequence[Source]) -> None:
    for source in sources:
        while not await source.look():
            await asyncio.sleep(AGAIN_S)


def _size(change: Change) -> int:
    return len(change.old or b"") + len(change.new or b"")
