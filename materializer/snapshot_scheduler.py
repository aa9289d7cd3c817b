"""Makes snapshots of a served database, in a child process.

    N commands since the last one ──► snapshot_worker.py, at low priority ──► done, or a warning

A snapshot traverses the whole state, so the serving process does not make it. If its process fails, the only
consequence is that the next start takes longer.
"""

import logging
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from .os_process import start_helper_process
from .snapshot_worker import SnapshotJob
from .worker import Cancellable, Scheduler

# -P: Python must not import modules from the folder that the server runs in.
COMMAND: Final = (sys.executable, "-P", "-m", "foldb.materializer.snapshot_worker")

_EVERY_SECONDS: Final = 1.0

logger = logging.getLogger(__name__)


class SnapshotScheduler:
    """Starts a process when a snapshot is due, one at a time.

    Args:
        job: Returns the snapshots to make now.
        every: The number of commands after which the next snapshot is due.
        is_in_place: Returns whether the path still leads to the database; it does not after the folder was renamed.
        folded: Returns the number of commands folded since the snapshot from which this process started.
        command: The command line of the process, which reads its job from stdin.
    """

    def __init__(
        self,
        job: Callable[[], SnapshotJob],
        every: int,
        *,
        is_in_place: Callable[[], bool] = lambda: True,
        folded: Callable[[], int],
        scheduler: Scheduler,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._job = job
        self._every = every
        self._is_in_place = is_in_place
        self._folded = folded
        self._scheduler = scheduler
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._due = every
        self._timer: Cancellable | None = None

    def poll(self) -> None:
        """Start a due snapshot, check on one under way, and repeat every second."""
        if self._process is not None:
            code = self._process.poll()
            if code is not None:
                self._process = None
                if code != 0:
                    logger.warning("no snapshot was made: its process exited with code %d", code)
        elif self._folded() >= self._due:
            self._due = self._folded() + self._every
            self._start_process()
        self._timer = self._scheduler.call_later(_EVERY_SECONDS, self.poll)

    def make_soon(self) -> None:
        """Make the next snapshot without waiting for more commands."""
        self._due = 0

    def close(self) -> None:
        """Stop. A snapshot under way is aborted; the next one removes its file."""
        if self._timer is not None:
            self._timer.cancel()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _start_process(self) -> None:
        if not self._is_in_place():
            logger.warning(
                "no snapshot was made: the database's folder was renamed. Stop and start with its new name."
            )
            return
        try:
            self._process = start_helper_process(self._command, stdout=subprocess.DEVNULL)
        except OSError as error:
            logger.warning("no snapshot was made: %s", error)
            return
        assert self._process.stdin is not None
        with suppress(BrokenPipeError), self._process.stdin as stdin:  # it may have failed already
            stdin.write(self._job().encode())
