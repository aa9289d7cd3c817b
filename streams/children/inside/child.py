"""The process itself. It reads a question, answers it, and ends with whoever asks.

    limits ──► load: import the user's module ──► call, call, call ...      load may be `declare` instead

python -m foldb.streams.children.inside.child FD LIMITS: FD is its end of a socket to the server.
"""

import faulthandler
import json
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeAlias

from ..frames import Head, encode, receive_blocking
from . import limits
from .errors import told
from .modules import Modules

Answer: TypeAlias = Callable[[Head, bytes], Head]

# Who answers a call, by the kind of sink. Each module is loaded when it is needed, so that a child starts fast.
_KINDS: Final = {"python": "functions", "lambda": "handlers", "command": "commands"}


class Session:
    """What has been loaded, and what answers calls."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._call: Answer | None = None
        self._modules: Modules | None = None

    def answer(self, head: Head, body: bytes) -> Head:
        """Do what is asked. Whatever the user's code raises is an answer too."""
        try:
            match head["do"]:
                case "load":
                    return self._load(head)
                case "declare":
                    return self._declared(head)
            assert self._call is not None, "a child is loaded before it is called"
            return self._call(head, body)
        except BaseException as error:  # SystemExit too: a function that calls sys.exit has failed
            return told(error)

    def _load(self, head: Head) -> Head:
        modules = self._importing(head["texts"])
        kind = __import__(_KINDS[head["kind"]], globals(), level=1)
        self._call = kind.load(modules, head, self.say)
        return {"version": modules.version(), "used": modules.used()}

    def _declared(self, head: Head) -> Head:
        """What a module declares; one child may be asked for several."""
        from ...declared import read_declarations

        self._importing(head["texts"])
        return {"declared": read_declarations(head["module"])}

    def _importing(self, texts: Any) -> Modules:
        if self._modules is None:
            self._modules = Modules(texts)
            self._modules.install()
        return self._modules

    def say(self, head: Head) -> None:
        """Tell something before the answer."""
        self._channel.sendall(encode(head))


def _end_with(channel: socket.socket) -> None:
    """When the other end is gone end at once, whatever runs here, with all that was started here."""

    def watch() -> None:
        poll = select.poll()
        poll.register(channel, 0)  # a hang-up is always told
        poll.poll()
        end()

    threading.Thread(target=watch, name="foldb-watch", daemon=True).start()


def end() -> None:
    """End this process and its group."""
    from .commands import running

    for group in running:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    os.killpg(0, signal.SIGKILL)


def main(arguments: list[str]) -> None:
    """Answer until the server is gone."""
    channel = socket.socket(fileno=int(arguments[0]))
    # Asked for when a call takes too long: where it is, told by C code, which no loop of Python's keeps away.
    faulthandler.register(signal.SIGUSR1, all_threads=False, chain=False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C on a terminal is for the server, which then ends us
    _end_with(channel)
    given: dict[str, Any] = json.loads(arguments[1])
    limits.set_limits(**given)
    session = Session(channel)
    while True:
        try:
            head, body = receive_blocking(channel)
        except (EOFError, OSError):
            end()
        channel.sendall(encode(session.answer(head, body)))


if __name__ == "__main__":
    main(sys.argv[1:])
