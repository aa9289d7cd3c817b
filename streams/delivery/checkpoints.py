"""Tracks how far a subscription has handled each partition, and writes its checkpoints.

    handled ──► highest handled ──┐
    unhandled ──► lowest ─────────┴──► checkpoint, 200 ms after a change was handled

The checkpoint of a partition stays below every change that is neither handled nor a dead letter. A restart from it
therefore misses no change, and delivers changes beyond it again. Without handled changes no checkpoint is written.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Final

from ...model.errors import RequestError
from ...model.lazy_dataclass import dataclass
from ...model.sequence_numbers import SequenceNumber
from ...model.subscriptions import Subscription
from ..formats.table_view import Delivery
from .lane import Lane
from .source import RETRY_S, ChangeSource
from .transaction_grouping import TransactionGrouping

CHECKPOINT_S: Final = 0.2
INFINITY: Final = 10**41
"""Greater than every sequence number and every timestamp."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The content of a checkpoint.

    Attributes:
        checkpoints: For each partition that moved, the sequence number up to which all changes are handled.
        version: Version of the code that the sink called.
        handled: Number of changes handled since the last checkpoint.
        dead: Number of these that became dead letters.
    """

    checkpoints: dict[int, int]
    version: str
    handled: int
    dead: int


class CheckpointTracker:
    """The progress of one subscription, and the task that writes it."""

    def __init__(
        self,
        subscription: Subscription,
        sources: Sequence[ChangeSource],
        lanes: Sequence[Lane],
        grouping: TransactionGrouping | None,
        *,
        write: Callable[[dict[int, int], int, int], Awaitable[None]],
        on_error: Callable[[str], None],
    ) -> None:
        """Track the changes of `sources` that are in `lanes` or wait in `grouping`.

        `write` appends a checkpoint with its sequence numbers, and the numbers of changes and dead letters since the
        last one.
        """
        self._sources = sources
        self._lanes = lanes
        self._grouping = grouping
        self._write_checkpoint = write
        self._on_error = on_error
        self._has_tables = len(subscription.table_ids) > 1
        self._loop = asyncio.get_running_loop()
        self._split: list[
            list[Delivery]
        ] = []  # transactions over partitions that a checkpoint may still divide
        self._handled = self._dead = 0  # since the last checkpoint
        self._highest_handled: dict[int, int] = {}  # by partition
        self._written = dict(subscription.checkpoints)
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._progress: asyncio.Future[None] | None = None  # set while `wait_until_handled` waits
        self._is_closing = False

    # Progress made

    def count(self, handled: int) -> None:
        """Count handled changes, and schedule a checkpoint if the last one is behind."""
        self._handled += handled
        is_scheduled = self._timer is not None or self._writing is not None
        if self._is_behind() and not is_scheduled and not self._is_closing:
            self._timer = self._loop.call_later(CHECKPOINT_S, self._begin_writing)

    def count_dead(self, dead_letters: int) -> None:
        """Count changes that became dead letters."""
        self._dead += dead_letters

    def record_handled(self, batch: Sequence[Delivery]) -> None:
        """Record a batch whose changes are handled or dead letters."""
        highest = self._highest_handled
        for change, partition, _, _ in batch:
            if change.sequence_number > highest.get(partition, 0):
                highest[partition] = change.sequence_number

    def record_filtered(self, partition: int, sequence_number: SequenceNumber) -> None:
        """Record that the filter dropped changes up to a sequence number."""
        self._highest_handled[partition] = max(self._highest_handled.get(partition, 0), sequence_number)

    def record_split(self, transaction: list[Delivery]) -> None:
        """Record a transaction over several partitions: a checkpoint holds all of its changes or none."""
        self._split.append(transaction)

    def notify(self) -> None:
        """Wake the callers of `wait_until_handled` after progress."""
        if self._progress is not None:
            self._progress.set_result(None)
            self._progress = None

    async def wait_until_handled(self, sequence_numbers: Mapping[int, SequenceNumber]) -> None:
        """Wait until all changes up to a sequence number of each partition are handled."""
        while True:
            behind = self._sources_behind(sequence_numbers)
            await poll_all(behind)
            if not behind or not self._sources_behind(sequence_numbers):
                return
            if self._progress is None:
                self._progress = self._loop.create_future()
            await asyncio.shield(self._progress)

    def begin_close(self) -> None:
        """Schedule no further checkpoint."""
        self._is_closing = True

    async def close(self) -> None:
        """Write the last checkpoint, if it would differ from the one before."""
        if self._timer is not None:
            self._timer.cancel()
        if self._writing is not None:
            await self._writing
        if self._is_behind():
            await self._write()

    # Positions

    def checkpoints(self) -> dict[int, int]:
        """Return for each partition the sequence number up to which all changes are handled."""
        checkpoints = self._read_by_any()
        for (partition, _), handled in self._handled_by_source().items():
            checkpoints[partition] = min(handled, checkpoints[partition])
        self._lower_to_transactions(checkpoints)
        return checkpoints

    def unhandled(self) -> Iterator[Delivery]:
        """Yield every change that was read and is not handled yet."""
        for lane in self._lanes:
            yield from lane.unhandled()
        if self._grouping is not None:
            yield from self._grouping.held()

    def read_by_all(self, partition: int) -> int:
        """Return the sequence number up to which every table of a partition is read."""
        return min(
            INFINITY if source.is_over else source.after
            for source in self._sources
            if source.partition == partition
        )

    def _read_by_any(self) -> dict[int, int]:
        """Return for each partition the sequence number up to which at least one table is read."""
        reached: dict[int, int] = {}
        for source in self._sources:
            reached[source.partition] = max(source.after, reached.get(source.partition, 0))
        return reached

    def _handled_by_source(self) -> dict[tuple[int, int], int]:
        """Return the sequence number up to which all is handled, by partition and table.

        A source that is over does not limit the checkpoint.
        """
        handled = {
            (source.partition, source.table): INFINITY if source.is_over else source.after
            for source in self._sources
        }
        for lane in self._lanes:
            seen = set()
            for delivery in lane.unhandled():
                source_id = delivery.partition, delivery.change.table
                handled[source_id] = min(handled[source_id], delivery.change.sequence_number - 1)
                seen.add(source_id)
                # A lane has the changes of a source in order, except for those that waited for a transaction.
                if len(seen) == len(handled) and self._grouping is None:
                    break
        for delivery in () if self._grouping is None else self._grouping.held():
            source_id = delivery.partition, delivery.change.table
            handled[source_id] = min(handled[source_id], delivery.change.sequence_number - 1)
        return handled

    def _lower_to_transactions(self, checkpoints: dict[int, int]) -> None:
        """Lower checkpoints that divide a transaction: a restart delivers all of its changes again, or none."""
        is_whole = False
        while not is_whole:
            is_whole = True
            for transaction in self._split:
                parts = [(each.partition, each.change.sequence_number) for each in transaction]
                if any(sequence_number > checkpoints[partition] for partition, sequence_number in parts):
                    for partition, sequence_number in parts:
                        if sequence_number <= checkpoints[partition]:
                            checkpoints[partition], is_whole = sequence_number - 1, False

    def _sources_behind(self, sequence_numbers: Mapping[int, SequenceNumber]) -> list[ChangeSource]:
        """Return the sources whose changes are not handled up to the sequence number of their partition."""
        handled = self._handled_by_source()
        return [
            source
            for source in self._sources
            if handled[source.partition, source.table] < sequence_numbers.get(source.partition, 0)
        ]

    # Checkpoints

    def _is_behind(self) -> bool:
        """Return whether a change was handled that the last checkpoint does not cover."""
        written = self._written
        return any(last > written.get(partition, 0) for partition, last in self._highest_handled.items())

    def _begin_writing(self) -> None:
        self._timer = None
        self._writing = self._loop.create_task(self._write())

    async def _write(self) -> None:
        """Write a checkpoint. If that fails, the next checkpoint covers the same changes."""
        try:
            checkpoints = await self._checkpoints_of_idle_tables()
            risen = {
                partition: sequence_number
                for partition, sequence_number in checkpoints.items()
                if sequence_number > self._written.get(partition, 0)
            }
            handled, dead = self._handled, self._dead
            if risen or handled:
                await self._write_checkpoint(risen, handled, dead)
                self._written.update(risen)
                self._split = [group for group in self._split if any(map(self._is_beyond, group))]
                self._handled -= handled
                self._dead -= dead
        except RequestError as error:
            self._on_error(f"failed to write a checkpoint: {error}")
        finally:
            self._writing = None
        if self._handled:  # handled during the write, or the write failed
            self.count(0)

    def _is_beyond(self, delivery: Delivery) -> bool:
        return delivery.change.sequence_number > self._written.get(delivery.partition, 0)

    async def _checkpoints_of_idle_tables(self) -> dict[int, int]:
        """Return `checkpoints`, after a poll of the tables that are behind another table of their partition.

        A table without writes must not hold back the checkpoint of its partition. If the poll fails, the table holds
        it back until the next checkpoint: a stop waits for this one.
        """
        if self._has_tables and not self._is_closing:
            reached = self._read_by_any()
            for source in self._sources:
                if source.after < reached[source.partition]:
                    await source.poll()
        return self.checkpoints()


async def poll_all(sources: Sequence[ChangeSource]) -> None:
    """Poll sources until each has an answer."""
    for source in sources:
        while not await source.poll():
            await asyncio.sleep(RETRY_S)
