"""A snapshot that a node without one copies from another node.

    figures ──► the node with the newest snapshot ──► portions ──► a temporary file ──► verified ──► renamed

The file is a cache of the log, so a failed copy only makes a start longer: the node folds the log from its beginning.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

from ...log.log import HashedLog
from ...materializer.snapshot import UnusableError
from ...materializer.snapshots import Snapshots
from ...model.errors import FoldbError, ResourceNotFoundError
from ..partitions import Partitions
from .codec import PlainValue
from .link import PeerAddress

logger = logging.getLogger(__name__)

CALL_NAME: Final = "snapshot"
# A portion is one frame, and one read of the disk. One is in flight at a time.
PORTION_BYTES: Final = 1 << 20

CallNode = Callable[[PeerAddress, str, dict[str, Any]], Awaitable[PlainValue]]


class SnapshotTransfer:
    """Serves the snapshots of this node to others, and copies theirs, one at a time.

    Args:
        partitions: The partitions of this process.
        call: Calls a node.
        figures: Returns the figures of all other nodes; None for an unreachable one.
    """

    def __init__(
        self,
        partitions: Partitions,
        call: CallNode,
        figures: Callable[[], Awaitable[dict[PeerAddress, Any]]],
    ) -> None:
        self._partitions = partitions
        self._call = call
        self._figures = figures
        self._copying = asyncio.Lock()

    def offsets(self) -> list[tuple[int, int]]:
        """Return partition and offset of the newest snapshot of each partition that has one here."""
        return [(each.partition, each.offset) for each in self._partitions.newest_snapshots()]

    async def serve(self, body: PlainValue) -> PlainValue:
        """Return a portion of a snapshot, and the size of the file: the handler of calls from other nodes."""
        snapshots = self._partitions.snapshots(body["partition"])
        try:
            if snapshots is None:
                raise FileNotFoundError
            size, data = await asyncio.to_thread(
                snapshots.portion, body["offset"], body["start"], PORTION_BYTES
            )
        except FileNotFoundError:
            raise ResourceNotFoundError("This node has no such snapshot") from None
        return {"size": size, "data": data}

    async def fetch(self, partition_id: int) -> bool:
        """Copy the newest snapshot of a partition from another node, and return whether there is a verified copy."""
        snapshots = self._partitions.snapshots(partition_id)
        if snapshots is None:
            return False
        async with self._copying:
            for offset, address in await self._offered(partition_id):
                try:
                    await self._copy(snapshots, address, partition_id, offset)
                except (FoldbError, UnusableError, OSError) as error:
                    logger.warning(
                        "cannot copy the snapshot of partition %d from node %s:%d: %s",
                        partition_id,
                        *address,
                        error,
                    )
                else:
                    logger.info("copied the snapshot @%d:%d from node %s:%d", partition_id, offset, *address)
                    return True
        return False

    async def _offered(self, partition_id: int) -> list[tuple[int, PeerAddress]]:
        """Return the offsets of snapshots and the nodes that have them, newest first."""
        figures = await self._figures()
        offered = [
            (dict(each.get("snapshots", ())).get(partition_id), address)
            for address, each in figures.items()
            if each is not None
        ]
        return sorted(((offset, address) for offset, address in offered if offset is not None), reverse=True)

    async def _copy(self, snapshots: Snapshots, address: PeerAddress, partition_id: int, offset: int) -> None:
        """Copy a snapshot.

        Raises:
            RequestError: The other node does not have it any longer, or does not answer.
            UnusableError: The bytes are not a snapshot of this log.
            OSError: The disk refused the file.
        """
        copy = await asyncio.to_thread(snapshots.begin_copy, offset)
        try:
            size = None
            while size is None or copy.size < size:
                body = {"partition": partition_id, "offset": offset, "start": copy.size}
                answer = await self._call(address, CALL_NAME, body)
                size, data = answer["size"], answer["data"]
                if not data:
                    raise UnusableError("it ends before its size")
                await asyncio.to_thread(copy.write, data)
            await asyncio.to_thread(copy.finish, cast(HashedLog, self._partitions.log))
        finally:
            await asyncio.to_thread(copy.close)
