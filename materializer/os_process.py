"""Process settings of the operating system: who may read this process, and the fate of its child processes.

The calls are Linux's. On other systems they do nothing; docs/operations.md describes the consequences.
"""

import ctypes
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

_PDEATHSIG: Final = 1
_DUMPABLE: Final = 4
_CHILD_SUBREAPER: Final = 36
_NO_NEW_PRIVS: Final = 38

# Indexes of env_start and env_end among the fields of /proc/self/stat after the name.
_ENV_START: Final = 47
_ENV_END: Final = 48

# The variables that Python, its libraries and this package read in a helper process of the server.
_HELPER_NAMES: Final = {"HOME", "LANG", "LANGUAGE", "PATH", "SSL_CERT_DIR", "SSL_CERT_FILE", "TMPDIR", "TZ"}
_HELPER_PREFIXES: Final = ("DYLD_", "LC_", "LD_", "PYTHON")
_HELPER_NICENESS: Final = 10

logger = logging.getLogger(__name__)


def hide() -> None:
    """Protect the memory, the environment and the open files of this process from other processes of the same user.

    Root, and a process with CAP_SYS_PTRACE, can still read the memory. The initial environment is overwritten, so
    that /proc/PID/environ is empty for them too. The variables in `os.environ` do not change.
    """
    _prctl(_DUMPABLE, 0)
    if sys.platform == "linux":
        try:
            fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
            start, end = int(fields[_ENV_START]), int(fields[_ENV_END])
        except OSError as error:
            logger.warning(
                "cannot overwrite the initial environment in /proc, which root can read: %s", error
            )
            return
        variables = dict(os.environb)
        ctypes.CDLL(
            None
        ).clearenv()  # otherwise the C library's list would keep pointing at the overwritten memory
        os.environb.update(variables)
        ctypes.memset(start, 0, end - start)


def forget_variables() -> None:
    """Delete all environment variables of this process, and hide it."""
    os.environ.clear()
    hide()


def unhide() -> None:
    """Undo the effect of `hide`, or of a change of user, on processes of the same user."""
    _prctl(_DUMPABLE, 1)


def refuse_privileges() -> None:
    """Prevent all programs that this process or its descendants run from gaining rights by a setuid or setgid bit."""
    _prctl(_NO_NEW_PRIVS, 1)


def helper_environment() -> dict[str, str]:
    """Return the environment of a helper process of the server, without variables that can hold a secret.

    A process cannot hide its environment between its start and its first instruction.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if name in _HELPER_NAMES or name.startswith(_HELPER_PREFIXES)
    }


def start_helper_process(
    command: Sequence[str], *, stdout: int, descriptors: Sequence[int] = ()
) -> "subprocess.Popen[bytes]":
    """Start a helper process, which reads its job from stdin and inherits file descriptors.

    The server has precedence in processor time, and in staying alive when memory runs out. The process is in a group of
    its own: Ctrl-C on a terminal is for the server, which then ends it. It is in the server's session, because Linux
    first shares the processors among sessions, and niceness holds within one only (sched(7), "The autogroup feature").

    Args:
        stdout: As for subprocess.Popen.

    Raises:
        OSError: The system has no room for another process.
    """
    process = subprocess.Popen(  # noqa: S603  the callers' commands are foldb's own
        command,
        stdin=subprocess.PIPE,
        stdout=stdout,
        env=helper_environment(),
        process_group=0,
        pass_fds=descriptors,
    )
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, process.pid, _HELPER_NICENESS)
    with suppress(OSError):
        Path(f"/proc/{process.pid}/oom_score_adj").write_text("1000")
    return process


def adopt_orphans() -> None:
    """Make this process the parent of every descendant whose own parent has ended, daemons included."""
    _prctl(_CHILD_SUBREAPER, 1)


def end_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends. A change of user clears this: change it before."""
    _prctl(_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent has ended already
        os._exit(1)


def _prctl(option: int, value: int) -> None:
    if sys.platform != "linux":
        return
    if ctypes.CDLL(None, use_errno=True).prctl(option, ctypes.c_ulong(value), *3 * (ctypes.c_ulong(0),)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl {option}: {os.strerror(number)}")
