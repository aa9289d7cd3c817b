"""`foldb serve` in a process, and `foldb` commands run to completion."""

import codecs
import contextlib
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.forks import FOLDB as FOLDB
from tests.support.forks import Fork, is_readable
from tests.support.surprises import surprise_in

PATIENCE_S = 30
_COMMAND_PATIENCE_S = 60


@contextmanager
def served(directory: Path, *options: str) -> Iterator[str]:
    """Serve `directory` on a free port until the block ends; yield the address."""
    with Process(directory, *options) as server:
        yield server.url
        server.terminate()


@contextmanager
def killed(directory: Path, *options: str) -> Iterator[str]:
    """Serve `directory` as `served` does, and end the process with SIGKILL."""
    with Process(directory, *options) as server:
        yield server.url


def foldb(*arguments: str | os.PathLike[str], stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a `foldb` command to completion."""
    with (
        tempfile.TemporaryFile("w+") as given,
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
    ):
        given.write(stdin)
        given.seek(0)
        process = Fork(arguments, stdin=given.fileno(), stdout=out.fileno(), stderr=err.fileno())
        try:
            code = process.wait(_COMMAND_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(arguments, code, out.read(), err.read())


class Process:
    """Serves a folder from the start of the block; killed at its end if it still runs.

    Attributes:
        url: Its URL; empty if it ended before it answered, which is an error without `may_end`.
        said: Its output on stderr; complete once it has ended.
        pid: Its process id.
    """

    def __init__(
        self,
        folder: Path,
        *options: str,
        program: Sequence[str | Path] | None = None,
        may_end: bool = False,
    ) -> None:
        arguments: list[str | Path] = ["serve", "--db", folder, "--port", "0", *options]
        reads, writes = os.pipe()
        self._process: Fork | subprocess.Popen[bytes]
        if program is None:
            self._process = Fork(arguments, stderr=writes)
        else:
            self._process = subprocess.Popen([*program, *arguments], stdout=subprocess.DEVNULL, stderr=writes)
        os.close(writes)
        self._stderr = open(reads, "rb", buffering=0)  # noqa: SIM115  `wait` closes it
        self.pid = self._process.pid
        self.said = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self.url = self._address()
        assert self.url or may_end, f"foldb serve ended: {self.said}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()
        self.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def terminate(self) -> float:
        """Stop the server, and return the seconds that it took."""
        begun = time.monotonic()
        self.signal(signal.SIGTERM)
        assert self.wait() == 0, self.said
        return time.monotonic() - begun

    def terminate_or_kill(self, patience_s: float) -> int:
        """Stop the server, kill it after a timeout, and return its exit code."""
        self.signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(patience_s)
        self._process.kill()
        return self.wait()

    def wait(self) -> int:
        """Wait for the end of the process, and return its exit code."""
        deadline = time.monotonic() + PATIENCE_S
        while not self._stderr.closed:  # a process that writes to a full pipe does not end
            timeout_s = max(0.0, deadline - time.monotonic())
            assert is_readable(self._stderr.fileno(), timeout_s), f"foldb serve does not end: {self.said}"
            self._read()
        assert not surprise_in(self.said), self.said
        return self._process.wait(PATIENCE_S)

    def _address(self) -> str:
        while self._read():
            if match := re.search(r"(https?://\S+:\d+).*\n", self.said):
                return match[1]
        return ""

    def _read(self) -> bool:
        """Read a part of the output. Return False at its end."""
        data = self._stderr.read(65536) or b""
        self.said += self._decoder.decode(data)
        if not data:
            self._stderr.close()
        return bool(data)
