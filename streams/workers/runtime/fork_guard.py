"""What the user's code forks has no part in the conversation with the server."""

import os
import socket
import traceback
from collections.abc import Iterator
from contextlib import contextmanager


def keep_from_forks(channel: socket.socket) -> None:
    """Close the socket in any process that is forked: its end must be the end of this process alone."""
    os.register_at_fork(after_in_child=channel.close)


@contextmanager
def alone() -> Iterator[None]:
    """End a process that was forked within when it comes out: it would go on in the place of the one that forked it.

    It ends as a process of Python's does, but that nothing is run at its exit and nothing flushed, which is the
    other's to do.
    """
    here = os.getpid()
    try:
        yield
        status = 0
    except BaseException as error:
        if os.getpid() == here:
            raise
        status = _status(error)
    if os.getpid() != here:
        os._exit(status)


def _status(error: BaseException) -> int:
    if isinstance(error, SystemExit) and (error.code is None or isinstance(error.code, int)):
        return (error.code or 0) & 0xFF
    traceback.print_exception(error)
    return 1
