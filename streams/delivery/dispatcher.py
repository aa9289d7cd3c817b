"""Runs one subscription: reads its feeds, filters changes, spreads them over lanes, and tracks its checkpoint.

sources ──► filter ──► lanes, by partition key ──► sink
                         └── lowest unhandled sequence number ──► checkpoint (checkpoints.py)
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from ...materializer.feed_requests import LONGEST_WAIT_MS
from ...materializer.fold.outcomes import Change
from ...materializer.history.requests import PartitionWithHistory
from ...model.errors import FoldbError
from ...model.lazy_dataclass import dataclass
from ...model.sequence_numbers import SequenceNumber
from ...model.subscriptions import Subscription
from ..formats.table_view import Delivery, TableView
from ..sinks.sink import Sink
from .attempts import DeliveryContext
from .checkpoints import INFINITY, CheckpointTracker, Progress, poll_all
from .dead_letters import DeadLetters
from .delivery_policy import DeliveryPolicy
from .lane import Lane
from .metrics import SubscriptionMetrics
from .source import (
    MAX_LATENESS_MS,
    ChangeConsumer,
    ChangeSource,
    ChangesTrimmedError,
    TableReader,
    remaining_range,
)
from .transaction_grouping import FilteredChange, TransactionGrouping

_AHEAD_BYTES: Final = 32 * 1024 * 1024
_START_RETRY_S: Final = 1.0
_GRACE_S: Final = 3.0

END_REACHED: Final = "done"
"""Stop reason: the subscription delivered every change up to its configured end, as a replay does."""

TABLES_DELETED: Final = "its tables are gone"
"""Stop reason: the subscription's tables are deleted, and all their changes are delivered."""

logger = logging.getLogger(__name__)

Filter: TypeAlias = Callable[[Delivery], bool]


@dataclass(frozen=True, slots=True)
class DispatcherContext:
    """The environment of a dispatcher.

    Attributes:
        partitions: Returns the partitions that have items, by id, as this process reaches them now.
        key_of: Returns the key of an item of the table with an id.
        table_exists: Returns whether the table with an id exists.
        view: Returns the table (by id) as formats describe it while the stream with a label was enabled.
        dead_letters: The store of dead letters.
        checkpoint: Appends a checkpoint.
        on_end: Called with a stop reason when the dispatcher ends by itself.
        seconds: Monotonic clock that measures calls.
        jitter: Random numbers from 0 to 1.
    """

    partitions: Callable[[], Mapping[int, PartitionWithHistory]]
    key_of: Callable[[int, bytes], tuple[bytes, bytes]]
    table_exists: Callable[[int], bool]
    view: Callable[[int, int], TableView]
    dead_letters: DeadLetters
    checkpoint: Callable[[Progress], Awaitable[None]]
    on_end: Callable[[str], None]
    clock: Callable[[], int]
    seconds: Callable[[], float]
    jitter: Callable[[], float]


class Dispatcher:
    """One running subscription.

    Attributes:
        subscription: The subscription at the time when the dispatcher was made.
        is_started: Whether its sink is ready.
    """

    def __init__(
        self,
        subscription: Subscription,
        sink: Sink,
        context: DispatcherContext,
        change_filter: Filter | None = None,
    ) -> None:
        """Prepare a dispatcher that `start` starts; without `change_filter` it delivers every change."""
        self.subscription = subscription
        self.metrics = SubscriptionMetrics()
        self.is_started = False
        self._policy = policy = DeliveryPolicy.of(subscription.settings)
        self._sink = sink
        self._context = context
        self._filter = change_filter
        self._loop = asyncio.get_running_loop()
        self._views: dict[tuple[int, int], TableView] = {}
        self._delivery = DeliveryContext(
            subscription.name,
            sink,
            policy,
            self.metrics,
            context.dead_letters,
            {},
            context.clock,
            context.seconds,
            context.jitter,
            self._count_dead,
            self._report,
        )
        self._sources = [
            self._source(partition, table)
            for partition in context.partitions()
            for table in subscription.table_ids
        ]
        # A tumbling window's state belongs to one partition, because its log time does.
        groups = len(context.partitions()) if policy.tumbling_ms else 1
        self._lanes = [
            Lane(lane_id, self._delivery, self._handled, on_unsubscribed=context.on_end, on_error=self._fail)
            for lane_id in range(policy.lanes * groups)
        ]
        self._first_lane = {
            partition: index % groups * policy.lanes for index, partition in enumerate(context.partitions())
        }
        self._grouping = TransactionGrouping(self._loop, self._queue_together) if policy.together else None
        self._tracker = CheckpointTracker(
            subscription,
            self._sources,
            self._lanes,
            self._grouping,
            write=self._write_checkpoint,
            on_error=self._report,
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._ahead = self._ahead_bytes = 0
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._is_ended = False
        self._lanes_to_wake: set[int] = set()
        self._polling: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the sink, then read and deliver."""
        self._tasks.append(self._loop.create_task(self._begin()))

    async def stop(self) -> None:
        """Stop: give running calls a few seconds to end, and write a checkpoint of the handled changes."""
        self._tracker.begin_close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*(lane.close(_GRACE_S) for lane in self._lanes))
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._grouping is not None:
            self._grouping.close()
        if self._polling is not None:
            self._polling.cancel()
        await self._tracker.close()
        await self._sink.close()

    async def reach(self, sequence_numbers: Mapping[int, SequenceNumber]) -> None:
        """Wait until all changes up to a sequence number of each partition are handled."""
        await self._tracker.wait_until_handled(sequence_numbers)

    def checkpoints(self) -> dict[int, int]:
        """Return for each partition the sequence number up to which all changes are handled."""
        return self._tracker.checkpoints()

    def depth(self, lane: int) -> int:
        """Return the trigger depth of the changes that a lane handles."""
        return self._lanes[lane].depth if 0 <= lane < len(self._lanes) else 0

    @property
    def blocked(self) -> list[str]:
        """The errors of the blocked lanes."""
        return [lane.blocked for lane in self._lanes if lane.blocked is not None]

    def holds(self, partition: int) -> bool:
        """Return whether a partition has changes that were read and are not handled yet."""
        return any(each.partition == partition for each in self._tracker.unhandled())

    def failing(self) -> list[tuple[Delivery, int]]:
        """Return the first change of each batch that is being retried, with the number of failed attempts."""
        return [(lane.under_way()[0], lane.tries) for lane in self._lanes if lane.tries and lane.under_way()]

    # Start

    def _source(self, partition: int, table: int) -> ChangeSource:
        context = self._context
        return ChangeSource(
            partition,
            table,
            remaining_range(self.subscription, partition),
            TableReader(
                lambda: context.partitions()[partition],
                partial(context.key_of, table),
                partial(context.table_exists, table),
                context.clock,
            ),
            ChangeConsumer(self._take, self._wait_for_room, self._poll_timeout_ms, self._report),
        )

    async def _begin(self) -> None:
        logged = ""
        while True:
            try:
                await self._sink.start()
                self._delivery.open.update(await self._context.dead_letters.keys())
                break
            except Exception as error:  # a resource that the sink needs may be available in a moment
                is_own = isinstance(error, FoldbError)  # its text is a sentence
                trouble = str(error) if is_own else f"it cannot start: {type(error).__name__}: {error}"
                self._report(trouble)
                if trouble != logged:
                    logger.warning("subscription %s: %s", self.subscription.name, trouble)
                    logged = trouble
            await asyncio.sleep(_START_RETRY_S)
        self.is_started = True
        self._tasks += [self._loop.create_task(self._read(source)) for source in self._sources]

    async def _read(self, source: ChangeSource) -> None:
        try:
            await source.run()
        except ChangesTrimmedError as error:
            self._report(str(error))
            self._context.on_end(str(error))
        except Exception as error:
            self._fail(error)
        else:
            self._page_read(source)

    def _fail(self, error: Exception) -> None:
        """Stop after an unexpected error: the operator sees the stop, and no change is lost by it."""
        logger.error(
            "subscription %s stops after an unexpected error", self.subscription.name, exc_info=error
        )
        reason = f"it cannot go on: {error!r}"
        self._report(reason)
        self._context.on_end(reason)

    def _report(self, error: str) -> None:
        self.metrics.failure(error, None, self._context.clock())

    # Reading

    async def _wait_for_room(self) -> None:
        await self._has_room.wait()

    def _poll_timeout_ms(self) -> int:
        """Return the poll timeout: until the earliest open tumbling window can close.

        A lane ends a window that can close already by itself.
        """
        now = self._context.clock() - MAX_LATENESS_MS
        ends = [end for lane in self._lanes if (end := lane.window_end()) is not None and end > now]
        if ends:
            return min(ends) - now
        # Changes on their way to a lane open a window there after this call.
        return self._policy.tumbling_ms or LONGEST_WAIT_MS if self._ahead else LONGEST_WAIT_MS

    def _take(self, source: ChangeSource, changes: Sequence[Change]) -> None:
        """Queue the changes that a source read; without changes, note that a page is complete."""
        passes, grouping, partition = self._filter, self._grouping, source.partition
        dropped = 0
        passed: list[Delivery] = []
        stream = view = None
        for change in changes:
            # A source has one table, so the view is that of the change before if the stream is the same.
            if view is None or change.stream != stream:
                stream = change.stream
                view = self._views.get((change.table, stream)) or self._view(change)
            delivery = Delivery(change, partition, view, source.snapshot if change.is_read else 0)
            is_passed = passes is None or passes(delivery)
            dropped += not is_passed
            if grouping is not None:
                grouping.add((FilteredChange(delivery, is_passed),))
            elif is_passed:
                passed.append(delivery)
        self._queue(passed)
        self._wake_lanes()
        if dropped:
            self._tracker.record_filtered(partition, changes[-1].sequence_number)
        self._count(dropped)
        if not changes:
            self._page_read(source)

    def _queue(self, deliveries: Sequence[Delivery]) -> None:
        """Append changes to the lanes of their partition keys."""
        first_lane, lane_of = self._first_lane, self._policy.lane_of
        if len(self._lanes) == 1 and deliveries:
            self._lanes[0].queue.extend(deliveries)
            self._lanes_to_wake.add(0)
        else:
            for each in deliveries:
                lane_id = first_lane[each.partition] + lane_of(each.change.pk)
                self._lanes[lane_id].queue.append(each)
                self._lanes_to_wake.add(lane_id)
        self._ahead += len(deliveries)
        self._ahead_bytes += _size(deliveries)

    def _queue_together(self, deliveries: list[Delivery]) -> None:
        if len({each.partition for each in deliveries}) > 1:
            self._tracker.record_split(deliveries)
        self._queue(deliveries)
        self._wake_lanes()

    def _wake_lanes(self) -> None:
        for lane_id in self._lanes_to_wake:
            self._lanes[lane_id].wake()
        self._lanes_to_wake.clear()
        if self._ahead >= self._policy.ahead or self._ahead_bytes >= _AHEAD_BYTES:
            self._has_room.clear()

    def _view(self, change: Change) -> TableView:
        view = self._views[change.table, change.stream] = self._context.view(change.table, change.stream)
        return view

    def _page_read(self, source: ChangeSource) -> None:
        if self._policy.tumbling_ms and (source.is_at_end or source.is_over):
            self._close_windows(source)
        if self._grouping is not None:
            self._complete_transactions(source.partition)
        self._count(0)
        self._tracker.notify()
        self._end_if_over()

    def _close_windows(self, source: ChangeSource) -> None:
        """Close tumbling windows up to the log time of a source, the only one of its lanes."""
        passed = INFINITY if source.is_over else max(source.time, self._context.clock() - MAX_LATENESS_MS)
        first = self._first_lane[source.partition]
        for lane in self._lanes[first : first + self._policy.lanes]:
            lane.advance_time(passed)

    def _complete_transactions(self, partition: int) -> None:
        """Release the transactions that are complete because all tables of a partition were read."""
        assert self._grouping is not None, "transactions are together"
        if partition not in self._grouping.partitions():
            return
        self._grouping.advance(partition, self._tracker.read_by_all(partition))
        if partition in self._grouping.partitions() and self._polling is None:
            self._polling = self._loop.create_task(self._poll(partition))

    async def _poll(self, partition: int) -> None:
        """Poll the tables of a partition: one without writes must not delay a transaction."""
        assert self._grouping is not None, "transactions are together"
        try:
            await poll_all([source for source in self._sources if source.partition == partition])
            self._grouping.advance(partition, self._tracker.read_by_all(partition))
        except Exception as error:
            self._fail(error)
        finally:
            self._polling = None

    # Progress

    def _handled(self, batch: Sequence[Delivery]) -> None:
        """Count a batch whose changes are handled or dead letters."""
        self._ahead -= len(batch)
        self._ahead_bytes -= _size(batch)
        if self._ahead < self._policy.ahead and self._ahead_bytes < _AHEAD_BYTES:
            self._has_room.set()
        self.metrics.delivered += len(batch)
        self._tracker.record_handled(batch)
        self._count(len(batch))
        self._tracker.notify()
        self._end_if_over()

    def _count(self, handled: int) -> None:
        self.metrics.handled += handled
        self._tracker.count(handled)

    def _count_dead(self, dead_letters: int) -> None:
        self._tracker.count_dead(dead_letters)
        self.metrics.dead += dead_letters
        self.metrics.delivered -= dead_letters

    async def _write_checkpoint(self, checkpoints: dict[int, int], handled: int, dead: int) -> None:
        await self._context.checkpoint(Progress(checkpoints, self._sink.version, handled, dead))

    def _end_if_over(self) -> None:
        if self._is_ended or not all(source.is_over for source in self._sources):
            return
        if not any(self._tracker.unhandled()):
            self._is_ended = True
            self._context.on_end(END_REACHED if self.subscription.settings["End"] else TABLES_DELETED)


def _size(deliveries: Sequence[Delivery]) -> int:
    """Return the bytes of the images of changes."""
    changes = [each.change for each in deliveries]
    return sum([len(each.old or b"") + len(each.new or b"") for each in changes])
