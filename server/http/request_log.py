"""The request log of `--log-requests` and `--slow-log`: one line of JSON for each request, or each slow one, on stderr.

    connection ──begin──► Record ──end──► RequestLog ──lines──► thread ──► stderr

A pipe with a slow reader blocks its writer, so a thread writes, and the event loop only appends to a buffer. The
buffer is bounded: lines past the bound are dropped and counted, and a line with the count follows when there is space.

A line has names, sizes and times. It has no item, no query string, no message of an error (which can repeat a value of
the request), no secret and no signature.
"""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import Any

import orjson

from ...model.tables import name_of
from ..api.reply import access_key
from ..auth.rights import EVERYTHING, NODE, Demand
from . import response
from .request_head import RequestHead

STDERR = 2
# Writes of up to this size to a pipe are atomic on Linux, so no line is split by a message of another thread.
LINE_BYTES = 4096
TABLES = 10
BUFFER_BYTES = 8 * 1024 * 1024
# Each write wakes a thread that competes with the event loop for the interpreter: one per interval costs little.
FLUSH_S = 0.05
# At the end of the process the writer may wait this long for a reader of stderr that has stopped.
CLOSE_S = 1.0

_TEXT = 128  # of an operation, path or access key id
_TABLE = 255


class RequestRecord:
    """A request in flight.

    Attributes:
        bytes_in: The received bytes of its head and body.
        access_key: The id of the key that it names.
        tables: The names of its tables, once its body is parsed.
        error: The name of the error in its answer; without one, the line names the error after the status.
        half_units: The consumed half units of all its tables and indexes.
    """

    __slots__ = (
        "access_key",
        "began",
        "bytes_in",
        "error",
        "half_units",
        "method",
        "operation",
        "path",
        "peer",
        "tables",
    )

    def __init__(self, peer: str, head: RequestHead | None, bytes_in: int, began: float) -> None:
        self.peer = peer
        self.bytes_in = bytes_in
        self.began = began
        self.tables: list[str] = []
        self.error: str | None = None
        self.half_units = 0
        self.method: str | None = None
        self.path: str | None = None
        self.operation: str | None = None
        self.access_key: str | None = None
        if head is not None:
            self.method = _text(head.method)
            self.path = _text(head.path.partition(b"?")[0])
            self.operation = _text(head.fields.get(b"x-amz-target", b"").rpartition(b".")[2]) or None
            self.access_key = access_key(head.fields.get(b"authorization", b""))

    def note(self, demands: Iterable[Demand]) -> None:
        """Record the names of the tables in the rights that the request needs."""
        names: dict[str, None] = {}
        for demand in demands:
            table = demand[2]
            if table is not NODE and table != EVERYTHING and len(names) < TABLES:
                names[name_of(table)[:_TABLE]] = None
        self.tables = list(names)


class RequestLog:
    """Writes a line for each request that has ended."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], int],
        *,
        at_least_ms: int = 0,
        descriptor: int = STDERR,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Write requests of at least a duration to `descriptor`.

        `clock` returns milliseconds since 1970, `timer` seconds.
        """
        self._at_least_ms = at_least_ms
        self._loop = loop
        self._clock = clock
        self._timer = timer
        self._descriptor = descriptor
        self._second = -1
        self._second_text = ""
        self._lines: list[bytes] = []
        self._queue: SimpleQueue[list[bytes] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        # Each of these is written by one thread alone.
        self._queued_bytes = 0
        self._overflowed = 0
        self._reported = 0
        self._done_bytes = 0
        self._failed = 0

    def begin(self, peer: str, head: RequestHead | None, bytes_in: int) -> RequestRecord:
        """Return the record of a request that begins; the head is None where it could not be read."""
        return RequestRecord(peer, head, bytes_in, self._timer())

    def end(
        self,
        record: RequestRecord,
        status: int | None,
        bytes_out: int,
        request_id: str | None,
        position: str | None,
    ) -> None:
        """Log a request that was answered; the status is None where its connection was closed without an answer."""
        duration_ms = (self._timer() - record.began) * 1000
        if duration_ms < self._at_least_ms:
            return
        line: dict[str, Any] = {
            "time": self._time(),
            "request_id": request_id,
            "peer": record.peer,
            "access_key": None if record.access_key is None else record.access_key[:_TEXT],
            "method": record.method,
            "path": record.path,
            "operation": record.operation,
            "tables": record.tables,
            "status": status,
            "error": record.error or _error(status),
            "bytes_in": record.bytes_in,
            "bytes_out": bytes_out,
            "duration_ms": round(duration_ms, 3),
            "units": record.half_units / 2 or None,
            "position": position,
        }
        data = orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
        if len(data) > LINE_BYTES:
            data = orjson.dumps(line | {"tables": []}, option=orjson.OPT_APPEND_NEWLINE)
        self._append(data)

    def close(self) -> None:
        """Write all lines, unless stderr blocks for a second."""
        self._flush()
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(CLOSE_S)
            self._thread = None

    def _time(self) -> str:
        second, milliseconds = divmod(self._clock(), 1000)
        if second != self._second:
            self._second = second
            self._second_text = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return f"{self._second_text}.{milliseconds:03d}Z"

    def _append(self, line: bytes) -> None:
        if self._queued_bytes - self._done_bytes + len(line) > BUFFER_BYTES:
            self._overflowed += 1
            return
        dropped = self._overflowed + self._failed - self._reported
        if dropped:
            self._reported += dropped
            notice = orjson.dumps(
                {"time": self._time(), "dropped": dropped}, option=orjson.OPT_APPEND_NEWLINE
            )
            self._lines.append(notice)
            self._queued_bytes += len(notice)
        if not self._lines:
            self._loop.call_later(FLUSH_S, self._flush)
        self._lines.append(line)
        self._queued_bytes += len(line)

    def _flush(self) -> None:
        if not self._lines:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._write, name="foldb request log", daemon=True)
            self._thread.start()
        self._queue.put(self._lines)
        self._lines = []

    # In the thread

    def _write(self) -> None:
        while (lines := self._queue.get()) is not None:
            for block in _blocks(lines):
                try:
                    _write_whole(self._descriptor, block)
                except OSError:  # stderr cannot say so; a later line has the count
                    self._failed += block.count(b"\n")
                self._done_bytes += len(block)


def _blocks(lines: list[bytes]) -> Iterator[bytes]:
    """Yield the lines in blocks of at most LINE_BYTES."""
    first = size = 0
    for at, line in enumerate(lines):
        size += len(line)
        if size > LINE_BYTES:
            yield b"".join(lines[first:at])
            first, size = at, len(line)
    yield b"".join(lines[first:])


def _write_whole(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _error(status: int | None) -> str | None:
    if status is None:
        return "ConnectionClosed"
    if status < 400:
        return None
    return response.REASONS[status].replace(b" ", b"").decode()


def _text(data: bytes) -> str:
    return data[:_TEXT].decode("latin-1")
