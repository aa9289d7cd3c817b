"""One child as the server sees it: processes that are asked one thing at a time, and killed as a whole.

    start ──► ask ──► answer, ask ──► answer ...        EndedError: it has ended, or took too long and was ended

Nothing that a child does holds up the server's loop: questions and answers go over a socket, what it prints is read
and mostly thrown away, and whoever waits for its end waits in a thread.
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
from .frames import LENGTH, Head, decode, encode
from .runtime.supervisor import END, STACKS

_READ_AT_ONCE: Final = 64 * 1024
_READS_MOST: Final = 16
_LOGGED_MOST: Final = 64 * 1024
_TAIL: Final = 8 * 1024
_ANSWER_MOST: Final = 16 << 20
_STACKS_S: Final = 0.25
_END_S: Final = 10.0  # a supervisor ends in milliseconds, unless users' code has stopped it

# Frames of a stack that are the child's own.
_OURS = re.compile(r'^  File "([^"]*/streams/workers/runtime/\w+\.py|<frozen runpy>)", line \d+ in ')

logger = logging.getLogger("foldb.triggers")
logger.setLevel(logging.INFO)  # what a trigger prints is for whoever sees the server's messages


class EndedError(FoldbError):
    """The child is not there any more. `tail` is the last of what it printed."""

    def __init__(self, reason: str, tail: str) -> None:
        super().__init__(reason)
        self.tail = tail


class Output:
    """What a child prints: the first of each call is logged, the last is kept, all else is dropped."""

    def __init__(self, descriptor: int, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self._descriptor = descriptor
        self._name = name
        self._loop = loop
        self._tail = b""
        self._line = b""  # what was printed of a line that has not ended
        self._room = _LOGGED_MOST
        self._is_open = True
        os.set_blocking(descriptor, False)
        loop.add_reader(descriptor, self._read)

    def begin(self) -> None:
        """Another call begins."""
        self._end_line()
        self._tail = b""
        self._room = _LOGGED_MOST

    def quiet(self) -> None:
        """Log no more of this call's."""
        self._room = 0

    def tail(self) -> str:
        """The last that was printed since the call began."""
        self._drain()
        self._end_line()
        return self._tail.decode(errors="replace")

    def close(self) -> None:
        """Take what is there and read no more."""
        self._drain()
        self._end_line()
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._descriptor)

    def _drain(self) -> None:
        for _ in range(_READS_MOST):
            if not self._is_open or not self._read():
                return

    def _read(self) -> bool:
        """Take some of it; whether there was any."""
        try:
            data = os.read(self._descriptor, _READ_AT_ONCE)
        except BlockingIOError:
            return False
        if not data:
            self._is_open = False
            self._loop.remove_reader(self._descriptor)
            return False
        self._tail = (self._tail + data)[-_TAIL:]
        if self._room > 0:
            self._log(data[: self._room])
            self._room -= len(data)
            if self._room <= 0:
                logger.info("%s: what else it prints in this call is dropped", self._name)
        return True

    def _log(self, data: bytes) -> None:
        """Log whole lines; a process may write a line and its end apart."""
        lines, end, self._line = (self._line + data).rpartition(b"\n")
        if end:
            for line in lines.decode(errors="replace").split("\n"):
                logger.info("%s: %s", self._name, line)

    def _end_line(self) -> None:
        if self._line:
            self._log(b"\n")


class WorkerProcess:
    """A process that runs users' code. Make one with `start`."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        output: Output,
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
        """Start one.

        Args:
            name: What it is called where it prints.
            environment: All of its environment.
            folder: Where it runs.
            memory_mb: How much memory it may take.
            user: Who runs the worker; None is who runs this process.

        Raises:
            OSError: There is no starting a process.
        """
        loop = asyncio.get_running_loop()
        settings = json.dumps({"memory_mb": memory_mb, "user": user})
        ours, theirs = socket.socketpair()
        below, lifeline = os.pipe()
        try:
            reader, writer = await asyncio.open_unix_connection(sock=ours)
        except BaseException:
            ours.close()
            theirs.close()
            os.close(below)
            os.close(lifeline)
            raise
        spawning = loop.run_in_executor(None, _spawn, theirs, below, environment, folder, settings)
        is_called_off = await _until_done(spawning)
        try:
            process = spawning.result()
        except BaseException:
            os.close(lifeline)
            writer.close()
            raise
        assert process.stdout is not None
        child = WorkerProcess(process, reader, writer, Output(process.stdout.fileno(), name, loop), lifeline)
        if is_called_off:
            await _until_done(child._end())
            raise asyncio.CancelledError
        return child

    @property
    def is_alive(self) -> bool:
        """Whether it may be asked."""
        return self._reaped is None and not self._reader.at_eof()

    async def ask(self, head: Head, body: bytes, timeout_s: float) -> Head:
        """Ask, and wait for the answer. A child that is not waited for any longer is ended, too.

        Raises:
            EndedError: There was no answer.
        """
        self._output.begin()
        try:
            return await self._asked(head, body, timeout_s)
        except BaseException:  # what it answers yet would be taken for the answer to the next question
            self._end()
            raise

    def tail(self) -> str:
        """The last that it printed since it was asked."""
        return self._output.tail()

    async def kill(self) -> int:
        """End it with all that it started, and wait until it is gone; its exit status, below 0 for a signal.

        Nothing is asked to end first: what it has begun may be called again in any case. One that has ended by itself
        keeps the status that it ended with.
        """
        return await asyncio.shield(self._end())  # others wait for the same

    async def _asked(self, head: Head, body: bytes, timeout_s: float) -> Head:
        try:
            async with asyncio.timeout(timeout_s):
                self._writer.write(encode(head, body))
                await self._writer.drain()
                return await self._answer()
        except TimeoutError:
            stacks = await self._stacks()
            await self.kill()
            raise EndedError(f"took longer than {timeout_s:g} s and was ended", stacks) from None
        except (asyncio.IncompleteReadError, ConnectionError):
            status = await self.kill()
            raise EndedError(f"its process ended: {_how(status)}", self._output.tail()) from None

    def _end(self) -> "asyncio.Future[int]":
        if self._reaped is None:
            with suppress(BrokenPipeError):  # it has ended
                os.write(self._lifeline, END)
            os.close(self._lifeline)
            self._writer.close()
            self._reaped = asyncio.get_running_loop().run_in_executor(None, self._wait)
            self._reaped.add_done_callback(self._let_go)
        return self._reaped

    def _wait(self) -> int:
        """Wait until the supervisor has ended all that users' code has started, and itself."""
        try:
            return self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            logger.error(
                "the supervisor %d does not end and is killed; processes may be left", self._process.pid
            )
            self._process.kill()
            return self._process.wait()

    def _let_go(self, _: object) -> None:
        self._output.close()
        assert self._process.stdout is not None
        self._process.stdout.close()

    async def _answer(self) -> Head:
        (length,) = LENGTH.unpack(await self._reader.readexactly(LENGTH.size))
        if length > _ANSWER_MOST:
            raise ConnectionError(f"an answer of {length} bytes")
        head, _ = decode(await self._reader.readexactly(length))
        return head

    async def _stacks(self) -> str:
        """The last of what it printed and, unless a command runs there, where it is in the user's code."""
        self._output.quiet()
        with suppress(BrokenPipeError):
            os.write(self._lifeline, STACKS)
        await asyncio.sleep(_STACKS_S)
        lines = self._output.tail().splitlines(keepends=True)
        return "".join(line for line in lines if not _OURS.search(line))


def _spawn(
    channel: socket.socket, lifeline: int, environment: Mapping[str, str], folder: Path, settings: str
) -> subprocess.Popen[bytes]:
    """Start the process, and close what is its alone."""
    files = (channel.fileno(), lifeline)
    # -P: Python must not look for modules in the folder that it runs in.
    command = [sys.executable, "-P", "-m", "foldb.streams.workers.runtime.worker", *map(str, files)]
    try:
        return subprocess.Popen(  # noqa: S603  our own command
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
    """Wait for what is over soon and must not be left half done; True if whoever waits is called off meanwhile."""
    is_called_off = False
    while not future.done():
        try:
            await asyncio.wait((future,))
        except asyncio.CancelledError:
            is_called_off = True
    return is_called_off


def _how(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"
