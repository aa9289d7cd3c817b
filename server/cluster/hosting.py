"""The partitions that this node folds in a cluster, and how far each is.

assigned ──► newest snapshot, own or a peer's ──► opened ──► catching up ──► warm ──► ... ──► assigned to others
                                                                         closed ◄── closing ◄──┘
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from ...materializer.partition import Partition
from ...model.errors import FoldbError
from ..partitions import Partitions

_RETRY_S: Final = 2.0

logger = logging.getLogger(__name__)


class HostedPartitions:
    """Opens, catches up and closes the partitions of this node.

    Attributes:
        partitions: The partitions of this process.
        warm: The partitions that have caught up with the log since they were opened, or since the process was paused.
        opening: The partitions whose snapshots are being loaded.
        closing: The partitions that are being closed.
    """

    def __init__(
        self,
        partitions: Partitions,
        *,
        on_warm: Callable[[int], None],
        on_closed: Callable[[], None],
        fetch_snapshot: Callable[[int], Awaitable[bool]],
        in_background: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """Host no partition yet.

        Args:
            partitions: The partitions of this process.
            on_warm: Called with a partition that has caught up.
            on_closed: Called after a partition was closed, or could not be opened while it was assigned.
            fetch_snapshot: Fetches a snapshot of a partition from another node, and returns whether there is one.
            in_background: Runs a coroutine.
        """
        self.partitions = partitions
        self.warm: set[int] = set()
        self.opening: set[int] = set()
        self.closing: set[int] = set()
        self._assigned: set[int] = set()
        self._catch_ups: dict[
            int, int
        ] = {}  # by partition, the number of the last attempt: earlier ones do not count
        self._attempts = 0
        self._on_warm = on_warm
        self._on_closed = on_closed
        self._fetch_snapshot = fetch_snapshot
        self._in_background = in_background

    def assign(self, assigned: set[int], owned: set[int]) -> set[int]:
        """Open and catch up with the assigned partitions, close all others, and return those."""
        self._assigned = assigned
        surplus = self.partitions.hosted.keys() - assigned - self.closing
        for partition_id in surplus:
            self.warm.discard(partition_id)
            self._catch_ups.pop(partition_id, None)
            self.closing.add(partition_id)
            self._in_background(self._close(partition_id))
        for partition_id in sorted(assigned - self.closing):
            if partition_id not in self.partitions.hosted:
                if partition_id not in self.opening:
                    self.opening.add(partition_id)
                    self._in_background(self._open(partition_id))
            elif partition_id in owned and not self.partitions.hosted[partition_id].leading:
                self.catch_up(partition_id)
        return surplus

    async def _open(self, partition_id: int) -> None:
        """Load the newest snapshot of a partition, in a thread because a large one takes seconds, and fold the rest."""
        try:
            found = await asyncio.to_thread(self.partitions.restore, partition_id)
            if not found.has_snapshot and await self._fetch_snapshot(partition_id):
                found = await asyncio.to_thread(self.partitions.restore, partition_id)
            self.partitions.open(partition_id, found)
        except (FoldbError, OSError) as error:
            logger.warning("cannot open partition %d: %s; trying again", partition_id, error)
            await asyncio.sleep(_RETRY_S)
        finally:
            self.opening.discard(partition_id)
        if partition_id in self._assigned and partition_id in self.partitions.hosted:
            self.catch_up(partition_id)
        else:
            self._on_closed()

    async def _close(self, partition_id: int) -> None:
        """Answer the requests in flight and close a partition. It may be assigned again by then."""
        await self.partitions.close(partition_id)
        self.closing.discard(partition_id)
        self._on_closed()

    def catch_up(self, partition_id: int) -> None:
        """Fold the log up to its present end."""
        self._attempts += 1
        attempt = self._catch_ups[partition_id] = self._attempts
        self.partitions.hosted[partition_id].catch_up(lambda: self._caught_up(partition_id, attempt))

    def catch_up_all(self) -> None:
        """Catch up with the log after a pause of the process. No partition is warm until then."""
        self.warm.clear()
        for partition_id in tuple(self.partitions.hosted):
            self.catch_up(partition_id)

    def _caught_up(self, partition_id: int, attempt: int) -> None:
        if self._catch_ups.get(partition_id) == attempt:
            logger.info("partition %d is folded", partition_id)
            del self._catch_ups[partition_id]
            self.warm.add(partition_id)
            self._on_warm(partition_id)

    def is_ready(self, partition_id: int) -> bool:
        """Return whether this node may lead a partition."""
        return partition_id in self.warm and partition_id not in self._catch_ups

    def partition(self, partition_id: int) -> Partition | None:
        """Return a warm partition, even if the routing table assigns it to other nodes."""
        if partition_id not in self.warm or partition_id not in self.partitions.hosted:
            return None
        return self.partitions.hosted[partition_id].partition

    def offset(self, partition_id: int) -> int:
        """Return the offset of the last folded entry."""
        return self.partitions.hosted[partition_id].worker.position.offset

    def positions(self) -> dict[int, int]:
        """Return by partition the offset of the next entry to fold."""
        return {partition_id: self.offset(partition_id) + 1 for partition_id in self.partitions.hosted}

    def leading(self) -> list[int]:
        hosted = self.partitions.hosted
        return [partition_id for partition_id, replica in hosted.items() if replica.leading]
