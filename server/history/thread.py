"""The histories of a log in memory, which no other process can read: in a thread, which starts with the first read."""

import asyncio
import logging
from collections.abc import Collection, Sequence

from ...log.commands import Position
from ...log.log import Log
from ...materializer.fold.fold_record import Void
from ...materializer.history.epochs import Epochs, memory_history
from ...materializer.history.history import NotFoldedError, PartitionCut
from ...materializer.history.reads import read_past
from ...materializer.history.requests import PastAnswer, PastRead
from ...model.errors import InternalServerError, RequestError
from ...streams.feed.serial_executor import SerialExecutor
from .reader import OnRead

logger = logging.getLogger(__name__)


class HistoryThread:
    """A `PastReader` over a log in memory.

    Attributes:
        executor: Runs the reads, one after another.
    """

    def __init__(self, log: Log, executor: SerialExecutor) -> None:
        self.executor = executor
        self._log = log
        self._partitions = log.genesis(0).partitions
        self._followers: dict[int, Epochs] = {}

    def read(
        self, partition_id: int, cut: PartitionCut, read: PastRead, done: OnRead, void: Sequence[Void] = ()
    ) -> None:
        """Read the state of a partition at a cut."""

        def job() -> tuple[PastAnswer | RequestError | None, Position]:
            follower = self._followers.get(partition_id)
            if follower is None:
                follower = self._followers[partition_id] = memory_history(self._log, partition_id)
            follower.declare_void(void)
            follower.catch_up()
            return read_past(follower.history, cut, read, self._partitions)

        def answer(found: tuple[PastAnswer | RequestError | None, Position] | Exception) -> None:
            if isinstance(found, NotFoldedError):
                found = None, Position(partition_id, -1)
            elif isinstance(found, Exception):
                logger.error(
                    "cannot read the past of partition %d; the read fails", partition_id, exc_info=found
                )
                found = InternalServerError(), Position(partition_id, -1)
            done(*found)

        self.executor.submit(job, answer)

    def host(self, partition_ids: Collection[int]) -> None:
        """Do nothing: partitions of a log in memory stay where they are."""

    async def close(self) -> None:
        """Answer the reads under way, and end the thread."""
        await asyncio.to_thread(self.executor.close)
