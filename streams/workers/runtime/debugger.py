"""Calls a function of a trigger in Python's debugger, on the terminal of `foldb trigger debug`.

    job: the worker's `load` message, and its calls ──► break at the function's first line ──► pdb ──► the next call

`python -m foldb.streams.workers.runtime.debugger JOB`: a file with the job in JSON. The process has the environment and
the working directory of a worker, and neither its limits nor its supervisor. The exit status is that of `Status`.
"""

import bdb
import functools
import importlib
import inspect
import pdb
import sys
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

import orjson

from .errors import describe
from .modules import Modules

_KINDS: Final = {"python": "functions", "lambda": "handlers"}


class Status(IntEnum):
    """How the debugging ended."""

    DONE = 0
    NOT_LOADED = 3
    FAILED = 4
    QUIT = 5


class DebuggedModules(Modules):
    """Modules whose function, once found, runs in the debugger."""

    def __init__(self, texts: Any, debugger: "Debugger") -> None:
        super().__init__(texts)
        self._debugger = debugger

    def find(self, path: str) -> Any:
        found = super().find(path)
        return self._debugger.debugged(found) if callable(found) else found


class Debugger(pdb.Pdb):
    """A pdb that stops at the first line of the function, and after an exception at the line that raised it.

    Attributes:
        is_quit: Whether the user quit.
    """

    def __init__(self) -> None:
        super().__init__(skip=["foldb.*", "__main__", "asyncio.*"])
        self.is_quit = False

    def debugged(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function with the same signature that debugs each call."""
        code = inspect.unwrap(function).__code__
        self.set_break(code.co_filename, code.co_firstlineno, funcname=code.co_name)

        @functools.wraps(function)
        def run(*arguments: Any, **keywords: Any) -> Any:
            answer = self._traced(lambda: function(*arguments, **keywords))
            return self._awaited(answer) if inspect.isawaitable(answer) else answer

        return run

    async def _awaited(self, answer: Any) -> Any:
        """Run a coroutine to its end. Its steps run below this one, and are traced."""
        self._begin()
        try:
            return await answer
        except bdb.BdbQuit:
            self.is_quit = True
            raise
        except Exception:
            self._look_back()
            raise
        finally:
            sys.settrace(None)

    def _traced(self, call: Callable[[], Any]) -> Any:
        self._begin()
        try:
            return call()
        except bdb.BdbQuit:
            self.is_quit = True
            raise
        except Exception:
            self._look_back()
            raise
        finally:
            sys.settrace(None)

    def _begin(self) -> None:
        """Trace the calls from here on. Nothing stops before a breakpoint is reached."""
        self.reset()
        self.botframe = sys._getframe().f_back
        self.set_continue()
        sys.settrace(self.trace_dispatch)

    def _look_back(self) -> None:
        """Enter the debugger where an exception was raised."""
        sys.settrace(None)
        traceback = sys.exc_info()[2]
        assert traceback is not None
        while traceback.tb_next is not None and "foldb" in str(traceback.tb_frame.f_globals.get("__name__")):
            traceback = traceback.tb_next
        self.message("the function raised an exception: look at it, and continue with c")
        self.reset()
        self.interaction(None, traceback)


def main(path: str) -> Status:
    """Make the calls of a job, and print the result of each."""
    job = orjson.loads(Path(path).read_bytes())
    debugger = Debugger()
    modules = DebuggedModules(job["load"]["texts"], debugger)
    modules.install()
    kind = importlib.import_module(f"{__package__}.{_KINDS[job['load']['kind']]}")
    try:
        call, _ = kind.load(modules, job["load"])
    except Exception as error:
        print(describe(error)["traceback"], file=sys.stderr)  # noqa: T201  the terminal is the interface
        return Status.NOT_LOADED
    failed = False
    for each in job["calls"]:
        print(each["title"], flush=True)  # noqa: T201
        try:
            answer = call(each["message"], each["body"].encode())
        except BaseException as error:
            answer = describe(error)
        if debugger.is_quit:
            return Status.QUIT
        failed |= "error" in answer
        print(answer.get("error", "success"), flush=True)  # noqa: T201
    return Status.FAILED if failed else Status.DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
