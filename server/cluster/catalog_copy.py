"""The copy of the catalog's snapshot, before a node joins its group.

    members of the group ──► links ──► SnapshotTransfer ──► the snapshot in the folder ──► the node opens the catalog

A node needs the catalog to be constructed, so its cluster cannot fetch this snapshot as it fetches the others. The copy
has links and an event loop of its own, in a thread.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from ...model.errors import LogError
from ...model.slots import CATALOG
from ..partitions import Partitions
from .cluster import NodeConfig
from .handshake import LOOPBACK_SECRET, Identity
from .link import PeerAddress
from .peer_links import PeerLinks
from .snapshot_transfer import SnapshotTransfer

# A shorter log is folded in less time than other nodes are found.
FEWEST_RECORDS: Final = 1_000
# A slower copy saves no time.
_DEADLINE_S: Final = 300.0

logger = logging.getLogger(__name__)


def copy_catalog(config: NodeConfig, partitions: Partitions, random_bytes: Callable[[int], bytes]) -> bool:
    """Copy the newest snapshot of the catalog from another node, and return whether there is a verified copy. Blocks.

    A failed copy is logged: the node folds the catalog from the beginning of its log.
    """
    if partitions.snapshots(CATALOG) is None or partitions.log.end(CATALOG) < FEWEST_RECORDS:
        return False
    copy = _copy(config, partitions, random_bytes)
    with ThreadPoolExecutor(1, "catalog-copy") as thread:
        return thread.submit(asyncio.run, copy).result()


async def _copy(config: NodeConfig, partitions: Partitions, random_bytes: Callable[[int], bytes]) -> bool:
    links = PeerLinks(
        Identity(config.secret or LOOPBACK_SECRET, config.log_id),
        asyncio.get_running_loop(),
        random_bytes=random_bytes,
        timeouts=config.timeouts,
        tls=None if config.tls is None else config.tls[0],
        on_change=lambda: None,
        in_background=lambda _: None,
    )
    try:
        links.connect(_members(config))
        async with asyncio.timeout(_DEADLINE_S):
            return await SnapshotTransfer(partitions, links.call, links.settled_figures).fetch(CATALOG)
    except (LogError, TimeoutError) as error:
        logger.warning("cannot copy the snapshot of the catalog: %s; its log is folded", error or "timeout")
        return False
    finally:
        await links.close()


def _members(config: NodeConfig) -> list[PeerAddress]:
    """Return the addresses of the members, after a rebalance of the group that is under way."""
    until = time.monotonic() + config.timeouts.retry
    while (members := config.members()) is None and time.monotonic() < until:
        time.sleep(config.timeouts.poll)
    return members or []
