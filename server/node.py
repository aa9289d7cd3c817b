"""One process's database: a log, the worker that folds it, and the names the API knows it by.

open ──► log ──► newest snapshot ──► its tail ──► serve ... ──► close: answer what was taken, sync, let go of the log
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

from ..log.commands import Position
from ..log.local import LocalLog
from ..log.local.disk import SystemDisk
from ..log.log import Log
from ..log.memory import MemoryLog
from ..materializer.fold.state import PartitionState, Table
from ..materializer.local import LocalPartition
from ..materializer.maker import SnapshotMaker
from ..materializer.partition import Partition
from ..materializer.snapshots import Snapshots
from ..materializer.timers import Timers
from ..materializer.worker import Worker
from ..model.errors import ResourceNotFoundError
from ..model.limits import Limits
from ..model.tables import name_of
from .counts import Counter
from .memory import BoundedPartition
from .rebuilding import RebuildJob
from .reply import Reply
from .settings import Settings

_ORIGIN_BYTES = 16

_USABLE = frozenset(("ACTIVE", "UPDATING"))

# Control operations word it so (and name the table), operations on items as ResourceNotFoundError does by itself.
_NO_TABLE = "Requested resource not found: Table: {} not found"


class Node:
    """What a handler works with.

    Attributes:
        settings: How it was started.
        loop: Where everything happens.
        log: What the worker appends to; others may read it.
        worker: Appends and folds; handlers go through `partition`.
        partition: Where commands and reads go.
        state: The catalog: which tables there are and how they are defined. Look, but never change it.
        clock: Milliseconds since 1970.
        random_bytes: Draws that many random bytes.
        counts: Counts the items of tables for those who describe them.
        rebuilding: The last rebuild of a table, under way or done.
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
    ) -> None:
        """Open the log, load the newest snapshot and fold what came after it; without one, the whole log.

        Args:
            settings: How to serve.
            loop: Where everything happens.
            clock: Milliseconds since 1970.
            random_bytes: Draws that many random bytes.
            on_fatal: Told when the log or the fold cannot go on: the process has to stop.
            progress: Told now and then how many commands were refolded.

        Raises:
            LogError, CorruptionError, ForeignLogError, NewerVersionError, FoldError: There is no serving this log.
        """
        self.settings = settings
        self.loop = loop
        self.clock = clock
        self.random_bytes = random_bytes
        self.counts = Counter(clock, settings.count_refresh_ms)
        self.rebuilding: RebuildJob | None = None
        self.log, self.state = _open(settings, loop, clock, random_bytes, on_fatal)
        try:
            self.worker = Worker(
                self.log,
                self.state,
                origin=random_bytes(_ORIGIN_BYTES),
                scheduler=loop,
                waiting_bytes=settings.queue_bytes,
                on_fatal=on_fatal,
            )
            self.worker.open(progress)
        except BaseException:
            self.log.close()
            raise
        self._bounded = BoundedPartition(
            LocalPartition(self.worker), self.state, settings.memory_bytes, loop, lambda: self.position
        )
        self.partition: Partition = self._bounded
        self._timers = Timers(
            self.partition,
            self.state,
            clock=clock,
            scheduler=loop,
            table_delay=settings.table_delay_ms / 1000,
            sweep_interval=settings.ttl_interval_ms / 1000 if settings.ttl_interval_ms else None,
        )
        self.worker.on_folded = self._timers.folded
        self._timers.start()
        self._maker: SnapshotMaker | None = None
        if settings.path is not None and settings.snapshot_every:
            self._maker = SnapshotMaker(
                settings.path, settings.snapshot_every, folded=self._commands_folded, scheduler=loop
            )
            self._maker.look()

    async def close(self) -> None:
        """Answer what was taken, leave a digest of it in a log that stays, and let go of the log."""
        if self._maker is not None:
            self._maker.close()
        self._timers.close()
        self._bounded.close()
        drained = asyncio.Event()
        self.worker.close(drained.set, witness=self.settings.path is not None)
        await drained.wait()
        self.log.close()

    @property
    def position(self) -> Position:
        """What the state is as of."""
        return self.worker.position

    @property
    def full(self) -> bool:
        """Whether memory is full, and what would take more of it is refused."""
        return self._bounded.full

    @property
    def limits(self) -> Limits:
        """The limits of the log that is served."""
        return self.state.limits

    @property
    def partitions(self) -> int:
        """How many partitions the log has."""
        assert self.state.genesis is not None, "every log begins with Genesis"
        return self.state.genesis.partitions

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

    def _commands_folded(self) -> int:
        statistics = self.worker.statistics()
        return statistics.refolded + statistics.commands


Handler: TypeAlias = Callable[[Node, dict[str, Any], Reply], None]
"""What an operation is: a function from a request to an answer, now or later."""


def _open(
    settings: Settings,
    loop: asyncio.AbstractEventLoop,
    clock: Callable[[], int],
    random_bytes: Callable[[int], bytes],
    on_fatal: Callable[[BaseException], None],
) -> tuple[Log, PartitionState]:
    """The log, and the newest state of it that is at hand."""
    if settings.path is None:
        return MemoryLog(clock, log_id=random_bytes(16), limits=settings.limits), PartitionState()

    def deliver(callback: Callable[[], None]) -> None:
        loop.call_soon_threadsafe(callback)

    log = LocalLog(
        settings.path,
        clock=clock,
        deliver=deliver,
        random_bytes=random_bytes,
        on_fatal=on_fatal,
        fsync=settings.fsync,
        segment_bytes=settings.segment_bytes,
        limits=settings.limits,
    )
    try:
        return log, Snapshots(settings.path, SystemDisk()).load_newest(log).state
    except BaseException:
        log.close()
        raise
