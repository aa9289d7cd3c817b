"""The partitions that this process folds; they come and go.

    open ──► newest snapshot ──► its log ──► answers reads, takes writes ──► lead ──► ... ──► stand by ──► close

Whoever leads a partition also does what an owner does besides folding: it sends on what the partition has told others,
and proposes what time brings (materializer/owner.py). Two that lead one partition do no harm.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import cast

from ...log.local import LocalLog, disk_of
from ...log.log import Deliver, Log, SharedLog
from ...materializer.consistent_partition import ConsistentPartition
from ...materializer.digest_task import DIGEST_ITEMS_MAX
from ...materializer.disposer import Disposer, stores_of
from ...materializer.feed_requests import FedPartition
from ...materializer.fold.state import PartitionState
from ...materializer.local_partition import LocalPartition
from ...materializer.long_reads import LongReads
from ...materializer.owner import Owner
from ...materializer.partition import Partition
from ...materializer.refold import Capture
from ...materializer.replicated import ReplicatedWorker
from ...materializer.snapshots import Snapshots
from ...materializer.worker import Worker
from ...streams.feed import ChangeStore, Feed, ThreadExecutor, folder_of
from ...streams.feed.historical_feed import (
    HistoricalFeeds,
    OnProgress,
    StartReplay,
    folder_in,
    in_process,
    in_thread,
)
from ...streams.feed.replay_worker import ReplayTask
from ..settings import Settings
from .historical_reads import HistoricalReads
from .memory_limit import BoundedPartition, MemoryLimit, bytes_in

_ORIGIN_BYTES = 16

# What may wait for the log is shared out among partitions, down to what one large batch needs.
_LEAST_QUEUE_BYTES = 16 * 1024 * 1024

# What the newest changes of all tables may take in memory; older ones are read from files.
_RECENT_BYTES = 64 * 1024 * 1024


class Replica:
    """One partition that this process folds.

    Attributes:
        partition_id: Which one.
        worker: Appends and folds.
        partition: Where commands and reads go.
        feed: The changes of its tables.
        leading: Whether this process acts for it.
        is_closed: Whether this process folds it no longer.
    """

    def __init__(
        self,
        number: int,
        worker: Worker,
        partition: FedPartition,
        feed: Feed,
        make_owner: Callable[[Worker], Owner],
    ) -> None:
        self.partition_id = number
        self.worker = worker
        self.partition = partition
        self.feed = feed
        self.is_closed = False
        self._make_owner = make_owner
        self._owner: Owner | None = None

    @property
    def state(self) -> PartitionState:
        """What has been folded. Look, but never change it."""
        return self.worker.state

    @property
    def leading(self) -> bool:
        """Whether this process acts for the partition."""
        return self._owner is not None

    def catch_up(self, done: Callable[[], None]) -> None:
        """Call back when everything is folded that the log has now; where nobody else writes to it, that is so."""
        if isinstance(self.worker, ReplicatedWorker):
            self.worker.catch_up(done)
        else:
            done()

    def lead(self) -> None:
        """Begin to act for it."""
        if self._owner is None:
            self._owner = self._make_owner(self.worker)
            self._owner.start()

    def stand_by(self) -> None:
        """Only fold from now on."""
        if self._owner is not None:
            self._owner.close()
            self._owner = None

    async def close(self, *, witness: bool = False) -> None:
        """Answer what was taken, and fold no more; with `witness` the log is left with a digest of what it made."""
        self.is_closed = True
        self.stand_by()
        self.feed.begin_close()
        drained = asyncio.Event()
        self.worker.close(drained.set, leave_digest=witness)
        await drained.wait()
        self.feed.close()


class Partitions:
    """All that this process folds.

    Attributes:
        count: How many partitions the log has.
        hosted: Those of this process, by number.
        disposer: Frees the stores of dropped tables and indexes.
        memory: Whether there is room for more.
        histories: What feeds do not keep.
        pasts: The same, page by page.
        long_reads: The pages under way that are longer than one portion.
    """

    def __init__(
        self,
        log: Log,
        settings: Settings,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], int],
        random_bytes: Callable[[int], bytes],
        on_fatal: Callable[[BaseException], None],
        peers: Sequence[Partition],
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """None are open yet. `peers` are the partitions as this process reaches them, wherever they are."""
        self.count = log.genesis(0).partitions
        self.hosted: dict[int, Replica] = {}
        self.disposer = Disposer(loop)
        self.memory = MemoryLimit(settings.memory_limit_bytes, self.bytes, loop)
        self.long_reads = LongReads(loop)
        self._log = log
        self._is_shared = settings.log is not None
        self._settings = settings
        self._loop = loop
        self._clock = clock
        self._random_bytes = random_bytes
        self._on_fatal = on_fatal
        self._peers = peers
        self._progress = progress

        def deliver(callback: Callable[[], None]) -> None:
            loop.call_soon_threadsafe(callback)

        self._writing = ThreadExecutor("changes, written", deliver)
        self._reading_files = ThreadExecutor("changes, read", deliver)
        path = settings.path if isinstance(log, LocalLog) else None
        self.histories = HistoricalFeeds(
            self._past_of(deliver, path),
            self._folder_of_pasts,
            log.genesis(0).log_id,
            self._reading_files,
        )
        self.pasts = HistoricalReads(self.histories, loop)

    def open(self, number: int) -> Replica:
        """Load the newest snapshot of a partition and fold what its log has since; on a shared log that comes later.

        Raises:
            CorruptionError, NewerVersionError, FoldError: There is no serving it.
        """
        assert number not in self.hosted, "it is open already"
        keeping = self._keeping(number)
        state = self._newest(number, keeping)
        feed = Feed(
            state,
            lambda: worker.position,
            self._loop,
            keeping,
            retention_ms=self._settings.stream_retention_ms,
            recent_bytes=_RECENT_BYTES // self.count,
            rebuild=partial(self.histories.segment, number),
        )
        worker = self._worker(number, state, feed)
        if not self._is_shared:
            worker.open(self._progress)
        feed.serve(self._writing, self._reading_files)
        partition = self._reading(worker, feed)
        if self.memory.bound:
            partition = BoundedPartition(partition, self.memory, lambda: worker.position)
        hosted = self.hosted[number] = Replica(number, worker, partition, feed, self._owner)
        return hosted

    async def close(self, number: int) -> None:
        """Stop folding a partition, and free its memory."""
        await self.hosted[number].close()
        self.disposer.take(stores_of(self.hosted.pop(number).state))

    async def close_all(self) -> None:
        """Let go of all; a log that stays is left with a digest of each, if that does not take long."""
        self.memory.close()
        self.histories.close()
        for hosted in self.hosted.values():
            hosted.stand_by()
        items = sum(hosted.worker.statistics().items for hosted in self.hosted.values())
        witness = self._settings.path is not None and not self._is_shared and items <= DIGEST_ITEMS_MAX
        for hosted in self.hosted.values():
            await hosted.close(witness=witness)
        await asyncio.to_thread(self._writing.close)
        await asyncio.to_thread(self._reading_files.close)

    def states(self) -> list[PartitionState]:
        """What has been folded, partition after partition."""
        return [hosted.state for hosted in self.hosted.values()]

    def bytes(self) -> int:
        """Return about how many bytes the items and index entries take, with those that are not free yet."""
        stores = [store for state in self.states() for store in stores_of(state)]
        return bytes_in([*stores, *self.disposer.waiting])

    def commands(self) -> int:
        """How many commands have been folded in this process."""
        statistics = [hosted.worker.statistics() for hosted in self.hosted.values()]
        return sum(each.refolded + each.commands for each in statistics)

    def _worker(self, number: int, state: PartitionState, capture: Capture) -> Worker:
        queue = self._settings.queue_bytes
        bound = min(queue, max(queue // self.count, _LEAST_QUEUE_BYTES))
        if self._is_shared:
            return ReplicatedWorker(
                cast(SharedLog, self._log),
                state,
                new_origin=lambda: self._random_bytes(_ORIGIN_BYTES),
                scheduler=self._loop,
                partition=number,
                waiting_bytes=bound,
                capture=capture,
                dispose=self.disposer.take,
                on_fatal=self._on_fatal,
            )
        return Worker(
            self._log,
            state,
            origin=self._random_bytes(_ORIGIN_BYTES),
            scheduler=self._loop,
            partition=number,
            waiting_bytes=bound,
            capture=capture,
            dispose=self.disposer.take,
            on_fatal=self._on_fatal,
        )

    def _reading(self, worker: Worker, feed: Feed) -> FedPartition:
        """Where there is one partition that nobody else writes to, no read has to wait."""
        if self.count == 1 and not self._is_shared:
            return LocalPartition(worker, feed.ask, long_reads=self.long_reads)
        strict = self._settings.strict_reads
        return ConsistentPartition(
            worker,
            feed.ask,
            long_reads=self.long_reads,
            clock=self._clock,
            scheduler=self._loop,
            strict=strict,
        )

    def _past_of(self, deliver: Deliver, path: Path | None) -> StartReplay:
        """Who reads the log once more, beside those who are served."""
        if self._is_shared:
            return in_process(
                deliver,
                kafka=self._settings.log,
                security=self._settings.kafka_settings,
                variables=self._settings.kafka_variables,
            )
        inside = in_thread(self._log, deliver)
        if path is None:
            return inside
        beside = in_process(deliver, database=path)

        def make(task: ReplayTask, folder: Path, tell: OnProgress) -> Callable[[], None]:
            """Begin in another process, unless that would find another folder under the path."""
            return (beside if self._is_in_place() else inside)(task, folder, tell)

        return make

    def _folder_of_pasts(self) -> Path | None:
        """Return where the past is written: in the folder of the log, if its path still leads to it."""
        path = self._settings.path
        return folder_in(path) if path is not None and self._is_in_place() else None

    def _is_in_place(self) -> bool:
        return isinstance(self._log, LocalLog) and self._log.disk.is_in_place()

    def _keeping(self, number: int) -> ChangeStore:
        """Where the partition's changes are kept, with what is there already."""
        path = self._settings.path if isinstance(self._log, LocalLog) else None
        folder = None if path is None else folder_of(path, number)
        keeping = ChangeStore(folder, self._log.genesis(number).log_id, number, disk=disk_of(self._log))
        keeping.open(self._log.end(number))
        return keeping

    def _newest(self, number: int, keeping: ChangeStore) -> PartitionState:
        """The newest snapshot from which a refold also makes the changes that are missing."""
        if self._settings.path is None or not isinstance(self._log, LocalLog):
            return PartitionState()
        snapshots = Snapshots(self._settings.path, self._log.disk, number, self.count)
        retention_ms = self._settings.stream_retention_ms
        return snapshots.load_newest(
            self._log, lambda state, now_ms: keeping.suits(state, now_ms, retention_ms)
        ).state

    def _owner(self, worker: Worker) -> Owner:
        settings = self._settings
        return Owner(
            worker,
            self._peers,
            clock=self._clock,
            scheduler=self._loop,
            raises_level=not self._is_shared,
            table_delay=settings.table_delay_ms / 1000,
            sweep_interval=settings.ttl_interval_ms / 1000 if settings.ttl_interval_ms else None,
            lag_ms=settings.index_lag_ms,
        )
