"""A node among others: it folds the partitions that the routing table assigns to it, and forwards all other requests.

    table ──► owner of a partition      fold it, then lead: timers, messages to other partitions
          ├─► its standby               fold it; serve it while the owner is unreachable
          └─► neither                   forward

Every node folds the catalog. Ownership is a hint: a node that has folded a partition may serve it whatever the table
says. So no right has to be revoked from a node that was paused, or that has an old table.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import field
from ipaddress import ip_address
from ssl import SSLContext
from typing import Any, Final, Protocol

from ...log.commands import Position
from ...materializer.history.requests import PartitionWithHistory
from ...model.errors import FoldbError, RequestError
from ...model.lazy_dataclass import dataclass
from ...model.limits import Limits
from ...model.slots import CATALOG
from ..partitions import Partitions
from .codec import PlainValue
from .handshake import LOOPBACK_SECRET, Identity
from .hosting import HostedPartitions
from .link import Link, PeerAddress, Timeouts
from .listener import PeerListener, ServedNode
from .node_calls import NodeHandler, NodeHandlers
from .peer_links import PeerLinks
from .remote import PartitionRoute, RemotePartition
from .routes import Route, RoutingTable, decode_table, encode_table
from .snapshot_transfer import CALL_NAME, SnapshotTransfer
from .wire import WireError

logger = logging.getLogger(__name__)

# The event loop runs a tick this often. After a longer gap (a process that was stopped) the folded state is old. A busy
# machine causes gaps of a few seconds, in which no other node can have been assigned this node's partitions.
_TICK_S: Final = 0.25
_GAP_S: Final = 5.0


class ClusterRefusedError(FoldbError):
    """Other machines can reach the node's address, and there is no secret to keep strangers out.

    Operator action: create a secret (`foldb key create`), or use a loopback address.
    """


class Group(Protocol):
    """The membership in the group of nodes (membership.py)."""

    def start(self) -> None: ...

    def join_again(self) -> None: ...

    def leave(self) -> None: ...

    def close(self, timeout_s: float) -> None: ...


Join = Callable[
    [PeerAddress, Callable[[], tuple[list[int], list[int]]], Callable[[RoutingTable], None]], Group
]
"""Returns the membership of a node, given its address, its folded partitions and a callback for routing tables."""


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """The configuration of a node in a cluster.

    Attributes:
        address: Where other nodes call it; port 0 takes a free one.
        join: Makes its membership.
        secret: The secret of all nodes; None only on a loopback address.
        log_id: The id of the shared log.
        members: Returns the addresses of the group's members; None while it assigns. Blocks.
        tls: The TLS contexts of callers and of listeners.
        timeouts: The timeouts of calls between nodes.
    """

    address: PeerAddress
    join: Join
    secret: bytes | None
    log_id: bytes
    limits: Limits
    members: Callable[[], list[PeerAddress] | None] = list
    tls: tuple[SSLContext, SSLContext] | None = None
    timeouts: Timeouts = field(default_factory=Timeouts)


class Cluster:
    """This node among the others.

    Attributes:
        address: Where other nodes call this one.
        table: The last routing table of the group.
    """

    def __init__(
        self,
        config: NodeConfig,
        partitions: Partitions,
        reach: Callable[[int, PartitionWithHistory], None],
        loop: asyncio.AbstractEventLoop,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        """Prepare to join; `start` joins.

        Args:
            config: The configuration of this node.
            partitions: The partitions of this process.
            reach: Called with a partition id and the partition that its requests go to, when it moves.

        Raises:
            ClusterRefusedError: The address is no loopback address, and the configuration has no secret.
        """
        self.address = config.address
        self.table: RoutingTable | None = None
        self._config = config
        self._reach = reach
        self._loop = loop
        identity = Identity(_secret(config), config.log_id)
        calling, listening = config.tls or (None, None)
        self._calls = NodeHandlers(self.in_background)
        self._links = PeerLinks(
            identity,
            loop,
            random_bytes=random_bytes,
            timeouts=config.timeouts,
            tls=calling,
            on_change=self.update_routes,
            in_background=self.in_background,
        )
        self._transfer = SnapshotTransfer(partitions, self.call, self._links.settled_figures)
        self.handle(CALL_NAME, self._transfer.serve)
        self._hosting = HostedPartitions(
            partitions,
            on_warm=self._on_warm,
            on_closed=self._on_closed,
            fetch_snapshot=self._transfer.fetch,
            in_background=self.in_background,
        )
        self._listener = PeerListener(
            ServedNode(
                self._hosting.partition,
                self._own_figures,
                self._hosting.positions,
                config.limits,
                self._calls,
            ),
            identity,
            loop,
            random_bytes=random_bytes,
            tls=listening,
        )
        self._remote = [
            RemotePartition(partition_id, self._route, loop, config.timeouts)
            for partition_id in range(partitions.count)
        ]
        self._folded: tuple[list[int], list[int]] = (
            [],
            [],
        )  # led and warm partitions, read by the group's thread
        self._group: Group | None = None
        self._has_table, self._has_catalog = asyncio.Event(), asyncio.Event()
        self._is_leaving = False
        self._background: set[asyncio.Task[None]] = set()
        self._ticked_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Listen, join the group, and return when this node has a routing table and has folded the catalog.

        Raises:
            OSError: The address cannot be bound.
        """
        for partition_id, remote in enumerate(self._remote):
            self._reach(partition_id, remote)
        host, port = await self._listener.start(self.address)
        self.address = self.address[0] if port == self.address[1] else host, port
        self._hosting.catch_up(CATALOG)
        self._group = self._config.join(self.address, lambda: self._folded, self._apply_from_thread)
        self._group.start()
        self._ticked_at = self._loop.time()
        self._tick()
        await self._has_table.wait()
        await self._has_catalog.wait()

    async def leave(self) -> None:
        """Leave the group, and serve until the other nodes have taken over this one's partitions."""
        assert self._group is not None
        self._is_leaving = True
        self._group.leave()
        timeouts = self._config.timeouts
        deadline = self._loop.time() + timeouts.retry
        while self._loop.time() < deadline and not await self._is_replaced():
            await asyncio.sleep(timeouts.poll)
        while self._loop.time() < deadline and self._listener.busy:
            await asyncio.sleep(timeouts.poll)

    async def stop(self) -> None:
        """Close all connections."""
        if self._timer is not None:
            self._timer.cancel()
        await self._listener.close()
        await self._links.close()
        await asyncio.gather(*self._background, return_exceptions=True)
        if self._group is not None:
            await asyncio.to_thread(self._group.close, self._config.timeouts.retry)

    # The routing table

    def _apply_from_thread(self, table: RoutingTable) -> None:
        self._loop.call_soon_threadsafe(self.apply, table)

    def apply(self, table: RoutingTable) -> None:
        """Use a new routing table."""
        logger.info("generation %d: %s", table.generation, table.routes)
        self.table = table
        self._links.connect(table.nodes, self.address)
        if not self._is_leaving:
            self._host(table)
        self.update_routes()
        self._request_assignment()  # the partition that moves here may have caught up by now
        self._has_table.set()

    def _host(self, table: RoutingTable) -> None:
        """Fold the partitions that the table assigns to this node, and the catalog, but no others."""
        routes = [*enumerate(table.routes)]
        assigned = {partition_id for partition_id, route in routes if self.address in route[:2]} | {CATALOG}
        owned = {partition_id for partition_id, route in routes if route.owner == self.address}
        for partition_id in self._hosting.assign(assigned, owned):
            self._reach(partition_id, self._remote[partition_id])

    def _on_warm(self, partition_id: int) -> None:
        if partition_id == CATALOG:
            self._has_catalog.set()
        self.update_routes()
        self._request_assignment()

    def _on_closed(self) -> None:
        if self.table is not None and not self._is_leaving:
            self._host(self.table)

    def _request_assignment(self) -> None:
        """Make the group assign again if all partitions that move here have caught up."""
        if self.table is None or self._group is None or self._is_leaving:
            return
        moving = {
            partition_id for partition_id, route in enumerate(self.table.routes) if self._moves_here(route)
        }
        if moving and moving <= self._hosting.warm:
            self._group.join_again()

    def _moves_here(self, route: Route) -> bool:
        return route.moving and route.standby == self.address

    # Routes: they follow from the table, the links and the warm partitions

    def update_routes(self) -> None:
        """Lead the partitions that this node acts for, stand by for the others, and route requests to the leaders."""
        leading = []
        for partition_id, hosted in self._hosting.partitions.hosted.items():
            if partition_id in self._hosting.closing:
                continue
            if self._hosting.is_ready(partition_id) and self._acts_for(partition_id):
                hosted.lead()
                leading.append(partition_id)
                self._reach(partition_id, hosted.partition)
            else:
                hosted.stand_by()
                self._reach(partition_id, self._remote[partition_id])
        if leading != self._folded[0]:
            logger.info("leads %s", leading)
        self._folded = leading, sorted(self._hosting.warm)

    def _acts_for(self, partition_id: int) -> bool:
        """Return whether this node is the owner of a partition, or the standby of an unreachable owner."""
        if self.table is None:
            return False
        route = self.table.routes[partition_id]
        return route.owner == self.address or (
            route.standby == self.address and self._links.is_down(route.owner)
        )

    def _route(self, partition_id: int, seen: Position | None) -> PartitionRoute:
        """Return where a partition is served now.

        With `seen` this node's copy may serve a read, if it has folded that position and the owner's position of the
        last heartbeat.
        """
        here = self._hosting.partition(partition_id)
        if self.table is None or partition_id >= len(self.table.routes):
            return here if partition_id == CATALOG else None
        owner, standby, _ = self.table.routes[partition_id]
        if owner == self.address:
            return here
        link = self._links.links[owner]
        if here is not None and seen is not None and self._is_fresh(partition_id, seen, link):
            return here
        if link.is_up:
            return link
        if not link.is_down or standby is None:
            return None
        if standby == self.address:
            return here
        other = self._links.links[standby]
        return other if other.is_up else None

    def _is_fresh(self, partition_id: int, seen: Position, link: Link) -> bool:
        folded = self._hosting.offset(partition_id)
        return link.is_up and folded >= seen.offset and folded + 1 >= link.positions.get(partition_id, 0)

    # The state of nodes

    def _own_figures(self) -> Any:
        table = None if self.table is None else [self.table.generation, encode_table(self.table.routes)]
        return {
            "table": table,
            "leading": self._hosting.leading(),
            "calls": sorted(self._calls.handlers),
            "snapshots": self._transfer.offsets(),
        }

    def handle(self, name: str, handler: NodeHandler) -> None:
        """Handle the calls of this name from other nodes."""
        self._calls.handlers[name] = handler

    async def call(self, address: PeerAddress, name: str, body: dict[str, Any]) -> PlainValue:
        """Return the result of a call to a node, which may be this one.

        Raises:
            ServiceUnavailableError: The node is unreachable, of an earlier release, or did not answer in time.
            RequestError: The error of the handler.
        """
        if address != self.address:
            return await self._links.call(address, name, body)
        result = await self._calls.result(name, body)
        if isinstance(result, RequestError):
            raise result
        return result

    async def _is_replaced(self) -> bool:
        """Return whether all reachable nodes have a routing table without this one. It becomes this node's, too."""
        tables = []
        for figures in (await self._links.figures()).values():
            if figures is None:
                continue
            if figures["table"] is None:
                return False
            generation, data = figures["table"]
            try:
                tables.append(decode_table(data, generation))
            except WireError:
                return False
        if any(self.address in table.nodes for table in tables):
            return False
        if tables:
            self.apply(max(tables, key=lambda table: table.generation))
        return True

    async def ask_nodes(self) -> dict[PeerAddress, Any]:
        """Return the state of each node; None for an unreachable one."""
        return {self.address: self._own_figures(), **await self._links.figures()}

    def nodes_of(self, partition_id: int) -> list[PeerAddress]:
        """Return the nodes that fold a partition: its owner and its standby, and all nodes for the catalog."""
        if self.table is None:
            return [self.address]
        if partition_id == CATALOG:
            return sorted(self.table.nodes)
        owner, standby, _ = self.table.routes[partition_id]
        return [owner] if standby is None else [owner, standby]

    def positions_of(self, address: PeerAddress) -> dict[int, int]:
        """Return by partition the offset of the next entry to fold, from a node's last heartbeat."""
        return self._hosting.positions() if address == self.address else self._links.positions_of(address)

    # Time and tasks

    def _tick(self) -> None:
        now = self._loop.time()
        if now - self._ticked_at > _GAP_S:
            self._on_pause(now - self._ticked_at)
        self._ticked_at = now
        self._timer = self._loop.call_later(_TICK_S, self._tick)

    def _on_pause(self, seconds: float) -> None:
        """Catch up after a pause of the process: its state is old, and other nodes may own its partitions."""
        logger.warning("this process did not run for %.1f s: it catches up with the log", seconds)
        self._hosting.catch_up_all()
        self.update_routes()

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in a task that `stop` awaits."""
        task = self._loop.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def _secret(config: NodeConfig) -> bytes:
    if config.secret is not None:
        return config.secret
    if not _is_loopback(config.address[0]):
        raise ClusterRefusedError(
            f"other machines could call this node at {config.address[0]}, and nothing would keep strangers out: "
            "all nodes need the same secret"
        )
    logger.warning("nodes of this machine call each other without a secret: none was given")
    return LOOPBACK_SECRET


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
