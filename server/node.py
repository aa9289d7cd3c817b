"""One process's database: a log, the partitions of it that are folded here, and the names the API knows it by.

open ──► log ──► newest snapshots ──► their tails ──► serve ... ──► close: answer what was taken, let go of the log
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, TypeAlias

from ..log.commands import Position
from ..log.local import LocalLog
from ..log.log import Log
from ..materializer.feed_requests import FedPartition
from ..materializer.fold.state import PartitionState, Table
from ..materializer.partition import Partition
from ..materializer.snapshot_scheduler import SnapshotScheduler
from ..model.errors import ResourceNotFoundError
from ..model.limits import Limits
from ..model.slots import data_partitions
from ..model.subscriptions import Subscription
from ..model.tables import name_of
from .api.item_counts import ItemCounter
from .api.record_cache import RecordCache
from .api.reply import Reply
from .clock import span
from .cluster import Cluster
from .partitions import Partitions
from .partitions.digest_jobs import DigestJobs
from .partitions.partition_chain import chain_of
from .partitions.partition_log import open_log
from .partitions.rebuild_job import RebuildJob
from .partitions.scrub_process import ScrubProcess
from .routing import Router, UnassignedPartition
from .settings import Settings
from .subscriptions import SubscriptionService

logger = logging.getLogger(__name__)

# Nodes and brokers have clocks of their own, which agree within seconds.
_LEAD_MS = 10_000

_USABLE = frozenset(("ACTIVE", "UPDATING"))

# Control operations word it so (and name the table), operations on items as ResourceNotFoundError does by itself.
_NO_TABLE = "Requested resource not found: Table: {} not found"


class Node:
    """What a handler works with.

    Attributes:
        settings: How it was started.
        loop: Where everything happens.
        log: What is folded; others may read it.
        partitions: Those that this process folds.
        partition: Where commands and reads go: the only partition, or a router over all.
        router: That router, where there is one.
        peers: All partitions by number, as they are reached from here.
        histories: What the log tells that the feeds of partitions do not keep.
        state: The catalog: which tables there are and how they are defined. Look, but never change it. Where there is
            one partition, its items too.
        clock: Milliseconds since 1970.
        random_bytes: Draws that many random bytes.
        counts: Counts the items of tables for those who describe them.
        digests: Computes the digests of the partitions that this process folds.
        records: Makes what readers of streams are answered.
        triggers: The subscriptions that run here.
        scrubbing: Finds damage in files; None where it is switched off.
        rebuilding: The last rebuild of a table, under way or done.
        cluster: This node among those that share its log; None where it is alone.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], int],
        random_bytes: Callable[[int], bytes],
        on_fatal: Callable[[BaseException], None],
        progress: Callable[[int], None] | None = None,
        log: Log | None = None,
    ) -> None:
        """Open the log, load the newest snapshots and fold what came after them; without one, the whole log.

        Args:
            settings: How to serve.
            loop: Where everything happens.
            clock: Milliseconds since 1970.
            random_bytes: Draws that many random bytes.
            on_fatal: Told when the log or the fold cannot go on: the process has to stop.
            progress: Told now and then how many commands were refolded.
            log: To serve in place of the one that the settings name.

        Raises:
            LogError, CorruptionError, ForeignLogError, NewerVersionError, FoldError: There is no serving this log.
        """
        self.settings = settings
        self.loop = loop
        self.clock = clock
        self.random_bytes = random_bytes
        self.records = RecordCache()
        self.rebuilding: RebuildJob | None = None
        self.cluster: Cluster | None = None
        self.router: Router | None = None
        self.log = log or open_log(settings, loop, clock, random_bytes, on_fatal)
        self.peers = peers = list[FedPartition]()
        try:
            self.partitions = Partitions(
                self.log,
                settings,
                loop=loop,
                clock=clock,
                random_bytes=random_bytes,
                on_fatal=on_fatal,
                peers=peers,
                progress=progress,
            )
            self.histories = self.partitions.histories
            here = range(self.partitions.count) if settings.log is None else range(1)
            peers += [self.partitions.open(number).partition for number in here]
        except BaseException:
            self.log.close()
            raise
        self._catalog = self.partitions.hosted[0]
        self.state: PartitionState = self._catalog.state
        partition: Partition = peers[0]
        if self.partitions.count > 1 or settings.log is not None:
            peers += [UnassignedPartition()] * (self.partitions.count - len(peers))
            partition = self.router = Router(peers, self.state, loop, catch_up=self._catalog.catch_up)
        self.partition = chain_of(
            partition, settings.transaction_conflicts, random_bytes, lambda: self.position
        )
        self.digests = DigestJobs(self.partitions, loop)
        self.triggers = SubscriptionService(self)
        self.counts = ItemCounter(clock, settings.count_refresh_ms, self.router)
        self.partitions.memory.look()
        if settings.log is None:  # else it is settled with the other nodes who leads
            for hosted in self.partitions.hosted.values():
                hosted.lead()
        self._report_lead()
        self._maker: SnapshotScheduler | None = None
        if isinstance(self.log, LocalLog) and settings.path is not None and settings.snapshot_every:
            self._maker = SnapshotScheduler(
                settings.path,
                settings.snapshot_every,
                is_in_place=self.log.disk.is_in_place,
                folded=self.partitions.commands,
                scheduler=loop,
            )
            self._maker.look()
        self.scrubbing: ScrubProcess | None = None
        if settings.path is not None and settings.log is None and settings.scrub_every_ms:
            self.scrubbing = ScrubProcess(
                settings.path,
                [self.partitions.hosted[number].feed for number in here],
                every_ms=settings.scrub_every_ms,
                rate=settings.scrub_rate,
                maker=self._maker,
                clock=clock,
                scheduler=loop,
                deliver=lambda callback: loop.call_soon_threadsafe(callback),
            )

    async def close(self) -> None:
        """Answer what was taken, leave a digest of it in a log that stays, and let go of the log."""
        if self.scrubbing is not None:
            self.scrubbing.close()
        if self._maker is not None:
            self._maker.close()
        await self.partitions.close_all()
        self.log.close()

    @property
    def position(self) -> Position:
        """What the catalog is as of."""
        return self._catalog.worker.position

    @property
    def log_time_lead_ms(self) -> dict[int, int]:
        """How far log time is ahead of the clock, by partition; 0 where it is not."""
        now = self.clock()
        return {
            number: max(0, hosted.state.log_time - now) for number, hosted in self.partitions.hosted.items()
        }

    def _report_lead(self) -> None:
        """Warn of a log that was written by a clock which was ahead of the present one."""
        lead = max(self.log_time_lead_ms.values(), default=0)
        if lead > _LEAD_MS:
            logger.warning(
                "log time is %s ahead of this machine's clock. New entries keep that log time until the clock "
                "reaches it; until then items do not expire, and streams are trimmed that much too early. Correct the "
                "clock if it is behind; if it is right, see `Clocks` in docs/operations.md.",
                span(lead),
            )

    def catch_up(self, done: Callable[[], None]) -> None:
        """Call back when the catalog is as its log is now."""
        self._catalog.catch_up(done)

    def partitions_of_feed(self) -> dict[int, FedPartition]:
        """The partitions that items live in, by number: each keeps the changes of its own."""
        return {number: self.peers[number] for number in data_partitions(self.partitions.count)}

    @property
    def limits(self) -> Limits:
        """The limits of the log that is served."""
        return self.state.limits

    def table(self, name: str) -> Table:
        """The table that a TableName (a name or an ARN) means, for reading or writing items.

        Raises:
            ResourceNotFoundError: There is none, or it is still being created or already being deleted.
        """
        state = self.state
        table_id = state.names.get(name) or state.names.get(name_of(name))
        if table_id is not None:
            table = state.tables[table_id]
            if table.definition.status in _USABLE:
                return table
        raise ResourceNotFoundError

    def table_in_any_status(self, name: str) -> Table:
        """The table that a TableName means, for operations on the table itself.

        Raises:
            ResourceNotFoundError: There is none.
        """
        table = self.state.table_named(name_of(name))
        if table is None:
            raise ResourceNotFoundError(_NO_TABLE.format(name_of(name)))
        return table

    def subscription(self, name: str) -> Subscription:
        """The subscription of that name.

        Raises:
            ResourceNotFoundError: There is none.
        """
        subscription = self.state.subscriptions.get(name)
        if subscription is None:
            raise ResourceNotFoundError(f"Requested resource not found: Subscription: {name} not found")
        return subscription


Handler: TypeAlias = Callable[[Node, dict[str, Any], Reply], None]
"""What an operation is: a function from a request to an answer, now or later."""
