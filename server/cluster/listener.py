"""The listener for other nodes: it executes their calls on the partitions that this node folds.

A caller that does not authenticate itself within some seconds is disconnected, and may send at most a few hundred bytes
before. The listener stops reading from a caller that does not read its answers.
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
from .codec import PlainValue
from .frames import Frames
from .handshake import NONCE_BYTES, Identity, check_proof, hello, proof, read_hello
from .link import PeerAddress
from .messages import encode_position
from .node_calls import NodeHandlers
from .wire import ANSWERED, CALL, FAILED, FEED, METHODS, NODE, NOT_HERE, REVISION, WireError, reading

logger = logging.getLogger(__name__)

_AUTHENTICATION_S: Final = 5.0
# A read of a feed waits for changes, and a node itself may work for seconds: they do not delay a node that leaves.
_LONG: Final = (FEED, CALL)
_MAX_UNAUTHENTICATED: Final = 64  # connections


class ServedNode(NamedTuple):
    """The node that a listener serves.

    Attributes:
        partition: Returns the partition of that id if this node can serve it now.
        figures: Returns the state of the node, for `foldb cluster status`.
        positions: Returns the offset of the next entry of each partition that this node folds.
        calls: Handles the calls to the node itself.
    """

    partition: Callable[[int], Partition | None]
    figures: Callable[[], PlainValue]
    positions: Callable[[], dict[int, int]]
    limits: Limits
    calls: NodeHandlers | None = None


class PeerListener:
    """Listens for other nodes.

    Attributes:
        busy: The number of unanswered calls, without those that may take long (`_LONG`).
    """

    def __init__(
        self,
        served: ServedNode,
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
        self.unauthenticated = 0
        self.callers: set[_Caller] = set()
        self._loop = loop
        self._tls = tls
        self._server: asyncio.Server | None = None

    async def start(self, address: PeerAddress) -> PeerAddress:
        """Listen, and return the address, in which a free port replaces port 0.

        Raises:
            OSError: The address cannot be bound.
        """
        self._server = await self._loop.create_server(
            lambda: _Caller(self, self._loop), *address, ssl=self._tls
        )
        host, port = self._server.sockets[0].getsockname()[:2]
        return host, port

    async def close(self) -> None:
        """Refuse further calls and close all connections."""
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
        self._is_authenticated = False
        self._reads_time = False  # a caller of an earlier release reads no log time in answers
        self._timeout: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        listener = self._listener
        listener.callers.add(self)
        listener.unauthenticated += 1
        if listener.unauthenticated > _MAX_UNAUTHENTICATED:
            self.abort()
        else:
            self._timeout = self._loop.call_later(_AUTHENTICATION_S, self.abort)

    def on_frame(self, value: PlainValue) -> None:
        if not self._is_authenticated:
            self._authenticate(value)
        elif value == [0]:
            self.send([0, list(self._listener.served.positions().items())])
        else:
            self._on_call(value)

    def _authenticate(self, value: PlainValue) -> None:
        listener = self._listener
        identity = listener.identity
        if self._nonces is None:
            theirs, revision = read_hello(value, identity)
            self._reads_time = bool(revision) and reading(int, revision[0]) >= 1
            ours = listener.random_bytes(NONCE_BYTES)
            self._nonces = theirs, ours
            self.send([*hello(identity, ours), proof(identity, "listener", theirs, ours), REVISION])
        else:
            check_proof(isinstance(value, list) and value and value[0], identity, "caller", *self._nonces)
            self._is_authenticated = True
            listener.unauthenticated -= 1
            if self._timeout is not None:
                self._timeout.cancel()
            self.trust()

    def _on_call(self, value: PlainValue) -> None:
        call_id, method, partition_id, arguments = reading(_envelope, value)
        served = self._listener.served
        if method is NODE:
            self.send([call_id, ANSWERED, served.figures(), None])
            return
        target: Any = served.calls if method is CALL else served.partition(partition_id)
        if target is None:
            self.send([call_id, NOT_HERE, None, None])
            return
        try:
            decoded = reading(method.read_arguments, arguments, served.limits)
        except WireError as error:
            logger.warning("cannot read a call for partition %d: %s; it fails", partition_id, error)
            self.send([call_id, FAILED, None, None])
            return
        if method not in _LONG:
            self._listener.busy += 1
        getattr(target, method.name)(*decoded, partial(self._answer, call_id, method))

    def _answer(self, call_id: int, method: Any, result: Any, position: ResultPosition | None = None) -> None:
        if method not in _LONG:
            self._listener.busy -= 1
        if self._transport is None:
            return
        try:
            encoded = None if position is None else encode_position(position)
            answer = [call_id, ANSWERED, method.result(result), encoded]
            self.send([*answer, position.time_ms] if self._reads_time and position is not None else answer)
        except WireError as error:
            logger.error("cannot send an answer: %s; the call fails", error)
            self.send([call_id, FAILED, None, None])

    def pause_writing(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    def on_close(self, error: FoldbError | None) -> None:
        listener = self._listener
        listener.callers.discard(self)
        if not self._is_authenticated:
            listener.unauthenticated -= 1
        if self._timeout is not None:
            self._timeout.cancel()
        if error is not None:
            logger.warning("closed the connection of another node: %s", error)


def _envelope(value: PlainValue) -> tuple[int, Any, int, PlainValue]:
    call_id, method, partition_id, arguments = value
    return int(call_id), METHODS[method], int(partition_id), arguments
