"""Calls a Python function, sync or async, with one change at a time or with a batch.

    def f(change: Change)                         once for each change, in order
    def f(changes: list[Change])                  once for a batch
    def f(changes: list[Change], window: Window)  with the state of a tumbling window

The annotation of the first parameter decides; without one the function takes one change at a time. A second parameter
with a default is ignored, unless its annotation or name is that of a window.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, MutableSequence, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..change import Change, ChangeError, Window, read_changes, time_of
from ..frames import WorkerMessage
from . import telemetry
from .annotations import kind_of, positional
from .errors import describe
from .modules import Modules
from .sandbox import end_forks

if TYPE_CHECKING:  # importing it takes as long as everything else here
    import asyncio

_BATCHES: Final = (list, tuple, Sequence, MutableSequence, Iterable, Collection)


def load(
    modules: Modules, message: WorkerMessage
) -> tuple[Callable[[WorkerMessage, bytes], WorkerMessage], bool]:
    """Import the function `module:name`. Return a function that calls it, and whether it takes one change at a time."""
    function = modules.find(message["name"])
    if not callable(function):
        raise TypeError(f"{message['name']} is not a function")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{message['name']} has a yield, so a call of it runs none of its lines")
    loaded = Function(function, message["subscription"])
    return loaded.call, loaded.is_single


class Function:
    """A user's function, and the event loop that it runs on if it is async.

    Attributes:
        is_single: Whether it takes one change at a time.
    """

    def __init__(self, function: Callable[..., Any], subscription: str) -> None:
        self._function = function
        self._subscription = subscription
        self._gather = gatherer(function)
        self.is_single = self._gather is None
        self._takes_window = takes_window(function)
        self._runner: asyncio.Runner | None = None

    def call(self, message: WorkerMessage, body: bytes) -> WorkerMessage:
        """Call the function with the changes in `body`. Return `{}`, `{"state": ...}` or the error."""
        changes = read_changes(body, self._subscription)
        with telemetry.continuing(message.get("trace")):
            if self._gather is None:
                return self._one_by_one(changes)
            return self._batch(message, self._gather(changes))

    def _one_by_one(self, changes: list[Change]) -> WorkerMessage:
        for index, change in enumerate(changes):
            try:
                self._run(change)
            except BaseException as error:
                return {**describe(error), "failed": index}
        return {}

    def _batch(self, message: WorkerMessage, changes: Sequence[Change]) -> WorkerMessage:
        window = _window(message.get("window"))
        try:
            answer = self._run(changes, window) if self._takes_window else self._run(changes)
        except ChangeError as error:
            failed = {**describe(error), "failed": _index_of(error.change, changes)}
            return failed if window is None else {**failed, "state": window.state}
        if window is None:
            return {}
        return {"state": answer if isinstance(answer, dict) else window.state}

    def _run(self, *arguments: Any) -> Any:
        with end_forks():
            answer = self._function(*arguments)
            if inspect.isawaitable(answer):
                return self._await(answer)
        if inspect.isgenerator(answer) or inspect.isasyncgen(
            answer
        ):  # a decorator hides the generator function
            raise TypeError("it returned a generator, of which no line has run")
        return answer

    def _await(self, answer: Any) -> Any:
        """Run a coroutine on a loop that lasts over calls, so that connections of the function stay open on it."""
        if self._runner is None:
            import asyncio  # takes as long to import as everything else here

            self._runner = asyncio.Runner()
        return self._runner.run(_awaited(answer))


def gatherer(function: Callable[..., Any]) -> type[list[Change]] | type[tuple[Change, ...]] | None:
    """Return the type of a batch of changes, if the first parameter's annotation names several changes."""
    parameters = positional(function)
    if not parameters:
        raise TypeError("a trigger's function takes a Change, or a list[Change]")
    kind = kind_of(parameters[0].annotation, _BATCHES)
    return tuple if kind is tuple else None if kind is None else list


def takes_window(function: Callable[..., Any]) -> bool:
    """Return whether the second parameter is a window."""
    return any(
        second.default is second.empty or second.name == "window" or kind_of(second.annotation, (Window,))
        for second in positional(function)[1:2]
    )


async def _awaited(answer: Any) -> Any:
    return await answer


def _index_of(change: Change, changes: Sequence[Change]) -> int | None:
    """Return the index of a change in its batch; None, which fails the whole batch, if it is not part of it."""
    return next((index for index, each in enumerate(changes) if each is change), None)


def _window(message: WorkerMessage | None) -> Window | None:
    if message is None:
        return None
    return Window(time_of(message["start"]), time_of(message["end"]), message["state"], message["final"])
