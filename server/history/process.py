"""The history process, as its server calls it.

read ──► (start the process) ──► sent ──► answered
                                    └──► the process ended: ServiceUnavailable, and the next read starts another
"""

import asyncio
import logging
import socket
import subprocess
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from ...log.commands import Position
from ...materializer.fold.fold_record import Void
from ...materializer.history.history import PartitionCut
from ...materializer.history.requests import PastRead
from ...model.errors import FoldbError, InternalServerError, ServiceUnavailableError
from ...streams.helper_process import start_helper
from ..cluster.codec import PlainValue
from ..cluster.frames import Frames
from ..cluster.messages import decode_result_position
from ..cluster.wire import ANSWERED, AS_OF
from .reader import OnRead
from .worker import NOT_FOLDED, HistoryJob

logger = logging.getLogger(__name__)

_MODULE = "foldb.server.history.worker"
_CLOSE_S = 5.0


class _Call(NamedTuple):
    partition_id: int
    arguments: tuple[PartitionCut, PastRead]
    done: OnRead
    void: Sequence[Void]

    def refuse(self, error: InternalServerError | ServiceUnavailableError) -> None:
        self.done(error, Position(self.partition_id, -1))


class HistoryProcess:
    """A `PastReader` in a process of its own, which starts with the first read.

    Args:
        job: Where the log is.
        loop: The event loop.
    """

    def __init__(self, job: HistoryJob, loop: asyncio.AbstractEventLoop) -> None:
        self._job = job
        self._loop = loop
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: _Connection | None = None
        self._is_closed = False

    def start(self) -> None:
        """Start the process, unless it runs.

        Raises:
            OSError: The system has no room for another process.
        """
        if self._connection is not None or self._is_closed:
            return
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                job = replace(self._job, descriptor=theirs.fileno())
                self._process = start_helper(
                    _MODULE, job.encode(), lambda _: None, lambda _: None, (theirs.fileno(),)
                )
        except OSError:
            ours.close()
            raise
        ours.setblocking(False)
        self._connection = _Connection(self._loop, ours, self._ended)

    def read(
        self, partition_id: int, cut: PartitionCut, read: PastRead, done: OnRead, void: Sequence[Void] = ()
    ) -> None:
        """Read the state of a partition at a cut."""
        call = _Call(partition_id, (cut, read), done, void)
        try:
            self.start()
        except OSError as error:
            logger.error("cannot start the history process: %s; a read of the past fails", error)
        if self._connection is None:
            call.refuse(ServiceUnavailableError())
        else:
            self._connection.call(call)

    def host(self, partition_ids: Collection[int]) -> None:
        """Stop following the other partitions."""
        if self._connection is not None:
            self._connection.keep(partition_ids)

    async def close(self) -> None:
        """End the process, which saves its progress first."""
        self._is_closed = True
        process = self._process
        if process is None or self._connection is None:
            return
        self._connection.end()
        try:
            await asyncio.to_thread(process.wait, _CLOSE_S)
        except subprocess.TimeoutExpired:
            process.kill()

    def _ended(self, connection: "_Connection") -> None:
        """Kill the process, which has closed its socket or sent a malformed frame."""
        assert connection is self._connection
        process, self._process, self._connection = self._process, None, None
        assert process is not None
        if not self._is_closed:
            process.kill()
            logger.warning("the history process has ended; the next read of the past starts another")


class _Connection(Frames):
    """The socket to one process."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, sock: socket.socket, on_end: Callable[["_Connection"], None]
    ) -> None:
        super().__init__(loop)
        self._on_end = on_end
        self._calls: dict[int, _Call] = {}
        self._last_call_id = 0
        self._socket = sock
        self.trust()
        self._task = loop.create_task(self._connect())

    async def _connect(self) -> None:
        await self._loop.create_unix_connection(lambda: self, sock=self._socket)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        for call_id in self._calls:
            self._send(call_id)

    def call(self, call: _Call) -> None:
        """Send a call, now or once the socket is a transport."""
        self._last_call_id += 1
        self._calls[self._last_call_id] = call
        if self._transport is not None:
            self._send(self._last_call_id)

    def keep(self, partition_ids: Collection[int]) -> None:
        """Send the partitions whose histories are kept."""
        if self._transport is not None:
            self.send([0, list(partition_ids)])

    def end(self) -> None:
        """Close the socket, and refuse the calls under way."""
        if self._transport is None:
            self._task.cancel()
            self._socket.close()
            self.on_close(None)
        else:
            self.abort()

    def _send(self, call_id: int) -> None:
        call = self._calls[call_id]
        void = [list(each) for each in call.void]
        self.send([call_id, call.partition_id, AS_OF.arguments(*call.arguments), void])

    def on_frame(self, value: PlainValue) -> None:
        call_id, status, *answer = value
        call = self._calls.pop(call_id)
        if status == NOT_FOLDED:
            call.done(None, Position(call.partition_id, -1))
        elif status != ANSWERED:
            call.refuse(InternalServerError())
        else:
            result, position, time_ms = answer
            found = decode_result_position(position, time_ms)
            assert isinstance(found, Position), "a history is of one partition"
            call.done(AS_OF.read_result(result, call.arguments), found)

    def on_close(self, error: FoldbError | None) -> None:
        if error is not None:
            logger.error("cannot read an answer of the history process: %s", error)
        self._on_end(self)
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.refuse(ServiceUnavailableError())
