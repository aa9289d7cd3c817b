"""A `foldb serve` that a test may kill, stop, or watch dying."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.served import FOLDB

PATIENCE_S = 30


class Process:
    """Serves a folder from the start of the block; killed at its end if it still runs.

    Attributes:
        url: Where it answers.
        said: What it has said on stderr; all of it, once it has ended.
    """

    def __init__(self, folder: Path, *options: str, program: Sequence[str | Path] = (FOLDB,)) -> None:
        self._process = subprocess.Popen(
            [*program, "serve", "--db", folder, "--port", "0", *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said = ""
        self.url = self._address()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def kill(self) -> None:
        """Let it feel nothing."""
        self._process.kill()
        self.wait()

    def terminate(self) -> float:
        """Ask it to stop, and return the seconds that it took."""
        begun = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        assert self.wait() == 0, self.said
        return time.monotonic() - begun

    def wait(self) -> int:
        """Its exit code, once it has ended."""
        assert self._process.stderr is not None
        if not self._process.stderr.closed:
            self.said += self._process.communicate(timeout=PATIENCE_S)[1]
        return self._process.returncode

    def _address(self) -> str:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.said += line
            if match := re.search(r"http://\S+:\d+", line):
                return match[0]
        self.wait()
        raise AssertionError(f"foldb serve ended: {self.said}")


def with_failing_sync(from_when: Path) -> list[str | Path]:
    """A foldb whose syncs fail with EIO from the moment at which the file is there."""
    program = (
        "import errno, os\n"
        "def fdatasync(descriptor, sync=os.fdatasync):\n"
        f"    if os.path.exists({str(from_when)!r}): raise OSError(errno.EIO, os.strerror(errno.EIO))\n"
        "    sync(descriptor)\n"
        "os.fdatasync = fdatasync\n"
        "from foldb.cli.main import run\n"
        "run()\n"
    )
    return [sys.executable, "-c", program]


def with_descriptors(count: int) -> list[str | Path]:
    """A foldb that may have so many files and sockets open and no more."""
    program = (
        "import resource\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({count}, {count}))\n"
        "from foldb.cli.main import run\n"
        "run()\n"
    )
    return [sys.executable, "-c", program]
