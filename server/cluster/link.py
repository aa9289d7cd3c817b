"""A connection to another node, kept for as long as it is of use, over which many calls are under way at once.

    ask ──► sent ──► answered
       │        └──► lost: the connection ended first, so whether it was done is not known
       └──► unsent: there is no connection, nothing was done

The other end is asked for a sign of life twice a second. One that gives none (a process that was stopped, a machine
that is gone) is taken for lost after some seconds, because its sockets say nothing.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from ssl import SSLContext
from typing import Any, Final, NamedTuple, TypeAlias

from ...materializer.partition import ResultPosition
from ...model.errors import FoldbError
from .codec import Plain
from .frames import Frames
from .handshake import NONCE_BYTES, Identity, ProofError, check_proof, hello, proof, read_hello
from .messages import decode_place
from .wire import ANSWERED, NOT_HERE, REVISION, Method, WireError, reading

logger = logging.getLogger(__name__)

Address: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long things may take, in seconds.

    Attributes:
        connect: To connect and to prove who one is.
        beat: Between two signs of life that are asked for.
        silence: Without any, until the other end is taken for lost.
        call: For one call; owners answer within their own, shorter deadlines.
        again: At first between two tries to connect; at most `again_most`.
        retry: How long a request waits for somebody to serve its partition.
        look: How often it looks for one.
    """

    connect: float = 2.0
    beat: float = 0.5
    silence: float = 2.5
    call: float = 30.0
    again: float = 0.05
    again_most: float = 1.0
    retry: float = 10.0
    look: float = 0.02


class Answer(NamedTuple):
    """The result of a call, and what it is true of."""

    result: Any
    place: ResultPosition | None


class NotHere(NamedTuple):
    """The node does not serve that partition; nothing was done."""


class Unsent(NamedTuple):
    """There is no connection, or too much is under way; nothing was done."""

    full: bool = False


class Lost(NamedTuple):
    """Whether it was done is not known."""


Fate: TypeAlias = Answer | NotHere | Unsent | Lost
Done: TypeAlias = Callable[[Fate], None]

# What may be under way on one link.
UNDER_WAY_BYTES: Final = 64 * 1024 * 1024


class _Call(NamedTuple):
    method: Method
    arguments: tuple[Any, ...]
    done: Done
    size: int
    until: float


class Link:
    """Calls to one node.

    Attributes:
        is_up: Whether there is a connection, to a node that has proven itself and shows signs of life.
        is_down: Whether there is none, though it was tried: not the same, at the beginning.
        positions: What the node said last of the partitions that it folds: the offset of the next entry of each.
    """

    def __init__(
        self,
        address: Address,
        identity: Identity,
        loop: asyncio.AbstractEventLoop,
        *,
        random_bytes: Callable[[int], bytes],
        patience: Timeouts,
        on_change: Callable[[], None] = lambda: None,
        tls: SSLContext | None = None,
    ) -> None:
        self.address = address
        self.is_up = self.is_down = False
        self.positions: dict[int, int] = {}
        self._identity = identity
        self._loop = loop
        self._random_bytes = random_bytes
        self.patience = patience
        self._on_change = on_change
        self._tls = tls
        self._connection: _Connection | None = None
        self._why = ""
        self._keeping = loop.create_task(self._keep())

    def ask(self, method: Method, partition: int, arguments: tuple[Any, ...], done: Done) -> None:
        """Make a call; `done` is called once, perhaps before this returns."""
        if self._connection is None or not self.is_up:
            done(Unsent())
        else:
            self._connection.ask(method, partition, arguments, done)

    async def close(self) -> None:
        """End the connection; what is under way is lost."""
        self._keeping.cancel()
        if self._connection is not None:
            self._connection.abort()
        await asyncio.gather(self._keeping, return_exceptions=True)

    async def _keep(self) -> None:
        """Connect, and again whenever the connection is lost."""
        pause = self.patience.again
        while True:
            connection = _Connection(self, self._loop, self._identity, self._random_bytes(NONCE_BYTES))
            try:
                async with asyncio.timeout(self.patience.connect):
                    await self._loop.create_connection(lambda: connection, *self.address, ssl=self._tls)  # noqa: B023
                    await connection.proven
            except (OSError, TimeoutError, FoldbError) as error:
                connection.abort()
                self._tell(error)
                self._changed(None)
                await asyncio.sleep(pause)
                pause = min(2 * pause, self.patience.again_most)
                continue
            pause, self._why = self.patience.again, ""
            self._changed(connection)
            await connection.over
            self._changed(None)

    def _changed(self, connection: "_Connection | None") -> None:
        self._connection = connection
        self.is_up, self.is_down = connection is not None, connection is None
        self._on_change()

    def _tell(self, error: Exception) -> None:
        """Say what is wrong with a node, once; that it cannot be reached is said by `foldb cluster status`."""
        if isinstance(error, FoldbError) and str(error) != self._why:
            self._why = str(error)
            logger.warning("node %s:%d is not called: %s", *self.address, error)


class _Connection(Frames):
    """One connection of a link."""

    def __init__(self, link: Link, loop: asyncio.AbstractEventLoop, identity: Identity, nonce: bytes) -> None:
        super().__init__(loop)
        self.proven: asyncio.Future[None] = loop.create_future()
        self.over: asyncio.Future[None] = loop.create_future()
        self._link = link
        self._identity = identity
        self._nonce = nonce
        self._calls: dict[int, _Call] = {}
        self._number = 0
        self._under_way = 0
        self._heard = loop.time()
        self._beat: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.send([*hello(self._identity, self._nonce), REVISION])

    def received(self, value: Plain) -> None:
        self._heard = self._loop.time()
        if not self.proven.done():
            self._prove(value)
        elif value[0] == 0:
            self._link.positions = dict(value[1])
        else:
            self._answered(*value)

    def _prove(self, value: Plain) -> None:
        nonce, more = read_hello(value, self._identity)
        check_proof(more and more[0], self._identity, "listener", self._nonce, nonce)
        self.trust()
        self.send([proof(self._identity, "caller", self._nonce, nonce)])
        self.proven.set_result(None)
        self._look()

    def ask(self, method: Method, partition: int, arguments: tuple[Any, ...], done: Done) -> None:
        """Send a call."""
        if self._under_way > UNDER_WAY_BYTES:
            done(Unsent(full=True))
            return
        self._number += 1
        size = self.send([self._number, method.code, partition, method.arguments(*arguments)])
        self._under_way += size
        until = self._loop.time() + self._link.patience.call
        self._calls[self._number] = _Call(method, arguments, done, size, until)

    def _answered(
        self, number: int, fate: int, result: Plain, place: Plain, time_ms: int | None = None
    ) -> None:
        call = self._calls.pop(number, None)
        if call is None:
            return  # it had been given up
        self._under_way -= call.size
        if fate == NOT_HERE:
            call.done(NotHere())
        elif fate != ANSWERED:
            call.done(Lost())
        else:
            try:
                value = reading(call.method.read_result, result, call.arguments)
                where = None if place is None else reading(decode_place, place, time_ms)
            except WireError:
                call.done(Lost())
                raise
            call.done(Answer(value, where))

    def _look(self) -> None:
        """Ask for a sign of life; give up what has waited too long, all of it if there was none."""
        now, patience = self._loop.time(), self._link.patience
        if now - self._heard > patience.silence:
            self.abort()
            return
        while self._calls:
            number = next(iter(self._calls))
            if self._calls[number].until > now:
                break
            call = self._calls.pop(number)
            self._under_way -= call.size
            call.done(Lost())
        self.send([0])
        self._beat = self._loop.call_later(patience.beat, self._look)

    def lost(self, why: FoldbError | None) -> None:
        if self._beat is not None:
            self._beat.cancel()
        if not self.proven.done():
            self.proven.set_exception(why or ProofError("the other node ended the connection"))
            self.proven.exception()  # it may be that nobody waits for it any more
        elif why is not None:
            logger.warning("node %s:%d: %s", *self._link.address, why)
        calls, self._calls = self._calls, {}
        if not self.over.done():
            self.over.set_result(None)
        self._link.is_up = False
        for call in calls.values():
            call.done(Lost())
