"""One worker from the server's side: a group of processes that handles one request at a time and is killed as a whole.

    start ──► request ──► answer, request ──► answer ...     EndedError: it ended, or was killed after a timeout

A worker cannot block the server's loop: requests and answers go over a socket, its output is read and mostly dropped,
and a thread waits for its end.
"""

import asyncio
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from ...model.errors import FoldbError
from .frames import LENGTH, WorkerMessage, decode, encode
from .runtime.supervisor import END, STACKS

_READ_BYTES: Final = 64 * 1024
_MAX_READS: Final = 16
_MAX_LOGGED_BYTES: Final = 64 * 1024
_TAIL_BYTES: Final = 8 * 1024
_MAX_ANSWER_BYTES: Final = 16 << 20
_STACKS_S: Final = 0.25
_END_S: Final = 10.0  # a supervisor ends in milliseconds, unless user code has stopped it

# Frames of a stack that belong to the worker runtime.
_OURS = re.compile(r'^  File "([^"]*/streams/workers/runtime/\w+\.py|<frozen runpy>)", line \d+ in ')

logger = logging.getLogger("foldb.triggers")
logger.setLevel(logging.INFO)  # the output of triggers is shown with the server's messages


class EndedError(FoldbError):
    """The worker process has ended. `tail` is the end of its output."""

    def __init__(self, reason: str, tail: str) -> None:
        super().__init__(reason)
        self.tail = tail


class WorkerOutput:
    """The output of a worker: the start of each call's output is logged, the end is kept, the rest is dropped."""

    def __init__(self, descriptor: int, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self._descriptor = descriptor
        self._name = name
        self._loop = loop
        self._tail = b""
        self._line = b""  # the unfinished line
        self._room = _MAX_LOGGED_BYTES
        self._is_open = True
        os.set_blocking(descriptor, False)
        loop.add_reader(descriptor, self._read)

    def begin(self) -> None:
        self._end_line()
        self._tail = b""
        self._room = _MAX_LOGGED_BYTES

    def quiet(self) -> None:
        """Log nothing more of this call's output."""
        self._room = 0

    def tail(self) -> str:
        """Return the end of the output since the call began."""
        self._drain()
        self._end_line()
        return self._tail.decode(errors="replace")

    def close(self) -> None:
        """Read the rest of the output and stop reading."""
        self._drain()
        self._end_line()
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._descriptor)

    def _drain(self) -> None:
        for _ in range(_MAX_READS):
            if not self._is_open or not self._read():
                return

    def _read(self) -> bool:
        """Read once. Return whether there was output."""
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._is_open = False
            self._loop.remove_reader(self._descriptor)
            return False
        self._tail = (self._tail + data)[-_TAIL_BYTES:]
        if self._room > 0:
            self._log(data[: self._room])
            self._room -= len(data)
            if self._room <= 0:
                logger.info("%s: the rest of this call's output is dropped", self._name)
        return True

    def _log(self, data: bytes) -> None:
        """Log complete lines; a process may write a line and its end separately."""
        lines, end, self._line = (self._line + data).rpartition(b"\n")
        if end:
            for line in lines.decode(errors="replace").split("\n"):
                logger.info("%s: %s", self._name, line)

    def _end_line(self) -> None:
        if self._line:
            self._log(b"\n")


class WorkerProcess:
    """A process that runs user code. `start` makes one."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        output: WorkerOutput,
        lifeline: int,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._output = output
        self._lifeline = lifeline
        self._reaped: asyncio.Future[int] | None = None

    @staticmethod
    async def start(
        name: str, environment: Mapping[str, str], folder: Path, memory_mb: int, user: str | None = None
    ) -> "WorkerProcess":
        """Start a worker process.

        Args:
            name: Name of the worker in the log of its output.
            environment: Its whole environment.
            folder: Its working directory.
            memory_mb: Its memory limit in megabytes.
            user: The system user that runs it; None for the server's own.

        Raises:
            OSError: The process cannot be started.
        """
        loop = asyncio.get_running_loop()
        settings = json.dumps({"memory_mb": memory_mb, "user": user})
        ours, theirs = socket.socketpair()
        lifeline_read, lifeline = os.pipe()
        try:
            reader, writer = await asyncio.open_unix_connection(sock=ours)
        except BaseException:
            ours.close()
            theirs.close()
            os.close(lifeline_read)
            os.close(lifeline)
            raise
        spawning = loop.run_in_executor(None, _spawn, theirs, lifeline_read, environment, folder, settings)
        is_cancelled = await _until_done(spawning)
        try:
            process = spawning.result()
        except BaseException:
            os.close(lifeline)
            writer.close()
            raise
        assert process.stdout is not None
        worker = WorkerProcess(
            process, reader, writer, WorkerOutput(process.stdout.fileno(), name, loop), lifeline
        )
        if is_cancelled:
            await _until_done(worker._end())
            raise asyncio.CancelledError
        return worker

    @property
    def is_alive(self) -> bool:
        """Whether it accepts requests."""
        return self._reaped is None and not self._reader.at_eof()

    async def request(self, message: WorkerMessage, body: bytes, timeout_s: float) -> WorkerMessage:
        """Send a request and return the answer. A cancelled request ends the worker.

        Raises:
            EndedError: The worker ended without an answer, or the request took longer than `timeout_s`.
        """
        self._output.begin()
        try:
            return await self._exchange(message, body, timeout_s)
        except BaseException:  # a late answer would be taken for the answer to the next request
            self._end()
            raise

    def tail(self) -> str:
        """Return the end of the output since the last request."""
        return self._output.tail()

    async def kill(self) -> int:
        """Kill the worker and all processes that it started. Return its exit status, negative for a signal.

        There is no graceful end: the calls that have begun may be repeated in any case. A worker that has ended by
        itself keeps its exit status.
        """
        return await asyncio.shield(self._end())  # several callers may wait

    async def _exchange(self, message: WorkerMessage, body: bytes, timeout_s: float) -> WorkerMessage:
        try:
            async with asyncio.timeout(timeout_s):
                self._writer.write(encode(message, body))
                await self._writer.drain()
                return await self._read_answer()
        except TimeoutError:
            stacks = await self._stacks()
            await self.kill()
            raise EndedError(f"took longer than {timeout_s:g} s and was ended", stacks) from None
        except (asyncio.IncompleteReadError, ConnectionError):
            status = await self.kill()
            raise EndedError(f"its process ended: {_status_text(status)}", self._output.tail()) from None

    def _end(self) -> "asyncio.Future[int]":
        if self._reaped is None:
            with suppress(BrokenPipeError):  # the supervisor has ended
                os.write(self._lifeline, END)
            os.close(self._lifeline)
            self._writer.close()
            self._reaped = asyncio.get_running_loop().run_in_executor(None, self._wait)
            self._reaped.add_done_callback(self._close_output)
        return self._reaped

    def _wait(self) -> int:
        """Wait until the supervisor has ended all processes that user code has started, and itself."""
        try:
            return self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            logger.error(
                "the supervisor %d does not end within %g s and is killed; processes may remain",
                self._process.pid,
                _END_S,
            )
            self._process.kill()
            return self._process.wait()

    def _close_output(self, _: object) -> None:
        self._output.close()
        assert self._process.stdout is not None
        self._process.stdout.close()

    async def _read_answer(self) -> WorkerMessage:
        (length,) = LENGTH.unpack(await self._reader.readexactly(LENGTH.size))
        if length > _MAX_ANSWER_BYTES:
            raise ConnectionError(f"an answer of {length} bytes")
        message, _ = decode(await self._reader.readexactly(length))
        return message

    async def _stacks(self) -> str:
        """Return the end of the output with a stack trace of the user's code; a command has no stack trace."""
        self._output.quiet()
        with suppress(BrokenPipeError):
            os.write(self._lifeline, STACKS)
        await asyncio.sleep(_STACKS_S)
        lines = self._output.tail().splitlines(keepends=True)
        return "".join(line for line in lines if not _OURS.search(line))


def _spawn(
    channel: socket.socket, lifeline: int, environment: Mapping[str, str], folder: Path, settings: str
) -> subprocess.Popen[bytes]:
    """Start the process, and close the server's copies of its files."""
    files = (channel.fileno(), lifeline)
    # -P: Python must not import modules from the process's working directory.
    command = [sys.executable, "-P", "-m", "foldb.streams.workers.runtime.worker", *map(str, files)]
    try:
        return subprocess.Popen(  # noqa: S603  foldb's own command
            [*command, settings],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=files,
            env=dict(environment),
            cwd=folder,
            start_new_session=True,
        )
    finally:
        channel.close()
        os.close(lifeline)


async def _until_done(future: "asyncio.Future[Any]") -> bool:
    """Wait for a short operation that must not be interrupted. Return whether the caller was cancelled."""
    is_cancelled = False
    while not future.done():
        try:
            await asyncio.wait((future,))
        except asyncio.CancelledError:
            is_cancelled = True
    return is_cancelled


def _status_text(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"
