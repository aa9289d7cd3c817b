"""What a node of several does: it folds what the routing table gives it, and forwards the rest.

    table ──► owner of a partition      fold it, then lead: timers, messages to other partitions
          ├─► its standby               fold it; serve it where the owner cannot be reached
          └─► neither                   forward

Every node folds the catalog. Ownership is a hint: a node that has folded a partition may serve it whatever the table
says, so nothing has to be taken away from anybody, neither from one that was paused nor from one that does not know
yet that it lost something.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from ipaddress import ip_address
from ssl import SSLContext
from typing import Any, Final, Protocol

from ...log.commands import Position
from ...materializer.feed_requests import FedPartition
from ...materializer.partition import Partition
from ...model.errors import FoldbError
from ...model.limits import Limits
from ..partitions import Partitions
from .handshake import LOOPBACK_SECRET, Identity
from .link import Address, Answer, Fate, Link, Timeouts
from .listener import PeerListener, Served
from .remote import PartitionRoute, RemotePartition
from .routes import Route, Table, decode_table, encode_table
from .wire import NODE, WireError

logger = logging.getLogger(__name__)

CATALOG: Final = 0

# The loop should come by so often. After a longer gap (a process that was stopped) what was folded is old. A busy
# machine may make gaps of a few seconds; in so few nobody has been given what this node had.
_TICK_S: Final = 0.25
_GAP_S: Final = 5.0


class ClusterRefusedError(FoldbError):
    """Other machines could call, and nothing would keep strangers out.

    Operator action: make a secret (`foldb key create`), or take a loopback address.
    """


class Group(Protocol):
    """Who is there (membership.py)."""

    def start(self) -> None: ...

    def join_again(self) -> None: ...

    def leave(self) -> None: ...

    def close(self, patience_s: float) -> None: ...


Join = Callable[[Address, Callable[[], tuple[list[int], list[int]]], Callable[[Table], None]], Group]
"""Makes this node's place in the group, from its address, what it has folded, and who is told of tables."""


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """Where a node stands among the others.

    Attributes:
        address: Where others call it; port 0 takes a free one.
        join: How it becomes a member.
        secret: What all nodes know; None where only this machine can call.
        log_id: Which log they share.
        limits: Those of the log.
        tls: Contexts for those who call and for those who are called.
    """

    address: Address
    join: Join
    secret: bytes | None
    log_id: bytes
    limits: Limits
    tls: tuple[SSLContext, SSLContext] | None = None
    patience: Timeouts = field(default_factory=Timeouts)


class Cluster:
    """This node among the others.

    Attributes:
        address: Where others call this node.
        table: Who serves what, as the group said last.
    """

    def __init__(
        self,
        place: NodeConfig,
        folds: Partitions,
        routed: list[FedPartition],
        loop: asyncio.AbstractEventLoop,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        """Be nobody yet; `start` joins.

        Args:
            place: Where this node stands.
            folds: The partitions of this process.
            routed: By number, who is asked; entries are replaced as partitions move.
            loop: Where everything happens.
            random_bytes: Draws that many random bytes.

        Raises:
            ClusterRefusedError: The address is not of this machine alone, and there is no secret.
        """
        self.address = place.address
        self.table: Table | None = None
        self._place = place
        self._folds = folds
        self._routed = routed
        self._loop = loop
        self._random_bytes = random_bytes
        self._identity = Identity(_secret(place), place.log_id)
        self._links: dict[Address, Link] = {}
        self._warm: set[int] = set()
        self._catching_up: dict[int, int] = {}  # which try it is: an answer to an older one means nothing
        self._tries = 0
        self._folded: tuple[list[int], list[int]] = ([], [])
        self._remote = [
            RemotePartition(number, self._way, loop, place.patience) for number in range(folds.count)
        ]
        self._listener = PeerListener(
            Served(self._here, self._figures, self._positions, place.limits),
            self._identity,
            loop,
            random_bytes=random_bytes,
            tls=None if place.tls is None else place.tls[1],
        )
        self._group: Group | None = None
        self._joined, self._knows_tables = asyncio.Event(), asyncio.Event()
        self._leaving = False
        self._going: set[int] = set()  # partitions that are let go of
        self._background: set[asyncio.Task[None]] = set()
        self._ticked = 0.0
        self._tick: asyncio.TimerHandle | None = None

    # From start to stop

    async def start(self) -> None:
        """Listen to other nodes, join, and return when this node knows who serves what, and which tables there are.

        Raises:
            OSError: It cannot listen there.
        """
        self._routed[:] = self._remote
        host, port = await self._listener.start(self.address)
        self.address = self.address[0] if port == self.address[1] else host, port
        self._catch_up(CATALOG)
        self._group = self._place.join(self.address, lambda: self._folded, self._told_on_thread)
        self._group.start()
        self._ticked = self._loop.time()
        self._look()
        await self._joined.wait()
        await self._knows_tables.wait()

    async def leave(self) -> None:
        """Hand over: go on serving until the others know that this node is gone, and have taken what it had."""
        assert self._group is not None
        self._leaving = True
        self._group.leave()
        until = self._loop.time() + self._place.patience.retry
        while self._loop.time() < until and not await self._is_replaced():
            await asyncio.sleep(self._place.patience.look)
        while self._loop.time() < until and self._listener.busy:
            await asyncio.sleep(self._place.patience.look)

    async def stop(self) -> None:
        """End all connections."""
        if self._tick is not None:
            self._tick.cancel()
        await self._listener.close()
        for link in self._links.values():
            await link.close()
        await asyncio.gather(*self._background, return_exceptions=True)
        if self._group is not None:
            await asyncio.to_thread(self._group.close, self._place.patience.retry)

    # Tables

    def _told_on_thread(self, table: Table) -> None:
        self._loop.call_soon_threadsafe(self.told, table)

    def told(self, table: Table) -> None:
        """The group has decided."""
        logger.info("generation %d: %s", table.generation, table.routes)
        self.table = table
        self._connect(table)
        if not self._leaving:
            self._host(table)
        self.settle()
        self._ask_for_more()  # it may have folded that while the group decided
        self._joined.set()

    def _connect(self, table: Table) -> None:
        """Have a link to every other node; one to a node that is gone is kept until its answers have come."""
        for address in table.nodes:
            if address not in self._links and address != self.address:
                self._links[address] = Link(
                    address,
                    self._identity,
                    self._loop,
                    random_bytes=self._random_bytes,
                    patience=self._place.patience,
                    on_change=self.settle,
                    tls=None if self._place.tls is None else self._place.tls[0],
                )
        for address in self._links.keys() - set(table.nodes):
            self._loop.call_later(self._place.patience.call, self._forget, address)

    def _forget(self, address: Address) -> None:
        if self.table is not None and address not in self.table.nodes and address in self._links:
            self.in_background(self._links.pop(address).close())

    def _host(self, table: Table) -> None:
        """Fold what the table gives this node, and nothing else."""
        given = {number for number, route in enumerate(table.routes) if self.address in route[:2]}
        for number in self._folds.hosted.keys() - given - self._going - {CATALOG}:
            self._warm.discard(number)
            self._catching_up.pop(number, None)
            self._routed[number] = self._remote[number]
            self._going.add(number)
            self.in_background(self._let_go(number))
        for number in sorted(given - self._going):
            if number not in self._folds.hosted:
                self._folds.open(number)
                self._catch_up(number)
            elif table.routes[number].owner == self.address and not self._folds.hosted[number].leading:
                self._catch_up(number)

    async def _let_go(self, number: int) -> None:
        """Answer what was taken, and fold it no more, unless the table gives it back meanwhile."""
        await self._folds.close(number)
        self._going.discard(number)
        if self.table is not None and not self._leaving:
            self._host(self.table)

    def _catch_up(self, number: int) -> None:
        """Fold what the log has by now; until then others are asked, if they can be."""
        self._tries += 1
        this = self._catching_up[number] = self._tries
        self._folds.hosted[number].catch_up(lambda: self._caught_up(number, this))

    def _caught_up(self, number: int, which: int) -> None:
        if self._catching_up.get(number) == which:
            logger.info("partition %d is folded", number)
            del self._catching_up[number]
            self._warm.add(number)
            if number == CATALOG:
                self._knows_tables.set()
            self.settle()
            self._ask_for_more()

    def _ask_for_more(self) -> None:
        """Have the group decide again when all that is to move here has been folded."""
        if self.table is None or self._group is None or self._leaving:
            return
        moving = {number for number, route in enumerate(self.table.routes) if self._is_to_get(route)}
        if moving and moving <= self._warm:
            self._group.join_again()

    def _is_to_get(self, route: Route) -> bool:
        return route.moving and route.standby == self.address

    # What follows from table, links and what is folded

    def settle(self) -> None:
        """Lead what this node acts for, stand by for the rest, and let requests go the shortest way."""
        leading = []
        for number, hosted in self._folds.hosted.items():
            if number in self._going:
                continue
            ready = number in self._warm and number not in self._catching_up
            if ready and self._acts_for(number):
                hosted.lead()
                leading.append(number)
                self._routed[number] = hosted.partition
            else:
                hosted.stand_by()
                self._routed[number] = self._remote[number]
        if leading != self._folded[0]:
            logger.info("leads %s", leading)
        self._folded = leading, sorted(self._warm)

    def _acts_for(self, number: int) -> bool:
        """Whether this node is the owner, or has to stand in for it."""
        if self.table is None:
            return False
        route = self.table.routes[number]
        return route.owner == self.address or (route.standby == self.address and self._is_down(route.owner))

    def _is_down(self, address: Address | None) -> bool:
        link = None if address is None else self._links.get(address)
        return link is not None and link.is_down

    def _here(self, number: int) -> Partition | None:
        """The partition, if it is folded here; also when others think they own it."""
        if number not in self._warm or number not in self._folds.hosted:
            return None
        return self._folds.hosted[number].partition

    def _way(self, number: int, seen: Position | None) -> PartitionRoute:
        """Who serves a partition now.

        With `seen` a read may be answered from what is folded here, if that is as far as that position and as far as
        the owner was half a second ago.
        """
        here = self._here(number)
        if self.table is None or number >= len(self.table.routes):
            return here if number == CATALOG else None
        owner, standby, _ = self.table.routes[number]
        if owner == self.address:
            return here
        link = self._links[owner]
        if here is not None and seen is not None and self._is_fresh(number, seen, link):
            return here
        if link.is_up:
            return link
        if not link.is_down or standby is None:
            return None
        if standby == self.address:
            return here
        other = self._links[standby]
        return other if other.is_up else None

    def _is_fresh(self, number: int, seen: Position, link: Link) -> bool:
        folded = self._folds.hosted[number].worker.position.offset
        return link.is_up and folded >= seen.offset and folded + 1 >= link.positions.get(number, 0)

    # What others ask

    def _positions(self) -> dict[int, int]:
        return {number: hosted.worker.position.offset + 1 for number, hosted in self._folds.hosted.items()}

    def _figures(self) -> Any:
        leading = [number for number, hosted in self._folds.hosted.items() if hosted.leading]
        table = None if self.table is None else [self.table.generation, encode_table(self.table.routes)]
        return {"table": table, "leading": leading}

    async def _is_replaced(self) -> bool:
        """Whether all other nodes have a table without this one; it is then this node's too."""
        figures = [
            found
            for address, found in (await self.ask_nodes()).items()
            if address != self.address and found is not None
        ]
        tables = []
        for found in figures:
            if found["table"] is None:
                return False
            generation, data = found["table"]
            try:
                tables.append(decode_table(data, generation))
            except WireError:
                return False
        if any(self.address in table.nodes for table in tables):
            return False
        if tables:
            self.told(max(tables, key=lambda table: table.generation))
        return True

    async def ask_nodes(self) -> dict[Address, Any]:
        """What each node says of itself; None where one cannot be reached."""
        asked = {address: self._ask_node(link) for address, link in self._links.items()}
        figures = await asyncio.gather(*asked.values())
        return {self.address: self._figures(), **dict(zip(asked, figures, strict=True))}

    async def _ask_node(self, link: Link) -> Any:
        told: asyncio.Future[Fate] = self._loop.create_future()
        link.ask(NODE, 0, (), told.set_result)
        fate = await told
        return fate.result if isinstance(fate, Answer) else None

    def positions_of(self, address: Address) -> dict[int, int]:
        """The offset of the next entry of each partition that a node folds, as it said last."""
        if address == self.address:
            return self._positions()
        link = self._links.get(address)
        return {} if link is None or not link.is_up else link.positions

    # The passing of time

    def _look(self) -> None:
        now = self._loop.time()
        if now - self._ticked > _GAP_S:
            self._awoken(now - self._ticked)
        self._ticked = now
        self._tick = self._loop.call_later(_TICK_S, self._look)

    def _awoken(self, seconds: float) -> None:
        """This process did not run for a while: what it has folded is old, and others may own what it had."""
        logger.warning("this process did not run for %.1f s: it catches up with the log", seconds)
        self._warm.clear()
        for number in tuple(self._folds.hosted):
            self._catch_up(number)
        self.settle()

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Have something done that nobody waits for, before this node ends."""
        task = self._loop.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def _secret(place: NodeConfig) -> bytes:
    if place.secret is not None:
        return place.secret
    if not _is_loopback(place.address[0]):
        raise ClusterRefusedError(
            f"other machines could call this node at {place.address[0]}, and nothing would keep strangers out: "
            "all nodes need the same secret"
        )
    logger.warning("nodes of this machine call each other without a secret: none was given")
    return LOOPBACK_SECRET


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
