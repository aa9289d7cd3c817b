"""Both ends of connections between nodes in one event loop, and a fake partition."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from ssl import SSLContext
from typing import Any

from foldb.log.commands import Position
from foldb.materializer.partition import Partition
from foldb.model.limits import MODERN
from foldb.server.app import new_loop
from foldb.server.cluster.handshake import Identity
from foldb.server.cluster.link import Link, PeerAddress, Timeouts
from foldb.server.cluster.listener import PeerListener, ServedNode

LOG_ID = b"log of the tests"
SECRET = b"a secret of the cluster"
IDENTITY = Identity(SECRET, LOG_ID)
AT = Position(3, 10)
QUICK = Timeouts(
    connect=1.0,
    heartbeat=0.02,
    silence=0.2,
    call=0.5,
    reconnect=0.01,
    max_reconnect=0.05,
    retry=1.0,
    poll=0.005,
)


class Told:
    """A partition that records its calls, and answers as the test says."""

    def __init__(self, answer: Any = None, at: Position = AT) -> None:
        self.answer = answer
        self.at = at
        self.asked: list[tuple[Any, ...]] = []
        self.waiting: list[Callable[..., None]] = []
        self.holds = False

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("_"):
            raise AttributeError(name)

        def call(*arguments: Any) -> None:
            *asked, done = arguments
            self.asked.append((name, *asked))
            if self.holds:
                self.waiting.append(done)
            elif name in ("reach", "status"):
                done(self.answer)
            else:
                done(self.answer, self.at)

        return call


class Peers:
    """Listeners and links of one test."""

    def __init__(self) -> None:
        self.listeners: list[PeerListener] = []
        self.links: list[Link] = []

    async def listen(
        self,
        *partitions: Any,
        identity: Identity = IDENTITY,
        address: PeerAddress = ("127.0.0.1", 0),
        number: int = 3,
        tls: SSLContext | None = None,
    ) -> PeerAddress:
        """Serve one partition or none, and return the address."""
        here: dict[int, Partition] = {number: partitions[0]} if partitions else {}
        served = ServedNode(here.get, lambda: {"here": sorted(here)}, lambda: dict.fromkeys(here, 11), MODERN)
        listener = PeerListener(
            served, identity, asyncio.get_running_loop(), random_bytes=os.urandom, tls=tls
        )
        self.listeners.append(listener)
        return await listener.start(address)

    def link(
        self,
        address: PeerAddress,
        identity: Identity = IDENTITY,
        timeouts: Timeouts = QUICK,
        tls: SSLContext | None = None,
    ) -> Link:
        """Return a link to an address."""
        loop = asyncio.get_running_loop()
        link = Link(address, identity, loop, random_bytes=os.urandom, timeouts=timeouts, tls=tls)
        self.links.append(link)
        return link


@asynccontextmanager
async def peers() -> AsyncIterator[Peers]:
    """Yield an object whose links and listeners are closed at the end of the block."""
    found = Peers()
    try:
        yield found
    finally:
        for link in found.links:
            await link.close()
        for listener in found.listeners:
            await listener.close()


async def until(holds: Callable[[], Any]) -> None:
    """Wait until the condition holds."""
    async with asyncio.timeout(5):
        while not holds():
            await asyncio.sleep(0.002)


async def answered(ask: Callable[[Callable[..., None]], None]) -> Any:
    """Return the arguments of the callback of a call."""
    reported: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    ask(lambda *arguments: reported.set_result(arguments))
    async with asyncio.timeout(5):
        return await reported


def run(scenario: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine on a new event loop for at most 20 seconds; tasks that it leaves are cancelled."""

    async def with_timeout() -> None:
        async with asyncio.timeout(20):
            await scenario

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(with_timeout())


def unused_address() -> PeerAddress:
    """Return an address without a listener."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        host, port = taken.getsockname()
    return host, port
