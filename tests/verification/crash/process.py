"""A `foldb serve` that a test can kill, stop, or let fail."""

import contextlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.served import FOLDB
from tests.verification.crash.power import PowerDisk

PATIENCE_S = 30

# What foldb asks of a disk that changes something on it.
DISK_CALLS = ("open", "pwrite", "ftruncate", "fdatasync", "fsync", "link", "rename", "remove")


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
        program: Sequence[str | Path] = (FOLDB,),
        may_end: bool = False,
    ) -> None:
        self._process = subprocess.Popen(
            [*program, "serve", "--db", folder, "--port", "0", *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        self.said = ""
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

    def lose_power(self, disk: PowerDisk) -> None:
        """Run no further instruction, and leave what has reached the disk."""
        self._process.kill()
        disk.cut()
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
        return ""


def with_failing_sync(from_when: Path) -> list[str | Path]:
    """Return a foldb whose syncs fail with EIO once the file exists."""
    return _foldb_after(f"""
import errno, os
def fdatasync(descriptor, sync=os.fdatasync):
    if os.path.exists({str(from_when)!r}): raise OSError(errno.EIO, os.strerror(errno.EIO))
    sync(descriptor)
os.fdatasync = fdatasync
""")


def with_stalled_sync(while_there: Path) -> list[str | Path]:
    """Return a foldb whose syncs do not return while the file exists."""
    return _foldb_after(f"""
import os, time
def fdatasync(descriptor, sync=os.fdatasync):
    while os.path.exists({str(while_there)!r}): time.sleep(0.01)
    sync(descriptor)
os.fdatasync = fdatasync
""")


def without_sync() -> list[str | Path]:
    """Return a foldb that acknowledges syncs without syncing."""
    return _foldb_after("import os; os.fdatasync = lambda descriptor: None")


def with_power_cut(mounted: Path, calls: int) -> list[str | Path]:
    """Return a foldb that cuts the power of its disk right before its nth call of the disk, and dies."""
    return _foldb_after(f"""
import itertools, os, signal
from pathlib import Path
from tests.verification.crash.power import cut
count = itertools.count(1)
def counted(call):
    def before(*arguments, **options):
        if next(count) == {calls}:
            cut(Path({str(mounted)!r}))
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **options)
    return before
for name in {DISK_CALLS!r}:
    setattr(os, name, counted(getattr(os, name)))
""")


def with_limit(limit: int, most: int, hard: int | None = None) -> list[str | Path]:
    """Return a foldb with a soft limit of a resource, which a test can raise up to `hard`."""
    hard = most if hard is None else hard
    return _foldb_after(f"import resource; resource.setrlimit({limit}, ({most}, {hard}))")


def _foldb_after(preparation: str) -> list[str | Path]:
    return [sys.executable, "-c", f"{preparation}\nfrom foldb.cli.main import run\nrun()\n"]
