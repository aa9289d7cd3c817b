"""Accepts connections for a node, and keeps what they share: the second it is, the date, the next request id.

Where there are too many connections, the one that is nearest to being closed anyway makes room for the newcomer; one
whose request is under way stays. So nobody is kept out by connections that ask for nothing.
"""

import asyncio
import contextlib
import heapq
import ipaddress
import resource
import socket
import sys
from collections import Counter
from collections.abc import Callable
from email.utils import formatdate
from operator import itemgetter

from ...materializer.partition import ResultPosition
from ...model.errors import FoldbError
from ..auth.guard import Guard
from ..node import Node
from ..settings import Settings
from . import response
from .buffer_limit import BufferBudget
from .fair_scheduler import FairScheduler
from .origin_policy import OriginPolicy, is_loopback
from .protocol import NEVER, Connection
from .request_log import RequestLog
from .tls import Certificate, Tls

_BACKLOG = 1024
# What the system receives ahead of us, and so the most that one read of a socket gives: who sends without end waits at
# his own end.
_RECEIVE_BYTES = 32 * 1024
# Of the log, the loop and whatever else the process has open: a log that finds none left for its next file stops.
_OTHER_DESCRIPTORS = 48


class AddressRefusedError(FoldbError):
    """The address to listen on can be reached from another machine, and nothing guards it."""


class ListenError(OSError):
    """The port is taken, or the address is not of this machine."""


class Listener:
    """One listening socket and its connections.

    Attributes:
        node: What requests are for.
        guard: Whose signatures are good; None takes any.
        gate: Who may ask.
        slow: What is kept for slow clients.
        turns: When long requests are done.
        tick: Seconds since the start, counted; connections set their deadlines by it.
        date: What answers say in `Date`.
        address: Host and port, once it listens.
        request_log: The log of requests; None without --log-requests.
        depth: Says how many triggers lead to a request from whoever calls himself so; None while none run here.
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
        self.gate = OriginPolicy(
            (settings.host, *settings.allowed_hosts),
            settings.cors,
            scheme="http" if certificate is None else "https",
            any_host=guard is not None,
            network_names=is_open(settings),
        )
        self.slow = BufferBudget(settings.client_buffer_bytes)
        pages = node.partitions.long_reads
        self.turns = FairScheduler(loop, settings.queue_bytes, is_full=lambda: pages.is_full)
        self.tick = 0
        self.date = _date(node.clock())
        self.address: tuple[str, int] = ("", 0)
        self.depth: Callable[[bytes], int] | None = None
        self.request_log = RequestLog(loop, node.clock) if settings.log_requests else None
        self._loop = loop
        self._certificate = certificate
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._connections: dict[Connection, None] = {}  # the oldest first
        self._drained = asyncio.Event()  # the last connection has closed
        self._most = settings.connections
        self._most_of_peer = settings.connections_per_address
        self._peers: Counter[str] = Counter()
        self._spare: list[tuple[int, Connection]] = []  # who may make room, the next one last
        self._requests = 0
        self._id_prefix = node.random_bytes(18).hex().upper()
        self._position: ResultPosition | None = None
        self._position_fields = b""

    async def start(self, bound: socket.socket) -> None:
        """Listen at what `bind` returned, and take no more connections than leave the log its files.

        Raises:
            ListenError: Somebody else has begun to listen there since.
        """
        self._most = max(1, min(self.node.settings.connections, _descriptors() - _OTHER_DESCRIPTORS))
        try:
            self._server = await self._loop.create_server(self._accept, sock=bound, backlog=_BACKLOG)
        except OSError as error:
            raise ListenError(error.errno, error.strerror) from error
        self.address = self._server.sockets[0].getsockname()[:2]
        self._timer = self._loop.call_later(self.node.settings.tick_ms / 1000, self._on_tick)

    async def stop(self, patience_s: float = 5) -> None:
        """Accept nothing more, answer what is under way, close; after `patience_s` close all the same."""
        if self._server is not None:
            self._server.close()
        self._drained.clear()
        for connection in list(self._connections):
            connection.finish()
        if self._connections:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._drained.wait(), patience_s)
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

    def next_turn(self, do: Callable[[], object]) -> None:
        """Have something done in the loop's next turn."""
        self._loop.call_soon(do)

    def opened(self, connection: Connection) -> None:
        """Count a connection in; where there are too many, another one goes, or itself."""
        if len(self._connections) >= self._most and not self._make_room():
            connection.finish()
        self._connections[connection] = None
        if self._most_of_peer:
            peer = connection.peer
            self._peers[peer] += 1
            if self._peers[peer] > self._most_of_peer:
                connection.finish()

    def closed(self, connection: Connection) -> None:
        """Count a connection out."""
        self._connections.pop(connection, None)
        self.slow.forget(connection)
        if self._most_of_peer:
            self._peers[connection.peer] -= 1
        if not self._connections:
            self._drained.set()

    def request_id(self) -> str:
        """A new request id, in the alphabet and length of DynamoDB's."""
        self._requests += 1
        return f"{self._id_prefix}{self._requests:016X}"

    def position_fields(self, position: ResultPosition) -> bytes:
        """The fields that say what an answer is as of; between two writes they are always the same."""
        if position is not self._position:
            self._position = position
            place = position.text(self.node.partitions.count).encode()
            self._position_fields = response.as_of(place, position.time_ms)
        return self._position_fields

    def _make_room(self) -> bool:
        """Close a connection that nothing is owed to, if there is one."""
        if not self._spare:
            waiting = ((one.deadline, one) for one in self._connections if one.deadline < NEVER)
            self._spare = heapq.nsmallest(max(1, self._most // 16), waiting, key=itemgetter(0))
            self._spare.reverse()
        while self._spare:
            deadline, connection = self._spare.pop()
            if connection.deadline == deadline and connection in self._connections:
                connection.give_way()
                return True
        return False

    def _on_tick(self) -> None:
        self.tick += 1
        self.date = _date(self.node.clock())
        late = [connection for connection in self._connections if connection.deadline < self.tick]
        for connection in late:
            connection.expire()
        if self.guard is not None:
            self.guard.reload_if_changed()
        self._timer = self._loop.call_later(self.node.settings.tick_ms / 1000, self._on_tick)


def bind(settings: Settings) -> socket.socket:
    """Take an address without listening there yet: callers are turned away until there is somebody to answer them.

    Raises:
        AddressRefusedError: Other machines could reach it, and nothing guards it.
        ListenError: The port is taken, or the address is not of this machine.
    """
    address = guarded(settings)
    bound = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    try:
        if sys.platform != "win32":  # where it would let two processes listen at one port
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
        bound.bind((address, settings.port))
    except OSError as error:
        bound.close()
        raise ListenError(error.errno, error.strerror) from error
    return bound


def guarded(settings: Settings) -> str:
    """Return the address to listen on.

    Raises:
        AddressRefusedError: The host is a name, or other machines can reach it and neither keys with TLS guard it nor a
            setting allows it without.
    """
    host = settings.host
    if host == "localhost":
        return "127.0.0.1"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise AddressRefusedError(
            f"will not listen on {host}: it is no address. Use 127.0.0.1, ::1 or localhost, or with keys any other."
        ) from None
    if address.is_loopback:
        return host
    if settings.keys is None and not settings.insecure_any_address:
        raise AddressRefusedError(
            f"will not listen on {host}: nothing guards it against other machines. Use 127.0.0.1, ::1 or localhost, "
            "make keys with `foldb key create` and name their file with --keys, or, in a container for development, "
            "say --insecure-any-address."
        )
    if settings.keys is not None and settings.tls_cert is None and not settings.insecure_plaintext:
        raise AddressRefusedError(
            f"will not listen on {host}: without TLS whoever is between can read and change what is sent. Name a "
            "certificate with --tls-cert and --tls-key, or say --insecure-plaintext where something else keeps it."
        )
    return host


def is_open(settings: Settings) -> bool:
    """Return whether other machines can reach the address without a key."""
    return settings.keys is None and settings.host != "localhost" and not is_loopback(settings.host)


def _descriptors() -> int:
    """How many files and sockets this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def _date(time_ms: int) -> bytes:
    return formatdate(time_ms / 1000, usegmt=True).encode()
