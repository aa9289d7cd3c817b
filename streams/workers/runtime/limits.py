"""What the user's code may take of the machine. Whatever it starts inherits the limits.

What it may take in time is the server's to say, which kills the whole group of processes when a call takes too long.
"""

import os
import re
import resource
from pathlib import Path
from typing import Final

_FILE_BYTES: Final = 1 << 30
_OPEN_FILES: Final = 1024
_MORE_TASKS: Final = 256
_FIELD: Final = re.compile(r"^(Uid|Threads):\t(\d+)", re.MULTILINE)


def set_limits(*, memory_mb: int) -> None:
    """Limit this process: its memory, the size of a file it writes, open files, and how many processes there may be."""
    _lower(resource.RLIMIT_AS, memory_mb << 20)
    _lower(resource.RLIMIT_FSIZE, _FILE_BYTES)
    _lower(resource.RLIMIT_NOFILE, _OPEN_FILES)
    _lower(resource.RLIMIT_CORE, 0)
    tasks = _tasks_of(os.getuid())
    if (
        tasks is not None
    ):  # counted for the user as a whole, so others of the same user have to be left their room
        _lower(resource.RLIMIT_NPROC, tasks + _MORE_TASKS)


def is_room_taken() -> bool:
    """Whether too little is left that may be started here: others of the same user go on to be started."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    try:
        tasks = _tasks_of(os.getuid())
    except OSError:  # no more files can be opened here, which is no better
        return True
    return tasks is not None and limit != resource.RLIM_INFINITY and limit - tasks < _MORE_TASKS // 2


def _lower(kind: int, limit: int) -> None:
    _, most = resource.getrlimit(kind)
    limit = limit if most == resource.RLIM_INFINITY else min(limit, most)
    resource.setrlimit(kind, (limit, limit))


def _tasks_of(user: int) -> int | None:
    """How many processes and threads a user has; None where nothing tells."""
    count = 0
    for process in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(_FIELD.findall(process.read_text(errors="replace")))
        except OSError:
            continue  # it has ended
        if int(fields["Uid"]) == user:  # the owner of the file is root where a process is hidden
            count += int(fields["Threads"])
    return count or None
