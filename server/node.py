"""One process's database, wired: a log, the partitions of it that are folded here, and the services around them.

open ──► log ──► newest snapshots ──► their tails ──► serve ... ──► close: answer accepted requests, close the log

    partition = router (with several partitions) ──► conflict injection (if set) ──► lag throttle
"""

import asyncio
import logging
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..log.local import LocalLog
from ..log.log import Log
from ..materializer.fold.storage import Stored
from ..materializer.history.requests import PartitionWithHistory
from ..materializer.partition import EncodedKey, Partition
from ..materializer.snapshot_scheduler import SnapshotScheduler
from ..materializer.snapshot_worker import SnapshotJob
from ..model.errors import FoldbError, RequestError, ResourceNotFoundError
from ..model.slots import CATALOG, partition_of_key
from .api.item_counts import ItemCounter
from .api.record_cache import RecordCache
from .async_calls import call
from .clock import span
from .database import Database
from .partitions import Partitions
from .partitions.digest_jobs import DigestJobs
from .partitions.partition_chain import ThrottledPartition, chain_of
from .partitions.partition_log import open_log
from .partitions.rebuild_job import RebuildJobs
from .partitions.retention import Retention
from .partitions.scrub_process import ScrubProcess
from .routing import InstantReads, Router, UnassignedPartition
from .settings import Settings
from .throttling.metered_partition import MeteredPartition, item_in, policy_of
from .throttling.splits import SplitPolicy, SplitProposer, SplitTimer, stores_of_part
from .usage.alarm_service import AlarmService
from .usage.heat import Heat
from .usage.metrics import NodeMetrics
from .usage.minutes import Minute
from .usage.usage import Usage

# A database in a folder without subscriptions imports neither.
if TYPE_CHECKING:
    from .cluster.cluster import Cluster, NodeConfig
    from .cluster.rebuilds import ClusterRebuilds
    from .subscriptions.runner import OnRunning
    from .subscriptions.service import SubscriptionService

logger = logging.getLogger(__name__)

# The clocks of nodes and brokers agree within seconds.
_LEAD_MS = 10_000


class Node(Database):
    """A database with the services of its process.

    Attributes:
        partition: That of a Database, which can also refuse the writes to some tables.
        metrics: The metrics of the requests to this node.
        alarms: The alarms on the metrics of all nodes.
        heat: The sketches of the tables that are measured.
        digests: Computes the digests of the partitions that this process folds.
        rebuilds: Rebuilds tables from the log, one at a time.
        cluster_rebuilds: Rebuilds tables on all nodes; None where the log is local.
        retention: Trims the log; None if it is not in a folder.
        scrubbing: Finds damage in files; None where scrubs are disabled.
        cluster: This node among the nodes that share its log; None where the log is local.
    """

    partition: ThrottledPartition

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
        """Open the log, load the newest snapshots and fold the entries after them; without a snapshot, all entries.

        Args:
            on_fatal: Receives the error after which the log or the fold cannot continue: the process has to stop.
            progress: Receives the number of refolded commands now and then.
            log: Served instead of the log that the settings name.

        Raises:
            LogError, CorruptionError, ForeignLogError, NewerVersionError, FoldError: The log cannot be served.
        """
        self.settings = settings
        self.loop = loop
        self.clock = clock
        self.random_bytes = random_bytes
        self.records = RecordCache()
        self.log = log or open_log(settings, loop, clock, random_bytes, on_fatal)
        self.peers = peers = list[PartitionWithHistory]()
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
            config = self._open_partitions()
            peers += [replica.partition for replica in self.partitions.hosted.values()]
        except BaseException:
            self.log.close()
            raise
        self._catalog = self.partitions.hosted[CATALOG]
        self.state = self._catalog.state
        self.router = self._new_router()
        self.partition = chain_of(
            self._metered(peers[0] if self.router is None else self.router),
            settings.transaction_conflicts,
            random_bytes,
            lambda: self.position,
        )
        self.heat = Heat(self.state, clock, every=settings.heat)
        self.usage = Usage(self.heat.observe)
        self.metrics = NodeMetrics(self.usage, self.state, clock)
        self._splits = self._new_splits()
        self.digests = DigestJobs(self.partitions, loop)
        self.rebuilds = RebuildJobs(self.partitions, loop)
        self._on_triggers_running: OnRunning | None = None
        self.alarms = AlarmService(
            self, lambda: self.triggers, self.metrics_of_all, lambda: self._catalog.leading
        )
        self.counts = ItemCounter(clock, settings.count_refresh_ms, self.router, lambda: self.position)
        self.partitions.memory.start()
        if settings.log is None:  # a shared log assigns its partitions in the cluster
            for replica in self.partitions.hosted.values():
                replica.lead()
        self._warn_of_lead()
        self._snapshots: SnapshotScheduler | None = None
        if settings.path is not None and settings.snapshot_every:
            self._snapshots = SnapshotScheduler(
                self._snapshot_job,
                settings.snapshot_every,
                is_in_place=self.log.disk.is_in_place if isinstance(self.log, LocalLog) else lambda: True,
                folded=self.partitions.commands,
                scheduler=loop,
            )
            self._snapshots.poll()
        self.retention: Retention | None = None
        if isinstance(self.log, LocalLog) and settings.path is not None:
            self.retention = Retention(
                self.log,
                settings,
                clock=clock,
                loop=loop,
                on_removed=self.partitions.on_trimmed,
            )
        self.scrubbing: ScrubProcess | None = None
        if settings.path is not None and settings.log is None and settings.scrub_every_ms:
            self.scrubbing = ScrubProcess(
                settings.path,
                [replica.feed for replica in self.partitions.hosted.values()],
                every_ms=settings.scrub_every_ms,
                rate=settings.scrub_rate,
                maker=self._snapshots,
                mend=self._mend_foundation,
                clock=clock,
                scheduler=loop,
                deliver=lambda callback: loop.call_soon_threadsafe(callback),
            )

        self.cluster_rebuilds: ClusterRebuilds | None = None
        self.cluster = None if config is None else self._new_cluster(config)

    async def close(self) -> None:
        """Answer accepted requests, append a digest to a log that is kept, and close the log."""
        if self._splits is not None:
            self._splits.close()
        if self.retention is not None:
            self.retention.close()
        if self.scrubbing is not None:
            self.scrubbing.close()
        if self._snapshots is not None:
            self._snapshots.close()
        await self.partitions.close_all()
        self.log.close()

    @cached_property
    def triggers(self) -> "SubscriptionService":
        """The subscriptions that run here. Their code is imported at the first use."""
        from .subscriptions.service import SubscriptionService

        triggers = SubscriptionService(self)
        if self._on_triggers_running is not None:
            triggers.start(self._on_triggers_running)
        return triggers

    def start_triggers(self, on_running: "OnRunning") -> None:
        """Begin to run subscriptions, as SubscriptionService does. Without any they start with the first one."""
        self._on_triggers_running = on_running
        if "triggers" in self.__dict__:  # a request has used them since the listener started
            self.triggers.start(on_running)
        # Other nodes that share the log create subscriptions too.
        elif self.state.subscriptions or self.settings.triggers is not None or self.settings.log is not None:
            _ = self.triggers

    async def stop_triggers(self) -> None:
        """Stop the subscriptions. Their handled changes are in checkpoints when this returns."""
        if "triggers" in self.__dict__:
            await self.triggers.stop()
        self._on_triggers_running = None

    @property
    def log_time_lead_ms(self) -> dict[int, int]:
        """The milliseconds that log time is ahead of the clock, by partition id; 0 where it is not ahead."""
        now = self.clock()
        return {
            partition_id: max(0, replica.state.log_time - now)
            for partition_id, replica in self.partitions.hosted.items()
        }

    def _snapshot_job(self) -> SnapshotJob:
        """Return the job of making a snapshot of each partition that this process folds."""
        settings = self.settings
        assert settings.path is not None, "snapshots are kept in the folder"
        folder, partitions = str(settings.path.absolute()), sorted(self.partitions.hosted)
        if settings.log is None:
            return SnapshotJob(folder, partitions)
        security = None if settings.kafka_settings is None else str(settings.kafka_settings.absolute())
        return SnapshotJob(folder, partitions, settings.log, security, dict(settings.kafka_variables))

    def _mend_foundation(self) -> None:
        """Write a damaged copy of the log's foundation again, in a thread."""
        log = self.log
        assert isinstance(log, LocalLog), "only a log in a folder has a foundation"

        def mend() -> None:
            try:
                log.mend_foundation()
            except (FoldbError, OSError) as error:
                logger.critical("%s; the server continues with its state in memory", error)

        self.loop.run_in_executor(None, mend)

    def _open_partitions(self) -> "NodeConfig | None":
        """Open all partitions; of a shared log the catalog alone, because the cluster assigns the others."""
        if self.settings.log is None:
            for partition_id in range(self.partitions.count):
                self.partitions.open(partition_id)
            return None
        # Importing Kafka's client takes an eighth of a second.
        from .cluster.bootstrap import config_of
        from .cluster.catalog_copy import copy_catalog

        config = config_of(self.settings, self.log)
        found = self.partitions.restore(CATALOG)
        if not found.has_snapshot and copy_catalog(config, self.partitions, self.random_bytes):
            found = self.partitions.restore(CATALOG)
        self.partitions.open(CATALOG, found)
        return config

    def _new_cluster(self, config: "NodeConfig") -> "Cluster":
        from .cluster.cluster import Cluster
        from .cluster.rebuilds import ClusterRebuilds
        from .cluster.state_digests import handle_digests
        from .usage.cluster_heat import handle_heat
        from .usage.cluster_metrics import handle_metrics

        cluster = Cluster(config, self.partitions, self._reach, self.loop, self.random_bytes)
        handle_digests(cluster, self.digests)
        handle_metrics(cluster, self.metrics)
        handle_heat(cluster, self.heat)
        self.cluster_rebuilds = ClusterRebuilds(cluster, self.rebuild, self.partitions.count)
        return cluster

    async def rebuild(self, body: dict[str, Any]) -> dict[str, Any]:
        """Start a rebuild in the partitions of this process, or return its progress (api/admin/rebuild.py).

        Raises:
            ResourceNotFoundError: The table or the index does not exist.
            ValidationError: Another rebuild is running, or no rebuild has the id.
        """
        name, index, job_id = body["TableName"], body.get("IndexName"), body.get("Id")
        if job_id is None:
            table = self.table_in_any_status(name)
            if index is not None and index not in table.indexes:
                raise ResourceNotFoundError(f"The table {table.definition.name} has no index {index}")
            job = self.rebuilds.start(table.definition, index)
        else:
            job = self.rebuilds.running(name, job_id)
        progress: dict[str, Any] | RequestError = await call(job.answer_later)
        if isinstance(progress, RequestError):
            raise progress
        return progress

    async def metrics_of_all(self, begin_ms: int, end_ms: int) -> list[Minute]:
        """Return the minutes of all nodes, from a time and before another one.

        Raises:
            RequestError: A node is unreachable, so the sums would be too small.
        """
        if self.cluster is None:
            return self.metrics.read(begin_ms, end_ms)
        from .usage.cluster_metrics import metrics_of_all

        return await metrics_of_all(self.cluster, begin_ms, end_ms)

    def _reach(self, partition_id: int, partition: PartitionWithHistory) -> None:
        """Send the requests of a partition to `partition` from now on: here, or on another node."""
        self.peers[partition_id] = partition

    def _new_router(self) -> Router | None:
        count = self.partitions.count
        if count == 1 and self.settings.log is None:
            return None
        self.peers += [UnassignedPartition()] * (count - len(self.peers))
        instant: InstantReads | None = None
        if self.settings.log is None:  # only this process appends to the log
            workers = [self.partitions.hosted[partition_id].worker for partition_id in range(count)]
            instant = InstantReads(workers, self.partitions.long_reads)
        return Router(
            self.peers,
            self.state,
            self.loop,
            catch_up=self._catalog.catch_up,
            instant=instant,
            lags=self.settings.lags,
        )

    def _metered(self, partition: Partition) -> Partition:
        """Return the partition, metered with --throttle. The partitions of a shared log have meters of their own."""
        if not self.settings.throttle or self.settings.log is not None:
            return partition
        hosted = self.partitions.hosted

        def find(key: EncodedKey) -> Stored | None:
            return item_in(hosted[partition_of_key(key[0], key[1], self.partitions.count)].state, key)

        return MeteredPartition(
            partition,
            self.state,
            find,
            self.partitions.sampler,
            policy=policy_of(self.settings),
            seconds=self.loop.time,
            position=lambda: self.position,
        )

    def _new_splits(self) -> SplitTimer | None:
        """Propose splits of capacity partitions with --throttle."""
        settings, hosted = self.settings, self.partitions.hosted
        if not settings.throttle:
            return None
        policy = SplitPolicy(settings.split_delay_ms, settings.split_bytes, settings.split_heat)
        proposer = SplitProposer(
            self.state,
            self.partitions.sampler,
            policy,
            stores=lambda part: stores_of_part(
                part, (each.state for each in hosted.values() if each.leading)
            ),
            leads=lambda: self._catalog.leading,
            submit=lambda command: self.partition.submit(command, len(command.request), lambda *_: None),
        )
        return SplitTimer(proposer, policy, self.clock, self.loop)

    def _warn_of_lead(self) -> None:
        """Warn of a log that was written by a clock which was ahead of the present one."""
        lead = max(self.log_time_lead_ms.values(), default=0)
        if lead > _LEAD_MS:
            logger.warning(
                "log time is %s ahead of this machine's clock. New entries keep that log time until the clock "
                "reaches it; until then items do not expire, and streams are trimmed that much too early. Correct the "
                "clock if it is behind; if it is right, see `Clocks` in docs/operations.md.",
                span(lead),
            )
