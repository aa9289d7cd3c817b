"""The servers that are compared: their commands, their data, start and stop."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

OURS = "foldb"
COMPILED = "foldb compiled"
IN_MEMORY = "dynoxide in memory"
ON_A_FILE = "dynoxide on a file"

_READY_SECONDS = 900  # a start may have to fold ten million items
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PROCESS_CLOCK = 2  # of a process in Linux; /proc has its time in hundredths of a second alone


@dataclass(frozen=True)
class Peer:
    """One server under test. `command` receives a port and the folder of its data."""

    name: str
    command: Callable[[int, Path], list[str]]


@dataclass(frozen=True)
class Running:
    """A running server.

    Attributes:
        ready_seconds: The time from its start to its first response.
    """

    url: str
    pid: int
    ready_seconds: float

    def memory(self) -> int:
        """Return the bytes of memory in use."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * _PAGE

    def cpu_seconds(self) -> float:
        """Return the processor time of the server and of its disk process."""
        return sum(
            time.clock_gettime(~pid << 3 | _PROCESS_CLOCK) for pid in (self.pid, *self._disk_process())
        )

    def _disk_process(self) -> list[int]:
        of_threads = Path(f"/proc/{self.pid}/task").glob("*/children")
        children = [int(pid) for each in of_threads for pid in each.read_text().split()]
        return [pid for pid in children if b"disk_worker.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]


FOLDB = Peer(
    OURS, lambda port, folder: [*foldb_command(), "serve", "--port", str(port), "--db", str(folder / "data")]
)
"""This checkout, on the local log with its default durability: fdatasync before every acknowledgement."""


def foldb_command() -> list[str]:
    """Return the first words of a `foldb` command of this checkout."""
    return [sys.executable, "-m", "foldb"]


def foldb_with(*flags: str, name: str = OURS) -> Peer:
    """Return this checkout with more flags of `foldb serve`."""
    return Peer(name, lambda port, folder: [*FOLDB.command(port, folder), *flags])


def foldb_peers(*flags: str) -> list[Peer]:
    """Return this checkout, and its compiled build if `make compile` has made it, with more flags of `foldb serve`."""
    folder = Path(__file__).parents[1] / "build" / "compiled"
    if not folder.is_dir():
        return [foldb_with(*flags)]
    pure, compiled = ["/usr/bin/env", "-u", "PYTHONPATH"], ["/usr/bin/env", f"PYTHONPATH={folder}"]
    return [
        Peer(OURS, lambda port, data: [*pure, *FOLDB.command(port, data), *flags]),
        Peer(COMPILED, lambda port, data: [*compiled, *FOLDB.command(port, data), *flags]),
    ]


def dynoxide_peers() -> list[Peer]:
    """Return dynoxide in memory and on a file. [] if its program (npm package @dynoxide/linux-x64) is not found."""
    program = os.environ.get("DYNOXIDE") or shutil.which("dynoxide")
    if program is None:
        return []
    serve = [program, "serve", "--port"]
    return [
        Peer(IN_MEMORY, lambda port, _: [*serve, str(port)]),
        Peer(ON_A_FILE, lambda port, folder: [*serve, str(port), "--db-path", str(folder / "dynoxide.db")]),
    ]


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a folder for the data of one benchmark. TMPDIR should be on a real disk."""
    with tempfile.TemporaryDirectory(prefix="foldb-bench-") as name:
        yield Path(name)


@contextmanager
def running(peer: Peer, port: int, folder: Path | None = None) -> Iterator[Running]:
    """Run a peer on the content of `folder`, or on no data, until the block ends."""
    if folder is None:
        with temporary_folder() as made, running(peer, port, made) as server:
            yield server
        return
    start = time.perf_counter()
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 -- the commands are this module's own
            peer.command(port, folder), stdout=output, stderr=subprocess.STDOUT
        )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_until_it_answers(url, process, folder / "output")
        yield Running(url, process.pid, time.perf_counter() - start)
    finally:
        process.terminate()
        process.wait(timeout=60)


def _wait_until_it_answers(url: str, process: "subprocess.Popen[bytes]", output: Path) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=1):  # noqa: S310 -- a loopback address
                return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.005)
    raise SystemExit(f"{url} did not start:\n{output.read_text(errors='replace')}")
