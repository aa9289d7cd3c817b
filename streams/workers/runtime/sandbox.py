"""Limits of user code: its system user, its resources, and the processes that it forks.

Every process that it starts inherits the user and the resource limits. The server enforces the time limit: it kills the
whole group of processes when a call takes too long.
"""

import os
import pwd
import re
import resource
import socket
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ....materializer.os_process import refuse_privileges, unhide

_FILE_BYTES: Final = 1 << 30
_OPEN_FILES: Final = 1024
_MORE_TASKS: Final = 256
_FIELD: Final = re.compile(r"^(Uid|Threads):\t(\d+)", re.MULTILINE)


def become(name: str) -> None:
    """Change from root to a user and that user's groups. No program that this process runs gets root again."""
    entry = pwd.getpwnam(name)
    os.setgroups(os.getgrouplist(name, entry.pw_gid))
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)
    refuse_privileges()
    unhide()  # a process that has changed its user cannot read its own files in /proc otherwise


def set_limits(*, memory_mb: int) -> None:
    """Limit this process's memory, written file size, open files, and the number of the user's processes."""
    _lower(resource.RLIMIT_AS, memory_mb << 20)
    _lower(resource.RLIMIT_FSIZE, _FILE_BYTES)
    _lower(resource.RLIMIT_NOFILE, _OPEN_FILES)
    _lower(resource.RLIMIT_CORE, 0)
    tasks = _tasks_of(os.getuid())
    if tasks is not None:  # the limit counts all tasks of the user, so other processes of the user need room
        _lower(resource.RLIMIT_NPROC, tasks + _MORE_TASKS)


def is_room_taken() -> bool:
    """Return whether fewer than half of the allowed tasks are left: other processes of the user keep starting."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    try:
        tasks = _tasks_of(os.getuid())
    except OSError:  # no file can be opened either
        return True
    return tasks is not None and limit != resource.RLIM_INFINITY and limit - tasks < _MORE_TASKS // 2


def _lower(kind: int, limit: int) -> None:
    _, maximum = resource.getrlimit(kind)
    limit = limit if maximum == resource.RLIM_INFINITY else min(limit, maximum)
    resource.setrlimit(kind, (limit, limit))


def _tasks_of(user: int) -> int | None:
    """Return the number of processes and threads of a user; None on a system without /proc."""
    count = 0
    try:  # since Python 3.13 `glob` does not report that the folder cannot be opened
        processes = [process for process in Path("/proc").iterdir() if process.name.isdecimal()]
    except FileNotFoundError:
        return None
    for process in processes:
        try:
            fields = dict(_FIELD.findall((process / "status").read_text(errors="replace")))
        except OSError:
            continue  # the process has ended
        if int(fields["Uid"]) == user:  # the owner of the file is root if the process is hidden
            count += int(fields["Threads"])
    return count or None


def close_in_forks(channel: socket.socket) -> None:
    """Close the socket in every forked process: it belongs to this process alone."""
    os.register_at_fork(after_in_child=channel.close)


@contextmanager
def end_forks() -> Iterator[None]:
    """End a process that was forked inside the block when it leaves the block: it would run on as its parent.

    It ends like a Python process, except that no exit handler runs and no buffer is flushed: the parent does that.
    """
    own_id = os.getpid()
    try:
        yield
        status = 0
    except BaseException as error:
        if os.getpid() == own_id:
            raise
        status = _status(error)
    if os.getpid() != own_id:
        os._exit(status)


def _status(error: BaseException) -> int:
    if isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
        return (error.code or 0) & 0xFF
    traceback.print_exception(error)
    return 1
