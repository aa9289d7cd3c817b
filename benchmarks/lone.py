"""A client with one connection that times each request.

It sends prepared bytes on a blocking socket, so a request costs it about ten microseconds, and bursts of one process on
several servers can take turns within milliseconds.

Linux counts the time in which a thread was ready to run and another one had the core (schedstat). On a shared machine
this time is most of a p99. So a latency is also given without the time in which the client and the threads of its
server waited for a core. Threads that waited at once count twice, so it is compared within one server alone.
"""

import json
import os
import random
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from .requests import HEADERS, PER_COLLECTION, item

Operation: TypeAlias = Callable[[str, str], tuple[str, dict[str, Any]]]

_REQUESTS = 1000
_SEED = 20261124


def put(pk: str, sk: str) -> tuple[str, dict[str, Any]]:
    """Return the request that puts an item."""
    return "PutItem", {"TableName": "orders", "Item": item(pk, sk)}


def get(pk: str, sk: str) -> tuple[str, dict[str, Any]]:
    """Return the request that gets an item."""
    return "GetItem", {"TableName": "orders", "Key": {"pk": {"S": pk}, "sk": {"S": sk}}}


class Timed(NamedTuple):
    """A request, in nanoseconds.

    Attributes:
        began: The time before it was sent.
        ended: The time after its answer was received.
        waited: The time in which the client and the threads of the server waited for a core.
    """

    began: int
    ended: int
    waited: int

    @property
    def ms(self) -> float:
        return (self.ended - self.began) / 1e6

    @property
    def running_ms(self) -> float:
        """The milliseconds without those in which a core was missing."""
        return max(0, self.ended - self.began - self.waited) / 1e6


class LoneClient:
    """One connection with one request in flight, over random keys of the load's table.

    Args:
        pid: The server's process.
    """

    def __init__(self, url: str, pid: int, operation: Operation, keys: int) -> None:
        self._pid = pid
        address = url.removeprefix("http://")
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        dice = random.Random(_SEED)  # noqa: S311  the same load in each run
        self._requests = [
            _encoded(
                address,
                *operation(f"user#{dice.randint(1, keys)}", f"order#{dice.randint(1, PER_COLLECTION)}"),
            )
            for _ in range(_REQUESTS)
        ]
        self._next = 0

    def __enter__(self) -> "LoneClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, count: int) -> list[Timed]:
        """Send N requests, each after the answer to the one before."""
        taken = []
        clock, send, receive = time.perf_counter_ns, self._socket.sendall, self._socket.recv
        waits = _Waits(self._pid)
        before = waits.read()
        for place in range(self._next, self._next + count):
            request = self._requests[place % _REQUESTS]
            began = clock()
            send(request)
            answer = receive(65536)
            ended = clock()
            after = waits.read()
            taken.append(Timed(began, ended, after - before))
            before = after
            if not answer.startswith(b"HTTP/1.1 200"):
                raise SystemExit(f"benchmarks: {answer!r}")
        waits.close()
        self._next += count
        return taken


class _Waits:
    """The time in which this thread and the threads of a server have waited for a core."""

    def __init__(self, pid: int) -> None:
        tasks = [*Path(f"/proc/{pid}/task").iterdir(), Path(f"/proc/self/task/{threading.get_native_id()}")]
        self._files = []
        for task in tasks:
            with suppress(FileNotFoundError):  # the thread has ended
                self._files.append(os.open(task / "schedstat", os.O_RDONLY))

    def read(self) -> int:
        """Return nanoseconds."""
        total = 0
        for file in self._files:
            with suppress(ProcessLookupError):
                total += int(os.pread(file, 64, 0).split()[1])
        return total

    def close(self) -> None:
        for file in self._files:
            os.close(file)


def _encoded(address: str, operation: str, body: dict[str, Any]) -> bytes:
    content = json.dumps(body, separators=(",", ":")).encode()
    head = {**HEADERS, "Host": address, "Content-Length": len(content)}
    head["X-Amz-Target"] = f"DynamoDB_20120810.{operation}"
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    return f"POST / HTTP/1.1\r\n{lines}\r\n".encode() + content
