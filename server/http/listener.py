"""The listening socket, its connections, and the state that they share: the tick, the date, the next request id.

Past the limit of connections, the idle connection with the nearest deadline is closed for the new one. Connections with
a request in flight stay open. So idle connections cannot lock out other clients.
"""

import asyncio
import contextlib
import heapq
import resource
import socket
import sys
from collections import Counter
from collections.abc import Callable
from email.utils import formatdate
from operator import itemgetter
from typing import Final

from ...materializer.partition import ResultPosition
from ..auth.guard import Guard
from ..node import Node
from . import response
from .address import ListenError, is_open
from .buffer_limit import BufferBudget
from .fair_scheduler import FairScheduler
from .origin_policy import OriginPolicy
from .protocol import NEVER, Connection, Shared
from .request_log import RequestLog
from .tls import Certificate, Tls

_BACKLOG: Final = 1024
_STOP_SECONDS: Final = 5
# Descriptors for the log, the event loop and other files: a log that cannot open its next file stops.
_OTHER_DESCRIPTORS: Final = 48


class Listener(Shared):
    """One listening socket and its connections.

    Attributes:
        address: Host and port, after `start`.
    """

    def __init__(
        self,
        node: Node,
        loop: asyncio.AbstractEventLoop,
        guard: Guard | None = None,
        certificate: Certificate | None = None,
    ) -> None:
        settings = node.settings
        self.node = node
        self.guard = guard
        self.origin_policy = OriginPolicy(
            (settings.host, *settings.allowed_hosts),
            settings.cors,
            scheme="http" if certificate is None else "https",
            any_host=guard is not None,
            network_names=is_open(settings),
        )
        self.buffer_budget = BufferBudget(settings.client_buffer_bytes)
        pages = node.partitions.long_reads
        self.fair_scheduler = FairScheduler(loop, settings.queue_bytes, is_full=lambda: pages.is_full)
        self.tick = 0
        self.date = _date(node.clock())
        self.address: tuple[str, int] = ("", 0)
        self.depth: Callable[[bytes], int] | None = None
        self.request_log: RequestLog | None = None
        if settings.log_requests or settings.slow_log_ms:
            at_least_ms = 0 if settings.log_requests else settings.slow_log_ms
            self.request_log = RequestLog(loop, node.clock, at_least_ms=at_least_ms)
        self._loop = loop
        self._certificate = certificate
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._connections: dict[Connection, None] = {}  # in the order of accept
        self._drained = asyncio.Event()  # set when the last connection closes
        self._limit = settings.connections
        self._limit_per_peer = settings.connections_per_address
        self._peers: Counter[str] = Counter()
        self._spare: list[tuple[int, Connection]] = []  # connections that can be evicted, the next one last
        self._traffic = node.partitions.traffic
        self._id_prefix = node.random_bytes(18).hex().upper()
        self._position: ResultPosition | None = None
        self._position_fields = b""

    async def start(self, bound: socket.socket) -> None:
        """Listen on the socket that `bind` returned. Limit connections so that the log can open its files.

        Raises:
            ListenError: Another process listens on the address since it was bound.
        """
        self._limit = max(1, min(self.node.settings.connections, _descriptors() - _OTHER_DESCRIPTORS))
        try:
            self._server = await self._loop.create_server(self._accept, sock=bound, backlog=_BACKLOG)
        except OSError as error:
            raise ListenError(error.errno, error.strerror) from error
        self.address = bound.getsockname()[:2]
        self._timer = self._loop.call_later(self.node.settings.tick_ms / 1000, self._on_tick)

    async def stop(self) -> None:
        """Stop accepting, wait a few seconds for the requests in flight, and close all connections."""
        if self._server is not None:
            self._server.close()
        self._drained.clear()
        for connection in list(self._connections):
            connection.finish()
        if self._connections:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._drained.wait(), _STOP_SECONDS)
        for connection in list(self._connections):
            connection.expire()
        if self._timer is not None:
            self._timer.cancel()

    def _accept(self) -> asyncio.Protocol:
        connection = Connection(self)
        return connection if self._certificate is None else Tls(connection, self._certificate.context, self)

    def on_triggers_running(self, depth: Callable[[bytes], int] | None) -> None:
        """Use `depth` for new requests; None disables the check of their user agents."""
        self.depth = depth

    # Called by connections

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Call `callback` in the next turn of the event loop."""
        self._loop.call_soon(callback)

    def opened(self, connection: Connection) -> None:
        """Register a connection. Past the limit, evict another one, or finish this one."""
        if len(self._connections) >= self._limit and not self._make_room():
            connection.finish()
        self._connections[connection] = None
        if self._limit_per_peer:
            peer = connection.peer
            self._peers[peer] += 1
            if self._peers[peer] > self._limit_per_peer:
                connection.finish()

    def closed(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        self.buffer_budget.release(connection)
        if self._limit_per_peer:
            self._peers[connection.peer] -= 1
        if not self._connections:
            self._drained.set()

    def request_id(self) -> str:
        """Return a new request id, in the alphabet and length of DynamoDB's."""
        self._traffic.requests += 1
        # Compiled, a format takes 900 instructions more.
        return self._id_prefix + self._traffic.requests.to_bytes(8, "big").hex().upper()

    def position_fields(self, position: ResultPosition) -> bytes:
        """Return the header fields of a position. Between two writes they are the same, so the last ones are kept."""
        if position is not self._position:
            self._position = position
            text = position.text(self.node.partitions.count).encode()
            self._position_fields = response.position_fields(text, position.time_ms)
        return self._position_fields

    def _make_room(self) -> bool:
        """Evict a connection without a request in flight; return False if there is none."""
        if not self._spare:
            idle = [(each.deadline, each) for each in self._connections if each.deadline < NEVER]
            self._spare = heapq.nsmallest(max(1, self._limit // 16), idle, key=itemgetter(0))
            self._spare.reverse()
        while self._spare:
            deadline, connection = self._spare.pop()
            if connection.deadline == deadline and connection in self._connections:
                connection.evict()
                return True
        return False

    def _on_tick(self) -> None:
        self.tick += 1
        self.date = _date(self.node.clock())
        self.node.metrics.tick(self.node.clock())
        self.node.heat.settle(self.node.usage)
        late = [connection for connection in self._connections if connection.deadline < self.tick]
        for connection in late:
            connection.expire()
        if self.guard is not None:
            self.guard.reload_if_changed()
        self._timer = self._loop.call_later(self.node.settings.tick_ms / 1000, self._on_tick)


def _descriptors() -> int:
    """Return how many files and sockets this process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def _date(time_ms: int) -> bytes:
    return formatdate(time_ms / 1000, usegmt=True).encode()
