"""A connection to another node, which is reconnected whenever it is lost, and carries many calls at once.

    call ──► sent ──► answered
       │        └──► lost: the connection ended first, so it is unknown whether the call was executed
       └──► unsent: there is no connection, and the call was not executed

The caller sends a heartbeat twice a second, and the listener answers with its positions. A node that sends nothing for
some seconds (a stopped process, a machine without power) is considered unreachable: its sockets do not report that.
"""

import asyncio
import logging
from collections.abc import Callable
from ssl import SSLContext
from typing import Any, Final, NamedTuple, TypeAlias

from ...materializer.partition import ResultPosition
from ...model.errors import FoldbError
from ...model.lazy_dataclass import dataclass
from .codec import PlainValue
from .frames import Frames
from .handshake import NONCE_BYTES, Identity, ProofError, check_proof, hello, proof, read_hello
from .messages import decode_result_position
from .wire import ANSWERED, NOT_HERE, REVISION, Method, WireError, reading

logger = logging.getLogger(__name__)

PeerAddress: TypeAlias = tuple[str, int]


def address_text(address: PeerAddress) -> str:
    """Return HOST:PORT."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@dataclass(frozen=True, slots=True)
class Timeouts:
    """The timeouts and intervals of calls between nodes, in seconds.

    Attributes:
        connect: To connect and to authenticate.
        heartbeat: Between two heartbeats.
        silence: Without a frame, until the other node is considered unreachable.
        call: For one call. Owners answer within their own, shorter deadlines.
        reconnect: The first pause between two attempts to connect. It doubles up to `max_reconnect`.
        max_reconnect: The longest pause between two attempts to connect.
        retry: How long a request waits for a node that serves its partition.
        poll: How often it looks for one.
    """

    connect: float = 2.0
    heartbeat: float = 0.5
    silence: float = 2.5
    call: float = 30.0
    reconnect: float = 0.05
    max_reconnect: float = 1.0
    retry: float = 10.0
    poll: float = 0.02


class Answered(NamedTuple):
    """The call was executed. `position` is the position that the result is true of."""

    result: Any
    position: ResultPosition | None


class NotHere(NamedTuple):
    """The node does not serve the partition; the call was not executed."""


class Unsent(NamedTuple):
    """There is no connection, or with `full` too many calls are in flight; the call was not executed."""

    full: bool = False


class Unknown(NamedTuple):
    """The other node runs an earlier release, which does not have the method; the call was not sent."""


class Lost(NamedTuple):
    """It is unknown whether the call was executed."""


CallResult: TypeAlias = Answered | NotHere | Unsent | Unknown | Lost
OnResult: TypeAlias = Callable[[CallResult], None]

MAX_IN_FLIGHT_BYTES: Final = 64 * 1024 * 1024
"""The size of the calls that one link has in flight at most, give or take one."""


class _Call(NamedTuple):
    method: Method
    arguments: tuple[Any, ...]
    on_result: OnResult
    size: int
    deadline: float


class Link:
    """Calls to one node.

    Attributes:
        is_up: Whether there is a connection to an authenticated node that sends heartbeats.
        is_down: Whether the last attempt to connect failed. Before the first attempt neither is true.
        positions: By partition, the offset of the next entry to fold, from the node's last heartbeat.
    """

    def __init__(
        self,
        address: PeerAddress,
        identity: Identity,
        loop: asyncio.AbstractEventLoop,
        *,
        random_bytes: Callable[[int], bytes],
        timeouts: Timeouts,
        on_change: Callable[[], None] = lambda: None,
        tls: SSLContext | None = None,
    ) -> None:
        """Begin to connect. `on_change` is called when the node becomes reachable or unreachable."""
        self.address = address
        self.is_up = self.is_down = False
        self.positions: dict[int, int] = {}
        self._identity = identity
        self._loop = loop
        self._random_bytes = random_bytes
        self.timeouts = timeouts
        self._on_change = on_change
        self._tls = tls
        self._connection: _Connection | None = None
        self._last_error = ""
        self._task = loop.create_task(self._stay_connected())

    def call(
        self, method: Method, partition_id: int, arguments: tuple[Any, ...], on_result: OnResult
    ) -> None:
        """Call a method. `on_result` is called once, perhaps before this returns."""
        if self._connection is None or not self.is_up:
            on_result(Unsent())
        else:
            self._connection.call(method, partition_id, arguments, on_result)

    async def close(self) -> None:
        """Close the connection. The calls in flight are Lost."""
        self._task.cancel()
        if self._connection is not None:
            self._connection.abort()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _stay_connected(self) -> None:
        pause = self.timeouts.reconnect
        while True:
            connection = _Connection(self, self._loop, self._identity, self._random_bytes(NONCE_BYTES))
            try:
                async with asyncio.timeout(self.timeouts.connect):
                    await self._loop.create_connection(lambda: connection, *self.address, ssl=self._tls)  # noqa: B023
                    await connection.authenticated
            except asyncio.CancelledError:
                connection.abort()  # `close` knows a connection only after it is authenticated
                raise
            except (OSError, TimeoutError, FoldbError) as error:
                connection.abort()
                self._log(error)
                self._changed(None)
                await asyncio.sleep(pause)
                pause = min(2 * pause, self.timeouts.max_reconnect)
                continue
            pause, self._last_error = self.timeouts.reconnect, ""
            self._changed(connection)
            await connection.closed
            self._changed(None)

    def _changed(self, connection: "_Connection | None") -> None:
        self._connection = connection
        self.is_up, self.is_down = connection is not None, connection is None
        self._on_change()

    def _log(self, error: Exception) -> None:
        """Log a failed authentication, once. `foldb cluster status` shows which nodes are unreachable."""
        if isinstance(error, FoldbError) and str(error) != self._last_error:
            self._last_error = str(error)
            logger.warning("cannot call node %s:%d: %s; retrying", *self.address, error)


class _Connection(Frames):
    """One connection of a link."""

    def __init__(self, link: Link, loop: asyncio.AbstractEventLoop, identity: Identity, nonce: bytes) -> None:
        super().__init__(loop)
        self.authenticated: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self._link = link
        self._identity = identity
        self._nonce = nonce
        self._revision = 0
        self._calls: dict[int, _Call] = {}
        self._last_call_id = 0
        self._in_flight_bytes = 0
        self._received_at = loop.time()
        self._heartbeat: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.send([*hello(self._identity, self._nonce), REVISION])

    def on_frame(self, value: PlainValue) -> None:
        self._received_at = self._loop.time()
        if self.authenticated.cancelled():
            return  # the link has given the connection up, and aborts it in its next turn
        if not self.authenticated.done():
            self._authenticate(value)
        elif value[0] == 0:
            self._link.positions = dict(value[1])
        else:
            self._on_answer(*value)

    def _authenticate(self, value: PlainValue) -> None:
        nonce, more = read_hello(value, self._identity)
        check_proof(more and more[0], self._identity, "listener", self._nonce, nonce)
        self._revision = reading(int, more[1]) if len(more) > 1 else 0
        self.trust()
        self.send([proof(self._identity, "caller", self._nonce, nonce)])
        self.authenticated.set_result(None)
        self._beat()

    def call(
        self, method: Method, partition_id: int, arguments: tuple[Any, ...], on_result: OnResult
    ) -> None:
        if self._in_flight_bytes > MAX_IN_FLIGHT_BYTES:
            on_result(Unsent(full=True))
            return
        if method.since > self._revision:
            on_result(Unknown())
            return
        self._last_call_id += 1
        size = self.send([self._last_call_id, method.code, partition_id, method.arguments(*arguments)])
        self._in_flight_bytes += size
        deadline = self._loop.time() + self._link.timeouts.call
        self._calls[self._last_call_id] = _Call(method, arguments, on_result, size, deadline)

    def _on_answer(
        self, call_id: int, status: int, result: PlainValue, position: PlainValue, time_ms: int | None = None
    ) -> None:
        call = self._calls.pop(call_id, None)
        if call is None:
            return  # its deadline has passed
        self._in_flight_bytes -= call.size
        if status == NOT_HERE:
            call.on_result(NotHere())
        elif status != ANSWERED:
            call.on_result(Lost())
        else:
            try:
                value = reading(call.method.read_result, result, call.arguments)
                decoded = None if position is None else reading(decode_result_position, position, time_ms)
            except WireError:
                call.on_result(Lost())
                raise
            call.on_result(Answered(value, decoded))

    def _beat(self) -> None:
        """Send a heartbeat, and end the calls whose deadline has passed, or all if the other node is silent."""
        now, timeouts = self._loop.time(), self._link.timeouts
        if now - self._received_at > timeouts.silence:
            self.abort()
            return
        while self._calls:
            call_id = next(iter(self._calls))
            if self._calls[call_id].deadline > now:
                break
            call = self._calls.pop(call_id)
            self._in_flight_bytes -= call.size
            call.on_result(Lost())
        self.send([0])
        self._heartbeat = self._loop.call_later(timeouts.heartbeat, self._beat)

    def on_close(self, error: FoldbError | None) -> None:
        if self._heartbeat is not None:
            self._heartbeat.cancel()
        if not self.authenticated.done():
            self.authenticated.set_exception(error or ProofError("the other node ended the connection"))
            self.authenticated.exception()  # retrieve it: the task that awaits it may be cancelled
        elif error is not None:
            logger.warning("closed the connection to node %s:%d: %s", *self._link.address, error)
        calls, self._calls = self._calls, {}
        if not self.closed.done():
            self.closed.set_result(None)
        self._link.is_up = False
        for call in calls.values():
            call.on_result(Lost())
