"""The links of a node to all others."""

import asyncio
from collections.abc import Callable, Collection, Coroutine
from ssl import SSLContext
from typing import Any

from ...model.errors import ServiceUnavailableError
from .codec import PlainValue
from .handshake import Identity
from .link import Answered, CallResult, Link, PeerAddress, Timeouts
from .node_calls import call_node
from .wire import NODE


class PeerLinks:
    """Keeps a link to every other node.

    Attributes:
        links: The links by address. A link to a node that left stays until the calls in flight have ended.
    """

    def __init__(
        self,
        identity: Identity,
        loop: asyncio.AbstractEventLoop,
        *,
        random_bytes: Callable[[int], bytes],
        timeouts: Timeouts,
        tls: SSLContext | None,
        on_change: Callable[[], None],
        in_background: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """`on_change` is called when a node becomes reachable or unreachable."""
        self.links: dict[PeerAddress, Link] = {}
        self._identity = identity
        self._loop = loop
        self._random_bytes = random_bytes
        self._timeouts = timeouts
        self._tls = tls
        self._on_change = on_change
        self._in_background = in_background
        self._nodes: frozenset[PeerAddress] = frozenset()

    def connect(self, nodes: Collection[PeerAddress], own: PeerAddress | None = None) -> None:
        """Connect to these nodes except `own`, and close the links to all others later."""
        self._nodes = frozenset(nodes)
        for address in nodes:
            if address not in self.links and address != own:
                self.links[address] = Link(
                    address,
                    self._identity,
                    self._loop,
                    random_bytes=self._random_bytes,
                    timeouts=self._timeouts,
                    on_change=self._on_change,
                    tls=self._tls,
                )
        for address in self.links.keys() - self._nodes:
            self._loop.call_later(self._timeouts.call, self._disconnect, address)

    def _disconnect(self, address: PeerAddress) -> None:
        if address not in self._nodes and address in self.links:
            self._in_background(self.links.pop(address).close())

    def is_down(self, address: PeerAddress) -> bool:
        """Return whether the last attempt to connect to a node failed."""
        link = self.links.get(address)
        return link is not None and link.is_down

    def positions_of(self, address: PeerAddress) -> dict[int, int]:
        """Return by partition the offset of the next entry to fold, from a node's last heartbeat."""
        link = self.links.get(address)
        return {} if link is None or not link.is_up else link.positions

    async def figures(self) -> dict[PeerAddress, Any]:
        """Return the state of each node; None for an unreachable one."""
        calls = {address: self.figures_of(link) for address, link in self.links.items()}
        return dict(zip(calls, await asyncio.gather(*calls.values()), strict=True))

    async def figures_of(self, link: Link) -> Any:
        """Return the state of a node; None if it is unreachable."""
        future: asyncio.Future[CallResult] = self._loop.create_future()
        link.call(NODE, 0, (), future.set_result)
        call_result = await future
        return call_result.result if isinstance(call_result, Answered) else None

    async def settled_figures(self) -> dict[PeerAddress, Any]:
        """Return the state of each node, after it was found to be reachable or not; None if it is not."""
        until = self._loop.time() + self._timeouts.connect
        while self._loop.time() < until and any(
            not link.is_up and not link.is_down for link in self.links.values()
        ):
            await asyncio.sleep(self._timeouts.poll)
        return await self.figures()

    async def call(self, address: PeerAddress, name: str, body: dict[str, Any]) -> PlainValue:
        """Return the result of a call to another node.

        Raises:
            ServiceUnavailableError: The node is unreachable, of an earlier release, or did not answer in time.
            RequestError: The error of the handler.
        """
        link = self.links.get(address)
        figures = None if link is None else await self.figures_of(link)
        if link is None or figures is None:
            raise ServiceUnavailableError("The node is unreachable")
        if name not in figures.get("calls", ()):
            raise ServiceUnavailableError("The node runs an earlier release")
        return await call_node(link, name, body)

    async def close(self) -> None:
        for link in self.links.values():
            await link.close()
