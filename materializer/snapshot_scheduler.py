"""Has snapshots made while a database is served, by a process beside the one that serves.

    so many commands since the last one ──► `foldb snapshot make`, at low priority ──► done, or a warning

Making one goes through the whole state, so it is not for the process that answers requests. The other one follows the
log as any reader does, and holds the data a second time while it lives; if it fails, the next start takes longer and
that is all.
"""

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from .os_process import helper_environment
from .worker import Cancellable, Scheduler

_EVERY_SECONDS: Final = 1.0
_NICENESS: Final = 10

logger = logging.getLogger(__name__)


class SnapshotScheduler:
    """Starts a process when there is a snapshot to make; never a second one beside it.

    Args:
        folder: The database.
        is_in_place: Whether that path leads to the database. It does not after the folder was renamed.
        every: How many commands after a snapshot the next is due.
        folded: How many commands have been folded since the snapshot that this process started from.
        scheduler: The loop.
        command: What makes one.
    """

    def __init__(
        self,
        folder: Path,
        every: int,
        *,
        is_in_place: Callable[[], bool] = lambda: True,
        folded: Callable[[], int],
        scheduler: Scheduler,
        command: Sequence[str] | None = None,
    ) -> None:
        self._every = every
        self._is_in_place = is_in_place
        self._folded = folded
        self._scheduler = scheduler
        self._command = command or make_command(folder)
        self._process: subprocess.Popen[bytes] | None = None
        self._due = every
        self._timer: Cancellable | None = None

    def look(self) -> None:
        """See whether one is due, or one that was being made is there; and again in a second."""
        if self._process is not None:
            code = self._process.poll()
            if code is not None:
                self._process = None
                if code != 0:
                    logger.warning("no snapshot was made: its process ended with %d", code)
        elif self._folded() >= self._due:
            self._due = self._folded() + self._every
            self._begin()
        self._timer = self._scheduler.call_later(_EVERY_SECONDS, self.look)

    def make_soon(self) -> None:
        """Make the next one without waiting for more commands."""
        self._due = 0

    def close(self) -> None:
        """Make no more; one that is under way is given up, and leaves what the next removes."""
        if self._timer is not None:
            self._timer.cancel()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _begin(self) -> None:
        if not self._is_in_place():
            logger.warning(
                "no snapshot was made: the database's folder was renamed. Stop and start with its new name."
            )
            return
        try:
            # In a session of its own: Ctrl-C on a terminal is for the server, which then ends it.
            self._process = subprocess.Popen(  # noqa: S603  our own command
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=helper_environment(),
                start_new_session=True,
            )
        except OSError as error:
            logger.warning("no snapshot was made: %s", error)
            return
        _give_way(self._process.pid)


def make_command(folder: Path) -> list[str]:
    """The command line that makes a snapshot of a database, with this Python and this foldb.

    -P: Python must not look for modules in the folder that the server runs in.
    """
    arguments = ["snapshot", "make", "--quiet", "--db", str(folder.absolute())]
    return [sys.executable, "-P", "-m", "foldb", *arguments]


def _give_way(process: int) -> None:
    """Whoever serves goes first: in computing, and where memory runs out, in staying alive."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, process, _NICENESS)
    with suppress(OSError):
        Path(f"/proc/{process}/oom_score_adj").write_text("1000")
