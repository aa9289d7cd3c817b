"""The process between the server and user code: when it ends, every process that the code has started has ended.

    server ──lifeline──► supervisor ──fork──► worker: user code ──► processes that it starts
                             ◄───── orphans among all of these, as new children ────┘

A daemon leaves its parent, group and session, and stays a descendant. The supervisor is the subreaper of its
descendants, so it ends all of them by killing its children until it has none. It runs no user code. It ends when its
worker ends, or when the lifeline says so. A server that is killed closes the lifeline.
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
"""Sent on the lifeline: the worker prints its stack."""
END: Final = b"e"
"""Sent on the lifeline: kill the worker and all processes that it has started. A closed lifeline means the same."""


def fork_worker(lifeline: int, channel: int) -> int:
    """Fork the worker. Return in the worker alone, with the process id of the supervisor.

    Args:
        lifeline: The read end of a pipe from the server.
        channel: The socket on which the worker answers; the supervisor closes its copy.
    """
    adopt_orphans()
    supervisor = os.getpid()
    worker = os.fork()
    if worker != 0:
        os.close(channel)
        _supervise(worker, lifeline)
    os.close(lifeline)
    os.setsid()  # signals of user code to its own group must not reach the supervisor
    return supervisor


def end_descendants() -> None:
    """Kill all descendants of this process, and return when none is left.

    If only processes of other users are left, which a program such as sudo has started, write a message and return.
    """
    options = os.WNOHANG  # nearly always there is no child, and no reason to search for one
    while True:
        try:
            os.waitpid(-1, options)
        except ChildProcessError:
            return
        killed = [_kill(child) for child in _children()]
        if killed and not any(killed):
            sys.stderr.write("processes that run as another user cannot be ended and keep running\n")
            return
        options = 0


def _supervise(worker: int, lifeline: int) -> NoReturn:
    for signal_number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(signal_number, lambda *_: _kill(worker))
    threading.Thread(target=_obey, args=(lifeline, worker), daemon=True).start()
    status = _wait_for(worker)
    with suppress(ProcessLookupError, PermissionError):  # the only way to end descendants without a subreaper
        os.killpg(worker, signal.SIGKILL)
    end_descendants()
    _end_with(status)


def _obey(lifeline: int, worker: int) -> None:
    while os.read(lifeline, 1) == STACKS:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGUSR1)
    _kill(worker)


def _wait_for(worker: int) -> int:
    """Return the worker's wait status; orphans that end earlier are reaped."""
    while True:
        process, status = os.waitpid(-1, 0)
        if process == worker:
            return status


def _children() -> Iterator[int]:
    """Yield the process ids of this process's children, adopted orphans included.

    The kernel's list is read in microseconds, so a chain of processes of which each forks the next and ends has no
    time to go on. A kernel without such lists (CONFIG_PROC_CHILDREN) has all processes searched.
    """
    try:
        for task in os.scandir("/proc/self/task"):  # an orphan is adopted by one of the threads
            yield from map(int, Path(task.path, "children").read_bytes().split())
    except (FileNotFoundError, ProcessLookupError):  # no such lists, or a thread that has just ended
        yield from _search_children()


def _search_children() -> Iterator[int]:
    """Yield the children among all processes.

    Process ids rise and entries are read one by one, so children forked during the search are found too.
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
    """Kill a process. Return False if it belongs to another user."""
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return True


def _end_with(status: int) -> NoReturn:
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        with suppress(OSError):  # SIGKILL cannot be given a handler, and needs none
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
        code += 256
    os._exit(code)
