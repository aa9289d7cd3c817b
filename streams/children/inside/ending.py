"""A child ends with the server that started it, whatever runs in it, and with all that it has started itself."""

import os
import select
import signal
import socket
import threading
from contextlib import suppress

running: set[int] = set()
"""The groups of processes that commands run in now."""


def end_with(channel: socket.socket) -> None:
    """When the other end is gone, end at once. A thread of its own looks: the first may be in a loop without end."""

    def watch() -> None:
        poll = select.poll()
        poll.register(channel, 0)  # a hang-up is always told
        poll.poll()
        end()

    threading.Thread(target=watch, name="foldb-watch", daemon=True).start()


def end() -> None:
    """End this process and all groups."""
    for group in list(running):
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    os.killpg(0, signal.SIGKILL)
