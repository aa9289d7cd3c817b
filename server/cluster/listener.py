"""Where other nodes call: their calls are made of the partitions that this node folds, and answered.

Who does not prove within some seconds that it knows the cluster's secret is cut off, and before that it is read no
more than a few hundred bytes from. A node that does not read its answers is not read from either.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from ssl import SSLContext
from typing import Any, Final, NamedTuple

from ...materializer.partition import Partition, ResultPosition
from ...model.errors import FoldbError
from ...model.limits import Limits
from . import messages
from .codec import Plain
from .frames import Frames
from .handshake import NONCE_BYTES, Identity, check_proof, hello, proof, read_hello
from .link import Address
from .wire import ANSWERED, FAILED, FEED, METHODS, NODE, NOT_HERE, WireError, reading

logger = logging.getLogger(__name__)

_PROOF_S: Final = 5.0
_STRANGERS: Final = 64  # connections that have proven nothing yet


class Served(NamedTuple):
    """What callers are given.

    Attributes:
        here: The partition of that number, if this node can serve it now.
        figures: How the node is, for those who ask about the cluster.
        positions: The offset of the next entry of each partition that this node folds.
        limits: Those of the log.
    """

    here: Callable[[int], Partition | None]
    figures: Callable[[], Plain]
    positions: Callable[[], dict[int, int]]
    limits: Limits


class PeerListener:
    """Listens for other nodes.

    Attributes:
        busy: How many calls have not been answered yet, but for those that may wait for a change.
    """

    def __init__(
        self,
        served: Served,
        identity: Identity,
        loop: asyncio.AbstractEventLoop,
        *,
        random_bytes: Callable[[int], bytes],
        tls: SSLContext | None = None,
    ) -> None:
        self.served = served
        self.identity = identity
        self.random_bytes = random_bytes
        self.busy = 0
        self.strangers = 0
        self.callers: set[_Caller] = set()
        self._loop = loop
        self._tls = tls
        self._server: asyncio.Server | None = None

    async def start(self, address: Address) -> Address:
        """Listen; the address that it got, where port 0 took a free one.

        Raises:
            OSError: It cannot listen there.
        """
        self._server = await self._loop.create_server(
            lambda: _Caller(self, self._loop), *address, ssl=self._tls
        )
        host, port = self._server.sockets[0].getsockname()[:2]
        return host, port

    async def close(self) -> None:
        """Take no more calls and end all connections."""
        if self._server is not None:
            self._server.close()
        for caller in tuple(self.callers):
            caller.finish()
        if self._server is not None:
            await self._server.wait_closed()


class _Caller(Frames):
    """A connection that another node made."""

    def __init__(self, listener: PeerListener, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._listener = listener
        self._nonces: tuple[bytes, bytes] | None = None
        self._is_proven = False
        self._reads_time = False  # a caller of an earlier release reads no log time in answers
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        listener = self._listener
        listener.callers.add(self)
        listener.strangers += 1
        if listener.strangers > _STRANGERS:
            self.abort()
        else:
            self._late = self._loop.call_later(_PROOF_S, self.abort)

    def received(self, value: Plain) -> None:
        if not self._is_proven:
            self._prove(value)
        elif value == [0]:
            self.send([0, list(self._listener.served.positions().items())])
        else:
            self._called(value)

    def _prove(self, value: Plain) -> None:
        listener = self._listener
        identity = listener.identity
        if self._nonces is None:
            theirs, revision = read_hello(value, identity)
            self._reads_time = bool(revision) and reading(int, revision[0]) >= 1
            ours = listener.random_bytes(NONCE_BYTES)
            self._nonces = theirs, ours
            self.send([*hello(identity, ours), proof(identity, "listener", theirs, ours)])
        else:
            check_proof(isinstance(value, list) and value and value[0], identity, "caller", *self._nonces)
            self._is_proven = True
            listener.strangers -= 1
            if self._late is not None:
                self._late.cancel()
            self.trust()

    def _called(self, value: Plain) -> None:
        number, method, partition, arguments = reading(_envelope, value)
        served = self._listener.served
        if method is NODE:
            self.send([number, ANSWERED, served.figures(), None])
            return
        target = served.here(partition)
        if target is None:
            self.send([number, NOT_HERE, None, None])
            return
        try:
            asked = reading(method.read_arguments, arguments, served.limits)
        except WireError as error:
            logger.warning("a call for partition %d cannot be read: %s", partition, error)
            self.send([number, FAILED, None, None])
            return
        if method is not FEED:
            self._listener.busy += 1
        getattr(target, method.name)(*asked, partial(self._answer, number, method))

    def _answer(self, number: int, method: Any, result: Any, place: ResultPosition | None = None) -> None:
        if method is not FEED:
            self._listener.busy -= 1
        if self._transport is None:
            return
        try:
            where = None if place is None else messages.encode_place(place)
            answer = [number, ANSWERED, method.result(result), where]
            self.send([*answer, place.time_ms] if self._reads_time and place is not None else answer)
        except WireError as error:
            logger.error("an answer cannot be sent: %s", error)
            self.send([number, FAILED, None, None])

    def pause_writing(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    def lost(self, why: FoldbError | None) -> None:
        listener = self._listener
        listener.callers.discard(self)
        if not self._is_proven:
            listener.strangers -= 1
        if self._late is not None:
            self._late.cancel()
        if why is not None:
            logger.warning("a connection from another node was ended: %s", why)


def _envelope(value: Plain) -> tuple[int, Any, int, Plain]:
    number, method, partition, arguments = value
    return int(number), METHODS[method], int(partition), arguments
