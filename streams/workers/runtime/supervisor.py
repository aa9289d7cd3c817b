"""The process between the server and users' code: when it ends, every process that the code has started has ended.

    server ──lifeline──► supervisor ──fork──► worker: users' code ──► what that starts
                             ◄───── orphans among all of these, as new children ──┘

A daemon leaves its parent, group and session, and stays a descendant. The supervisor is the subreaper of its
descendants: killing its children until it has none ends all of them. It runs no code of users, and has two reasons to
end: its worker has ended, or the lifeline says so. A server that is killed closes the lifeline.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

from ....materializer.os_process import adopt_orphans

STACKS: Final = b"s"
"""On the lifeline: have the worker print where it is."""
END: Final = b"e"
"""On the lifeline: kill the worker and all that it has started. A closed lifeline says the same."""


def fork_worker(lifeline: int, channel: int) -> int:
    """Fork the worker, and return in the worker alone: the process id of the supervisor.

    Args:
        lifeline: The end of a pipe from which the supervisor reads.
        channel: The socket on which the worker answers; the supervisor closes its copy.
    """
    adopt_orphans()
    supervisor = os.getpid()
    worker = os.fork()
    if worker != 0:
        os.close(channel)
        _supervise(worker, lifeline)
    os.close(lifeline)
    os.setsid()  # what users' code sends to its own group must not reach the supervisor
    return supervisor


def end_descendants() -> None:
    """Kill all descendants of this process, and return when none is left.

    Where only processes of other users are left, which a program such as sudo has started, say so and return.
    """
    options = os.WNOHANG  # nearly always there is no child, and no reason to search for any
    while True:
        try:
            os.waitpid(-1, options)
        except ChildProcessError:
            return
        killed = [_kill(child) for child in _children()]
        if killed and not any(killed):
            sys.stderr.write("processes that run as another user cannot be ended, and go on\n")
            return
        options = 0


def _supervise(worker: int, lifeline: int) -> NoReturn:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: _kill(worker))
    threading.Thread(target=_obey, args=(lifeline, worker), daemon=True).start()
    status = _wait_for(worker)
    with suppress(ProcessLookupError, PermissionError):  # all that is ended where there are no subreapers
        os.killpg(worker, signal.SIGKILL)
    end_descendants()
    _end_with(status)


def _obey(lifeline: int, worker: int) -> None:
    while os.read(lifeline, 1) == STACKS:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGUSR1)
    _kill(worker)


def _wait_for(worker: int) -> int:
    """Return the worker's wait status; orphans that end before it are reaped."""
    while True:
        process, status = os.waitpid(-1, 0)
        if process == worker:
            return status


def _children() -> Iterator[int]:
    """Yield the process ids of this process's children, which include adopted orphans.

    Process ids rise and entries are read one by one, so a child is seen that is forked while this runs.
    """
    here = str(os.getpid())
    if not os.path.isdir("/proc"):
        return
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            with suppress(OSError):  # it has ended
                stat = Path(entry.path, "stat").read_text(errors="replace")
                if stat.rpartition(")")[2].split()[1] == here:
                    yield int(entry.name)


def _kill(process: int) -> bool:
    """Kill a process; False if it is another user's."""
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return True


def _end_with(status: int) -> NoReturn:
    """End this process as the worker has ended."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        with suppress(OSError):  # SIGKILL cannot be given a handler, and needs none
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
        code += 256
    os._exit(code)
