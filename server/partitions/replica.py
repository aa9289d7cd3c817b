"""The partitions that this process folds. In a cluster they move between nodes.

    newest snapshot ──► open ──► its log ──► answers reads, takes writes ──► lead ──► ... ──► stand by ──► close

The leader of a partition also runs its owner: it relays messages to other partitions, and proposes timed commands
(materializer/owner.py). Two leaders of one partition do no harm: duplicates have no effect.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import NamedTuple, cast

from ...log.commands import Position, Record
from ...log.local import LocalLog, disk_of
from ...log.log import Deliver, HashedLog, Log, SharedLog
from ...materializer.consistent_partition import ConsistentPartition
from ...materializer.digest_task import DIGEST_ITEMS_MAX
from ...materializer.disposer import Disposer, stores_of
from ...materializer.feed_requests import FedPartition
from ...materializer.fold.state import PartitionState
from ...materializer.fold.storage import UNKNOWN, Stored
from ...materializer.foundation import initial_state
from ...materializer.history.history import FOLDER as HISTORY_FOLDER
from ...materializer.history.requests import LogPast, PartitionWithHistory
from ...materializer.lagging_partition import LaggingPartition
from ...materializer.local_partition import LocalPartition
from ...materializer.long_reads import LongReads
from ...materializer.owner import Owner, OwnerSettings
from ...materializer.partition import EncodedKey
from ...materializer.portions import Traffic
from ...materializer.recent_images import RecentImages
from ...materializer.refold import Capture
from ...materializer.replicated import ReplicatedWorker
from ...materializer.snapshots import Snapshots, newest_positions
from ...materializer.worker import Worker
from ...model.slots import partition_of_key
from ...streams.feed import ChangeStore, Feed, ThreadExecutor, folder_of
from ..buckets.bucket_files import BucketFiles
from ..history.reader import LazyReader, PastReader
from ..settings import Settings
from ..throttling.load_sampler import LoadSampler
from ..throttling.metered_partition import MeteredReplica, item_in, policy_of
from .memory_limit import BoundedPartition, MemoryLimit, bytes_in
from .past_reads import HistoricalPartition, PastReads
from .read_ahead import ReadAhead

_ID_BYTES = 16

# In the folder of the database. Removing it loses time alone: the histories are derived from the log.

# The queue limit is divided among the partitions. Each has at least this, which one large batch needs.
_MIN_QUEUE_BYTES = 16 * 1024 * 1024

# The memory for the newest changes of all tables. Older changes are read from files.
_RECENT_BYTES = 64 * 1024 * 1024


class Replica:
    """One partition that this process folds.

    Attributes:
        worker: Appends and folds its commands.
        partition: Receives commands and reads.
        feed: The changes of its tables.
        leading: Whether this process runs its owner.
        is_closed: Whether this process has stopped folding it.
    """

    def __init__(
        self,
        partition_id: int,
        worker: Worker,
        partition: PartitionWithHistory,
        feed: Feed,
        make_owner: Callable[[Worker], Owner],
    ) -> None:
        self.partition_id = partition_id
        self.worker = worker
        self.partition = partition
        self.feed = feed
        self.is_closed = False
        self._make_owner = make_owner
        self._owner: Owner | None = None

    @property
    def state(self) -> PartitionState:
        """The folded state. Only the worker may change it."""
        return self.worker.state

    @property
    def leading(self) -> bool:
        """Whether this process runs the partition's owner."""
        return self._owner is not None

    def catch_up(self, done: Callable[[], None]) -> None:
        """Call back when the log is folded up to its present end. A log with one writer always is."""
        if isinstance(self.worker, ReplicatedWorker):
            self.worker.catch_up(done)
        else:
            done()

    def lead(self) -> None:
        """Start the owner."""
        if self._owner is None:
            self._owner = self._make_owner(self.worker)
            self._owner.start()

    def stand_by(self) -> None:
        """Stop the owner, and only fold."""
        if self._owner is not None:
            self._owner.close()
            self._owner = None

    async def close(self, *, leave_digest: bool = False) -> None:
        """Answer the queued commands and stop folding; with `leave_digest` write a digest of the state to the log."""
        self.is_closed = True
        self.stand_by()
        self.feed.begin_close()
        drained = asyncio.Event()
        self.worker.close(drained.set, leave_digest=leave_digest)
        await drained.wait()
        self.feed.close()


class StoredPartition(NamedTuple):
    """The parts of a partition that a process has on its disk.

    Attributes:
        state: The state of a snapshot, or an empty one.
        has_snapshot: Whether the disk has a snapshot of this log, even if it lacks changes that must be served.
    """

    changes: ChangeStore
    state: PartitionState
    has_snapshot: bool


class Partitions:
    """All partitions that this process folds.

    Attributes:
        count: The number of partitions of the log.
        hosted: The partitions of this process, by id.
        sampler: The load of the partitions of this process, with --throttle.
        lagging: The same partitions as they answer reads that may be stale; empty without a lag.
        disposer: Frees the stores of dropped tables and indexes.
        memory: The memory limit.
        past_reads: Reads of the past of these partitions.
        job_files: The files of exports, imports and bulk operations.
        long_reads: The reads that are longer than one portion.
        traffic: The number of requests that this process has received.
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
        peers: Sequence[PartitionWithHistory],
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Open no partition yet. `peers` are all partitions, in this process or on other nodes."""
        self.count = log.genesis(0).partitions
        self.hosted: dict[int, Replica] = {}
        self.lagging: dict[int, LaggingPartition] = {}
        seed = random_bytes(_ID_BYTES) if settings.throttle else b""
        self.sampler = LoadSampler(Random(seed))  # noqa: S311  no secret
        self.disposer = Disposer(loop)
        self.memory = MemoryLimit(settings.memory_limit_bytes, self.bytes, loop)
        self.long_reads = LongReads(loop)
        self.traffic = Traffic()
        self.log = log
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
        self.job_files = BucketFiles(
            settings.buckets,
            ThreadExecutor("files of jobs", deliver),
            log.genesis(0).limits,
        )
        self.past_reads = PastReads(
            LazyReader(partial(self._past_reader, deliver)), loop, log, self._is_shared
        )

    def open(self, partition_id: int, found: StoredPartition | None = None) -> Replica:
        """Fold a partition from what is stored of it: the log after its newest snapshot.

        On a shared log folding comes later. `found` is the result of `restore`, if that was called before.

        Raises:
            CorruptionError, NewerVersionError, FoldError: The partition's log cannot be folded.
        """
        assert partition_id not in self.hosted, "the partition is open"
        changes, state, _ = found or self.restore(partition_id)
        feed = Feed(
            state,
            lambda: worker.position,
            self._loop,
            changes,
            retention_ms=self._settings.stream_retention_ms,
            recent_bytes=_RECENT_BYTES // self.count,
            past=LogPast(lambda *read: partition.as_of(*read), lambda: self.log.begin(partition_id)),
        )
        worker = self._worker(partition_id, state, feed)
        if not self._is_shared:
            worker.open(self._progress)
        feed.serve(self._writing, self._reading_files)
        partition: PartitionWithHistory = HistoricalPartition(
            self._partition(worker, feed), worker, self.past_reads
        )
        if self.memory.bound:
            partition = BoundedPartition(partition, self.memory, lambda: worker.position)
        if self._is_shared and self._settings.throttle:

            def find(key: EncodedKey) -> Stored | None:
                """Return the item at a key. A transaction may have keys of other partitions."""
                is_here = partition_of_key(key[0], key[1], self.count) == partition_id
                return item_in(state, key) if is_here else UNKNOWN

            partition = MeteredReplica(
                partition,
                state,
                find,
                self.sampler,
                policy=policy_of(self._settings, shares=self.count - 1),
                seconds=self._loop.time,
                position=lambda: worker.position,
            )
        replica = self.hosted[partition_id] = Replica(partition_id, worker, partition, feed, self._owner)
        if self._settings.history:
            self.past_reads.begin(partition_id)
        return replica

    def restore(self, partition_id: int) -> StoredPartition:
        """Find the stored changes of a partition, and load the newest snapshot that suits them.

        With it a refold also produces the changes that the store lacks. Blocks; may be called in a thread.
        """
        changes = self._change_store(partition_id)
        snapshots = self.snapshots(partition_id)
        if snapshots is None:
            return StoredPartition(changes, initial_state(self.log, partition_id), has_snapshot=False)
        retention_ms = self._settings.stream_retention_ms
        loaded = snapshots.load_newest(
            cast(HashedLog, self.log), lambda state, now_ms: changes.suits(state, now_ms, retention_ms)
        )
        has_snapshot = set(snapshots.offsets()) > set(loaded.unusable)
        return StoredPartition(changes, loaded.state, has_snapshot)

    def snapshots(self, partition_id: int) -> Snapshots | None:
        """Return the snapshots of a partition; None for a database without a folder."""
        if self._settings.path is None:
            return None
        return Snapshots(self._settings.path, disk_of(self.log), partition_id, self.count)

    def read_from(self, partition_id: int, offset: int) -> Iterator[Record]:
        """Read the log of a partition. A broker is read by a thread, a disk in the loop."""
        if self._is_shared:
            return ReadAhead(self.log, partition_id, offset, self._loop)
        return self.log.read(partition_id, offset)

    def load_base(self, partition_id: int) -> "asyncio.Future[PartitionState] | None":
        """Load the state with which a trimmed log begins, in a thread. None: the log has its whole history."""
        if not self.log.begin(partition_id):
            return None
        return self._loop.run_in_executor(None, initial_state, self.log, partition_id)

    def newest_snapshots(self) -> list[Position]:
        """Return the position of the newest snapshot of each partition that has one in the folder."""
        path = self._settings.path
        return [] if path is None else newest_positions(path, disk_of(self.log), self.count)

    async def close(self, partition_id: int) -> None:
        """Stop folding a partition, and free its memory."""
        await self.hosted[partition_id].close()
        written = asyncio.Event()
        self._writing.submit(lambda: None, lambda _: written.set())
        await written.wait()  # the partition may be opened again, and finds its changes complete
        if partition_id in self.lagging:
            self.lagging.pop(partition_id).images.close()
        self.disposer.take(stores_of(self.hosted.pop(partition_id).state))
        self.past_reads.reader.host(self.hosted)

    def on_trimmed(self) -> None:
        """Delete the histories and the changes from before a trim of the log.

        Without it they would be deleted when a history looks at the log next, and with the next change.
        """
        self.past_reads.reader.host(self.hosted)
        for hosted in self.hosted.values():
            hosted.feed.schedule_sync()

    async def close_all(self) -> None:
        """Close all partitions. Write a digest of each to a persistent log, unless that would take long."""
        self.memory.close()
        await self.past_reads.reader.close()
        for hosted in self.hosted.values():
            hosted.stand_by()
        items = sum(hosted.worker.statistics().items for hosted in self.hosted.values())
        leave_digest = self._settings.path is not None and not self._is_shared and items <= DIGEST_ITEMS_MAX
        for hosted in self.hosted.values():
            await hosted.close(leave_digest=leave_digest)
        await asyncio.to_thread(self._writing.close)
        await asyncio.to_thread(self._reading_files.close)
        await asyncio.to_thread(self.job_files.executor.close)

    def states(self) -> list[PartitionState]:
        return [hosted.state for hosted in self.hosted.values()]

    def bytes(self) -> int:
        """Return the approximate size of all items, index entries and recent images.

        It includes dropped ones that are not freed yet.
        """
        stores = [store for state in self.states() for store in stores_of(state)]
        images = [each.images for each in self.lagging.values()]
        for each in images:
            each.forget()  # a full memory refuses the writes after which they are forgotten
        return bytes_in([*stores, *self.disposer.waiting, *images])

    def commands(self) -> int:
        """Return the number of commands that this process has folded."""
        workers = [hosted.worker for hosted in self.hosted.values()]
        return sum(each.refolded_commands + each.folded_commands for each in workers)

    def _worker(self, partition_id: int, state: PartitionState, capture: Capture) -> Worker:
        queue = self._settings.queue_bytes
        bound = min(queue, max(queue // self.count, _MIN_QUEUE_BYTES))
        if self._is_shared:
            return ReplicatedWorker(
                cast(SharedLog, self.log),
                state,
                new_origin=lambda: self._random_bytes(_ID_BYTES),
                scheduler=self._loop,
                partition=partition_id,
                waiting_bytes=bound,
                capture=capture,
                dispose=self.disposer.take,
                draw_salt=lambda: self._random_bytes(_ID_BYTES),
                on_fatal=self._on_fatal,
            )
        return Worker(
            self.log,
            state,
            origin=self._random_bytes(_ID_BYTES),
            scheduler=self._loop,
            partition=partition_id,
            waiting_bytes=bound,
            capture=capture,
            dispose=self.disposer.take,
            draw_salt=lambda: self._random_bytes(_ID_BYTES),
            on_fatal=self._on_fatal,
        )

    def _partition(self, worker: Worker, feed: Feed) -> FedPartition:
        """Return the interface of a partition. With one partition and one writer no read has to wait."""
        local = self._local_partition(worker, feed)
        if self.count == 1 and not self._is_shared:
            return local
        return ConsistentPartition(
            local, clock=self._clock, scheduler=self._loop, strict=self._settings.strict_reads
        )

    def _local_partition(self, worker: Worker, feed: Feed) -> LocalPartition:
        settings, partition_id = self._settings, worker.position.partition
        if not settings.lags:
            return LocalPartition(worker, feed.ask, long_reads=self.long_reads)
        limits_ms = settings.read_lag_ms, settings.index_lag_ms
        random = Random(f"{settings.lag_seed}:{partition_id}")  # noqa: S311  no secret
        self.lagging[partition_id] = lagging = LaggingPartition(
            worker,
            feed.ask,
            long_reads=self.long_reads,
            images=RecentImages(
                worker,
                max(limits_ms),
                clock=lambda: int(self._loop.time() * 1000),
                log_clock=self._clock,
            ),
            limits_ms=limits_ms,
            draw=lambda most: random.randint(0, most),
        )
        return lagging

    def _past_reader(self, deliver: Deliver) -> PastReader:
        """Return the reader of the histories, in another process if that can read the log."""
        settings = self._settings
        if not self._is_shared and not isinstance(self.log, LocalLog):
            from ..history.thread import HistoryThread

            return HistoryThread(self.log, ThreadExecutor("history", deliver))
        from ..history.process import HistoryProcess
        from ..history.worker import HistoryJob

        return HistoryProcess(
            HistoryJob(
                self.log.genesis(0).log_id.hex(),
                folder=None if settings.path is None else str(settings.path.absolute() / HISTORY_FOLDER),
                database=None if settings.path is None or self._is_shared else str(settings.path.absolute()),
                kafka=settings.log,
                security=None if settings.kafka_settings is None else str(settings.kafka_settings.absolute()),
                variables=dict(settings.kafka_variables),
            ),
            self._loop,
        )

    def _change_store(self, partition_id: int) -> ChangeStore:
        """Open the store of a partition's changes."""
        path = self._settings.path
        folder = None if path is None else folder_of(path, partition_id)
        log_id = self.log.genesis(partition_id).log_id
        changes = ChangeStore(folder, log_id, partition_id, disk=disk_of(self.log))
        changes.open(self.log.end(partition_id))
        return changes

    def _owner(self, worker: Worker) -> Owner:
        settings = self._settings
        return Owner(
            worker,
            self._peers,
            OwnerSettings(
                raises_level=not self._is_shared,
                table_delay=settings.table_delay_ms / 1000,
                sweep_interval=settings.ttl_interval_ms / 1000 if settings.ttl_interval_ms else None,
            ),
            clock=self._clock,
            scheduler=self._loop,
            files=self.job_files,
            traffic=self.traffic,
        )
