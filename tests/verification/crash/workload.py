"""A short run of a database in one thread, so that the nth system call is the same in every run.

    open ──► create the table ──► puts, over several segments ──► snapshot ──► puts ──► digest ──► close

It prints the fate of each put to standard output. Many runs start from one process that has imported all modules: a
fork waits until a tracer is attached, then runs.
"""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from foldb.log.local import LocalLog
from foldb.log.local.filesystem import SystemFilesystem
from foldb.materializer.fold.outcomes import Applied, Outcome
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.snapshots import Snapshots
from foldb.materializer.worker import Worker
from foldb.model.errors import FoldbError, ServiceUnavailableError
from tests.unit.log.local_logs import Inline
from tests.unit.materializer.fake_loop import FakeLoop
from tests.unit.materializer.ledger import define, put, table_request

SEGMENT_BYTES = 4000
PUTS_BEFORE_SNAPSHOT, PUTS = 8, 14
ITEM_BYTES = 700
READY, ENDED = "ready", "ended"


def live(folder: Path, tell: Callable[[str], None]) -> int:
    """Run once, and return the exit code that a server would have.

    Args:
        folder: The folder of the database, which may exist.
        tell: Called with the number of each put and its fate: acknowledged, refused or in doubt.
    """
    loop = FakeLoop()
    fatal: list[BaseException] = []
    try:
        log = open_log(folder, loop, fatal)
        state = PartitionState()
        worker = Worker(log, state, origin=os.urandom(16), scheduler=loop, on_fatal=fatal.append)
        worker.open()
        if not state.tables:
            worker.submit(define("CreateTable", 0, table_request("T")), 100, lambda *_: None)
            loop.settle()
        for number in range(state.next_offset, state.next_offset + PUTS):
            if fatal or not state.tables:
                break
            _put(worker, number, tell)
            loop.settle()
            if number % PUTS == PUTS_BEFORE_SNAPSHOT:
                with suppress(OSError):  # its maker is another process in fact, and may fail by itself
                    Snapshots(folder, SystemFilesystem()).make(LocalLog.open_reader(folder))
        worker.close(lambda: None)
        loop.settle()
        log.close()
    except (FoldbError, OSError):
        return 9
    return 9 if fatal else 0


def open_log(folder: Path, loop: FakeLoop, fatal: list[BaseException]) -> LocalLog:
    """Return a log on the disk of this machine, without a thread."""
    return LocalLog(
        folder,
        clock=loop.clock,
        deliver=loop.call_soon,
        random_bytes=os.urandom,
        on_fatal=fatal.append,
        segment_bytes=SEGMENT_BYTES,
        background=Inline(),
    )


def _put(worker: Worker, number: int, tell: Callable[[str], None]) -> None:
    [table] = worker.state.tables.values()

    def done(outcome: Outcome, position: object) -> None:
        refused = isinstance(getattr(outcome, "error", None), ServiceUnavailableError)
        fate = "acknowledged" if isinstance(outcome, Applied) else "refused" if refused else "in doubt"
        tell(f"{number} {fate}")

    item = {"pk": {"S": str(number)}, "padding": {"S": "x" * ITEM_BYTES}}
    worker.submit(put(table, item), ITEM_BYTES, done)


class Lives:
    """Runs in processes of their own, each under a tracer."""

    def __init__(self, parent: "subprocess.Popen[str]") -> None:
        self._parent = parent

    def trace(self, folder: Path, *options: str) -> tuple[list[str], int]:
        """Run once in `folder` under strace with these options. Return the printed fates and the exit code."""
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        print(folder, file=self._parent.stdin, flush=True)
        life = self._parent.stdout.readline().split()
        assert life[0] == READY, life
        with subprocess.Popen(
            ["strace", "-p", life[1], *options], stderr=subprocess.PIPE, text=True
        ) as tracer:
            assert tracer.stderr is not None
            assert "attached" in tracer.stderr.readline()
            os.kill(int(life[1]), signal.SIGUSR1)
            reported = list(iter(lambda: self._line(ENDED), None))
            tracer.stderr.read()
        return [line for line in reported if line], self._code

    def _line(self, end: str) -> str | None:
        assert self._parent.stdout is not None
        line = self._parent.stdout.readline().rstrip("\n")
        if line.startswith(end):
            self._code = int(line.split()[1])
            return None
        return line


@contextmanager
def lives() -> Iterator[Lives]:
    """Import all modules once."""
    command = [sys.executable, "-c", "from tests.verification.crash.workload import bear; bear()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        yield Lives(parent)
        assert parent.stdin is not None
        parent.stdin.close()


def bear() -> None:
    """For each folder named on standard input, fork a process that runs there."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    with tempfile.TemporaryDirectory() as first:
        live(Path(first) / "data", lambda line: None)  # what is loaded when first needed is loaded here
    for line in sys.stdin:
        folder = Path(line.rstrip("\n"))
        if not (child := os.fork()):
            _tell(f"{READY} {os.getpid()}")
            signal.sigwait([signal.SIGUSR1])
            os._exit(live(folder, _tell))
        _, status = os.waitpid(child, 0)
        _tell(f"{ENDED} {os.waitstatus_to_exitcode(status)}")


def _tell(line: str) -> None:
    # Not write(2): that is among the calls that a tracer makes fail.
    os.writev(1, [f"{line}\n".encode()])
