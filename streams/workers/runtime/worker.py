"""The worker process. It reads a request, answers it, and ends with the server.

    fork ──► supervisor.py
      └► limits ──► load: import the user's module ──► call, call, call ...      `declare` may come instead of `load`

`python -m foldb.streams.workers.runtime.worker CHANNEL LIFELINE SETTINGS`: the worker's end of a socket to the server,
the supervisor's end of a pipe from it, and JSON with the limits and the `user` of the worker.
"""

import faulthandler
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import orjson

from ....materializer.os_process import end_with_parent
from ..frames import WorkerMessage, encode, receive
from . import sandbox
from .errors import describe
from .modules import Modules
from .sandbox import become, close_in_forks, end_forks
from .supervisor import fork_worker

CallHandler: TypeAlias = Callable[[WorkerMessage, bytes], WorkerMessage]

# The module that answers calls, by kind of sink. It is imported on demand, so that a worker starts fast.
_KINDS: Final = {"python": "functions", "lambda": "handlers", "command": "commands"}


class WorkerSession:
    """The loaded code, and the function that answers calls."""

    def __init__(self) -> None:
        self._call: CallHandler | None = None
        self._modules: Modules | None = None

    def answer(self, message: WorkerMessage, body: bytes) -> bytes:
        """Handle a request. Return the frame of the answer. A worker whose answer is `spent` is replaced."""
        answer = self._answer(message, body)
        if "error" in answer and sandbox.is_room_taken():
            answer["spent"] = True
        try:
            return encode(answer)
        except TypeError as error:  # user code takes part in the answer
            return encode(describe(TypeError(f"the answer is not JSON: {error}")))

    def _answer(self, message: WorkerMessage, body: bytes) -> WorkerMessage:
        """Handle a request. An exception of user code becomes an answer too."""
        try:
            with end_forks():
                match message["do"]:
                    case "load":
                        return self._load(message)
                    case "declare":
                        return self._declared(message)
                assert self._call is not None, "`load` comes before `call`"
                return self._call(message, body)
        except BaseException as error:  # SystemExit too: a function that calls sys.exit has failed
            return describe(error)

    def _load(self, message: WorkerMessage) -> WorkerMessage:
        modules = self._importing(message["texts"])
        kind = __import__(_KINDS[message["kind"]], globals(), level=1)
        self._call, is_single = kind.load(modules, message)
        return {"version": modules.version(), "single": is_single}

    def _declared(self, message: WorkerMessage) -> WorkerMessage:
        """Return the declarations of a module; one worker may read several modules."""
        from ...decorator import read_declarations

        self._importing(message["texts"])
        return {"declared": read_declarations(message["module"])}

    def _importing(self, texts: Any) -> Modules:
        if self._modules is None:
            self._modules = Modules(texts)
            self._modules.install()
        return self._modules


def main(arguments: list[str]) -> None:
    """Answer requests until the server closes the channel."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C on a terminal is for the server, which then ends the worker
    settings = orjson.loads(arguments[2])
    supervisor = fork_worker(lifeline=int(arguments[1]), channel=int(arguments[0]))
    if user := settings.pop("user", None):
        become(user)
    end_with_parent(supervisor)
    channel = socket.socket(fileno=int(arguments[0]))
    channel.set_inheritable(False)
    # The server asks for the stack when a call takes too long. C code prints it, even if a Python loop never yields.
    faulthandler.register(signal.SIGUSR1, all_threads=False, chain=False)
    close_in_forks(channel)
    sandbox.set_limits(**settings)
    session = WorkerSession()
    while True:
        try:
            message, body = receive(channel)
        except (EOFError, OSError):
            return
        channel.sendall(session.answer(message, body))


if __name__ == "__main__":
    main(sys.argv[1:])
