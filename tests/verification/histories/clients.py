"""Clients that send random requests and record the answers, until their server dies.

    draw ──► send ──► answer ──► history ──► draw ...

One thread with one loop serves all clients; each has a connection with one request in flight. So concurrent requests
were in flight at the same time, and all times are of one clock.
"""

import asyncio
import random
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import orjson

from tests.support.raw import SIGNED, ask
from tests.support.tables import table_request
from tests.verification.histories import wire
from tests.verification.histories.history import History, Operation, Step, apart, position
from tests.verification.histories.workload import Workload

_PATIENCE_S = 60
_PAUSE_S = 0.01  # after a retryable error

_HEAD = (
    "POST / HTTP/1.1\r\n"
    "Host: {host}\r\n"
    "Content-Type: application/x-amz-json-1.0\r\n"
    f"Authorization: {SIGNED}\r\n"
    "X-Amz-Target: DynamoDB_20120810.{operation}\r\n"
    "Content-Length: {length}\r\n\r\n"
)


def create(url: str) -> None:
    """Create the table of the histories."""
    assert ask(url, "CreateTable", table_request(wire.TABLE, "pk:S")).status == 200


class Clients:
    """Send requests to `url` from the start of the block to its end, or until the server does not answer.

    Args:
        history: Receives the operations.
        run: The number of restarts of the server since the history began. Further clients may join a run, one after
            the other, while its server lives.
        keys: The number of registers they share; lists and accounts are in addition.
        transactions: The share of requests that are transactions.
        draw: Returns the next request.
        seed: Seeds the requests; their concurrency is not repeatable.
    """

    def __init__(
        self,
        history: History,
        url: str,
        *,
        run: int = 0,
        clients: int = 16,
        keys: int = 1000,
        seed: int = 0,
        transactions: float = 0.12,
        draw: Callable[[Workload], tuple[Step, ...]] = Workload.draw,
    ) -> None:
        self.history = history
        self.host = urlsplit(url).netloc
        self.dice = random.Random(f"{seed} {run}")
        self.workload = Workload(history, self.dice, keys, transactions)
        self.draw = draw
        self.stopped = False
        self._run = run
        self._clients = clients
        self._answers = 0
        self._enough = 0  # the number of answers that `wait_for` waits for
        self._ended = False
        self._failure: BaseException | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Self:
        self.history.begin(self._run, time.monotonic_ns())
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopped = True
        self.join()

    def join(self) -> None:
        """Wait until all clients have stopped."""
        self._thread.join(_PATIENCE_S)
        assert not self._thread.is_alive(), "a request was never answered"
        if self._failure is not None:
            raise self._failure

    def wait_for(self, answers: int) -> None:
        """Wait for this number of further answers of any kind."""
        with self._changed:
            self._enough = enough = self._answers + answers
            self._changed.wait_for(lambda: self._answers >= enough or self._ended, _PATIENCE_S)
            assert self._answers >= enough, f"{self._answers} of {enough} answers: {self._failure}"

    def answered(self, operation: Operation) -> None:
        """Record an operation that ended; called by a connection."""
        self.history.operations += apart(operation) if self.history.several else [operation]
        self.workload.saw(operation)
        if operation.answered is not None:
            with self._changed:
                self._answers += 1
                if self._answers == self._enough:
                    self._changed.notify_all()

    def failed(self, error: BaseException) -> None:
        """Stop all clients after an unexpected error, which `join` raises; called by a connection."""
        self._failure = self._failure or error
        self.stopped = True

    def _serve(self) -> None:
        try:
            asyncio.run(self._connect())
        except BaseException as error:
            self.failed(error)
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        connections = [_Connection(self, client, loop) for client in range(self._clients)]
        for connection in connections:
            await connection.open()
        await asyncio.gather(*(connection.gone for connection in connections))


class _Connection(asyncio.Protocol):
    """One client: it sends the next request after each answer."""

    def __init__(self, clients: Clients, client: int, loop: asyncio.AbstractEventLoop) -> None:
        self.gone: asyncio.Future[None] = loop.create_future()
        self._clients = clients
        self._client = client
        self._loop = loop
        self._transport: Any = None
        self._steps: tuple[Step, ...] | None = None  # the request in flight
        self._called = 0
        self._received = b""

    async def open(self) -> None:
        """Connect, if the server listens."""
        host, port = self._clients.host.split(":")
        try:
            await self._loop.create_connection(lambda: self, host, int(port))
        except OSError:
            self.gone.set_result(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(None, None)
        if not self.gone.done():
            self.gone.set_result(None)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        if not found or len(body) < int(_field(head, b"content-length")):
            return
        now = time.monotonic_ns()
        self._received = b""
        try:
            self._take(now, int(head[9:12]), head, body)
        except BaseException as error:
            self._clients.failed(error)
            self._transport.abort()

    def _ask(self) -> None:
        if self._clients.stopped or self._transport.is_closing():
            self._transport.abort()
            return
        self._steps = self._clients.draw(self._clients.workload)
        consistent = self._clients.dice.random() < 0.5
        if self._clients.history.several and self._steps[0].key[0] != "r":
            consistent = True
        operation, request = wire.request(self._steps, consistent)
        body = orjson.dumps(request)
        head = _HEAD.format(host=self._clients.host, operation=operation, length=len(body))
        self._called = time.monotonic_ns()
        self._transport.write(head.encode() + body)

    def _take(self, now: int, status: int, head: bytes, body: bytes) -> None:
        assert self._steps is not None, "an answer to no request"
        if status == 500:
            self._end(None, None)  # it is unknown whether it was applied
            self._loop.call_later(_PAUSE_S, self._ask)
            return
        reported = wire.reported(self._steps, status, orjson.loads(body))
        if reported is not None:
            self._steps, reported = wire.read_part(self._steps, reported)
        if reported is None:
            self._end(now, None)
            self._loop.call_later(_PAUSE_S, self._ask)
            return
        self._end(now, reported, position(_field(head, b"x-foldb-position").decode()))
        self._ask()

    def _end(self, now: int | None, reported: tuple[Any, ...] | None, place: int = -1) -> None:
        """Record the result of the request in flight, if there is one."""
        if self._steps is not None:
            steps, self._steps = self._steps, None
            self._clients.answered(Operation(self._client, self._called, now, steps, reported, place))


def _field(head: bytes, name: bytes) -> bytes:
    """Return a header's value, for any spelling of its name."""
    start = head.lower().index(b"\r\n" + name + b":") + len(name) + 3
    return head[start:].partition(b"\r\n")[0].strip()
