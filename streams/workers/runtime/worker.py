"""The process itself. It reads a question, answers it, and ends with the server.

    fork ──► supervisor.py
      └► limits ──► load: import the user's module ──► call, call, call ...      load may be `declare` instead

python -m foldb.streams.workers.runtime.worker CHANNEL LIFELINE SETTINGS: the worker's end of a socket to the
server, the
supervisor's end of a pipe from it, and JSON with the limits and the `user` of the worker.
"""

import faulthandler
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import orjson

from ....materializer.os_process import end_with_parent
from ..frames import Head, encode, receive
from . import limits
from .errors import told
from .fork_guard import alone, keep_from_forks
from .modules import Modules
from .os_user import become
from .supervisor import fork_worker

Answer: TypeAlias = Callable[[Head, bytes], Head]

# Who answers a call, by the kind of sink. Each module is loaded when it is needed, so that a child starts fast.
_KINDS: Final = {"python": "functions", "lambda": "handlers", "command": "commands"}


class Session:
    """What has been loaded, and what answers calls."""

    def __init__(self) -> None:
        self._call: Answer | None = None
        self._modules: Modules | None = None

    def answer(self, head: Head, body: bytes) -> bytes:
        """Do what is asked; the frame of the answer. One that is `spent` is this child's last."""
        answer = self._answer(head, body)
        if "error" in answer and limits.is_room_taken():
            answer["spent"] = True
        try:
            return encode(answer)
        except TypeError as error:  # the user's code has its part in it
            return encode(told(TypeError(f"an answer that is no JSON: {error}")))

    def _answer(self, head: Head, body: bytes) -> Head:
        """Whatever the user's code raises is an answer too."""
        try:
            with alone():
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
        self._call, is_single = kind.load(modules, head)
        return {"version": modules.version(), "single": is_single}

    def _declared(self, head: Head) -> Head:
        """What a module declares; one child may be asked for several."""
        from ...decorator import read_declarations

        self._importing(head["texts"])
        return {"declared": read_declarations(head["module"])}

    def _importing(self, texts: Any) -> Modules:
        if self._modules is None:
            self._modules = Modules(texts)
            self._modules.install()
        return self._modules


def main(arguments: list[str]) -> None:
    """Answer until the server closes the channel."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C on a terminal is for the server, which then ends us
    settings = orjson.loads(arguments[2])
    supervisor = fork_worker(lifeline=int(arguments[1]), channel=int(arguments[0]))
    if user := settings.pop("user", None):
        become(user)
    end_with_parent(supervisor)
    channel = socket.socket(fileno=int(arguments[0]))
    channel.set_inheritable(False)
    # Asked for when a call takes too long: where it is, told by C code, which no loop of Python's keeps away.
    faulthandler.register(signal.SIGUSR1, all_threads=False, chain=False)
    keep_from_forks(channel)
    limits.set_limits(**settings)
    session = Session()
    while True:
        try:
            head, body = receive(channel)
        except (EOFError, OSError):
            return
        channel.sendall(session.answer(head, body))


if __name__ == "__main__":
    main(sys.argv[1:])
