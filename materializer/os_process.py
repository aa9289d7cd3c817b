"""This process as the system shows it to others: who may read it, and what becomes of the processes it starts.

The calls are Linux's. Elsewhere they do nothing; docs/operations.md names what that leaves open.
"""

import ctypes
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Final

_PDEATHSIG: Final = 1
_DUMPABLE: Final = 4
_CHILD_SUBREAPER: Final = 36
_NO_NEW_PRIVS: Final = 38

# Places of env_start and env_end among the fields of /proc/self/stat that follow the name.
_ENV_START: Final = 47
_ENV_END: Final = 48

# What Python, its libraries and this package read in a process that the server starts beside itself.
_HELPER_NAMES: Final = {"HOME", "LANG", "LANGUAGE", "PATH", "SSL_CERT_DIR", "SSL_CERT_FILE", "TMPDIR", "TZ"}
_HELPER_PREFIXES: Final = ("DYLD_", "LC_", "LD_", "PYTHON")

logger = logging.getLogger(__name__)


def hide() -> None:
    """Keep the memory, the environment and the open files of this process from other processes of the same user.

    Root, and a process with CAP_SYS_PTRACE, can still read the memory; the environment that this process was started
    with is overwritten, so that they find nothing in /proc/PID/environ. The variables in `os.environ` stay as they are.
    """
    _prctl(_DUMPABLE, 0)
    if sys.platform == "linux":
        try:
            fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
            start, end = int(fields[_ENV_START]), int(fields[_ENV_END])
        except OSError as error:
            logger.warning("the environment that root finds in /proc cannot be overwritten: %s", error)
            return
        variables = dict(os.environb)
        ctypes.CDLL(None).clearenv()  # else the C library's list goes on to point at what is overwritten
        os.environb.update(variables)
        ctypes.memset(start, 0, end - start)


def forget_variables() -> None:
    """Drop all variables of this process, and hide it."""
    os.environ.clear()
    hide()


def unhide() -> None:
    """Undo what `hide`, or a change of user, does to what processes of the same user may read."""
    _prctl(_DUMPABLE, 1)


def refuse_privileges() -> None:
    """Have no program that this process runs, or that its descendants run, gain rights by a setuid or setgid bit."""
    _prctl(_NO_NEW_PRIVS, 1)


def helper_environment() -> dict[str, str]:
    """Return the environment of a process that the server starts beside itself: no variable that can hold a secret.

    Between its start and its first own instruction a process cannot hide its environment.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if name in _HELPER_NAMES or name.startswith(_HELPER_PREFIXES)
    }


def adopt_orphans() -> None:
    """Make this process the parent of every descendant whose own parent has ended, daemons included."""
    _prctl(_CHILD_SUBREAPER, 1)


def end_with_parent(parent: int) -> None:
    """Have this process killed when its parent ends. A change of user clears this: change it before."""
    _prctl(_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended already
        os._exit(1)


def _prctl(option: int, value: int) -> None:
    if sys.platform != "linux":
        return
    if ctypes.CDLL(None, use_errno=True).prctl(option, ctypes.c_ulong(value), *3 * (ctypes.c_ulong(0),)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl {option}: {os.strerror(number)}")
