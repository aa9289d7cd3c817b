"""Calling a Python function, sync or async, with one change at a time or with a batch.

    def f(change: Change)                         once for each change, in order
    def f(changes: list[Change])                  once for a batch
    def f(changes: list[Change], window: Window)  with the state of a tumbling window

Which it is, is what its first parameter's annotation says; one that says nothing gets one change at a time. A second
parameter with a default is the function's own, unless it says that it is a window.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, MutableSequence, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..change import Change, ChangeError, Window, read_changes, time_of
from ..frames import Head
from . import telemetry
from .annotations import kind_of, positional
from .errors import told
from .fork_guard import alone
from .modules import Modules

if TYPE_CHECKING:
    import asyncio

_BATCHES: Final = (list, tuple, Sequence, MutableSequence, Iterable, Collection)


def load(modules: Modules, head: Head) -> tuple[Callable[[Head, bytes], Head], bool]:
    """Import the function that `module:name` names; what calls it, and whether it gets one change at a time."""
    function = modules.find(head["name"])
    if not callable(function):
        raise TypeError(f"{head['name']} is no function")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{head['name']} has a yield in it, so calling it runs none of its lines")
    loaded = Function(function, head["subscription"])
    return loaded.call, loaded.is_single


class Function:
    """A user's function, and the loop that it runs on if it is async.

    Attributes:
        is_single: Whether it gets one change at a time.
    """

    def __init__(self, function: Callable[..., Any], subscription: str) -> None:
        self._function = function
        self._subscription = subscription
        self._gather = gatherer(function)
        self.is_single = self._gather is None
        self._takes_window = takes_window(function)
        self._runner: asyncio.Runner | None = None

    def call(self, head: Head, body: bytes) -> Head:
        """Call it with what `body` tells of; the answer is `{}`, `{"state": ...}` or what went wrong."""
        changes = read_changes(body, self._subscription)
        with telemetry.continuing(head.get("trace")):
            if self._gather is None:
                return self._one_by_one(changes)
            return self._batch(head, self._gather(changes))

    def _one_by_one(self, changes: list[Change]) -> Head:
        for at, change in enumerate(changes):
            try:
                self._run(change)
            except BaseException as error:
                return {**told(error), "failed": at}
        return {}

    def _batch(self, head: Head, changes: Sequence[Change]) -> Head:
        window = _window(head.get("window"))
        try:
            answer = self._run(changes, window) if self._takes_window else self._run(changes)
        except ChangeError as error:
            failed = {**told(error), "failed": _place_of(error.change, changes)}
            return failed if window is None else {**failed, "state": window.state}
        if window is None:
            return {}
        return {"state": answer if isinstance(answer, dict) else window.state}

    def _run(self, *arguments: Any) -> Any:
        with alone():
            answer = self._function(*arguments)
            if inspect.isawaitable(answer):
                return self._await(answer)
        if inspect.isgenerator(answer) or inspect.isasyncgen(answer):  # a decorator hides what it calls
            raise TypeError("it returned a generator, of which no line has run")
        return answer

    def _await(self, answer: Any) -> Any:
        """Run it on a loop that lasts from call to call, so that what the function keeps open on it stays."""
        if self._runner is None:
            import asyncio  # which takes as long to load as all else here

            self._runner = asyncio.Runner()
        return self._runner.run(_awaited(answer))


def gatherer(function: Callable[..., Any]) -> type[list[Change]] | type[tuple[Change, ...]] | None:
    """What makes a batch of changes, if its first parameter is annotated as several."""
    parameters = positional(function)
    if not parameters:
        raise TypeError("a trigger's function takes a Change, or a list[Change]")
    kind = kind_of(parameters[0].annotation, _BATCHES)
    return tuple if kind is tuple else None if kind is None else list


def takes_window(function: Callable[..., Any]) -> bool:
    """Whether its second parameter is a window's."""
    return any(
        second.default is second.empty or second.name == "window" or kind_of(second.annotation, (Window,))
        for second in positional(function)[1:2]
    )


async def _awaited(answer: Any) -> Any:
    return await answer


def _place_of(change: Change, changes: Sequence[Change]) -> int | None:
    """Where in the batch it stands; None, which fails all of it, where it is not part of it."""
    return next((at for at, each in enumerate(changes) if each is change), None)


def _window(told: Head | None) -> Window | None:
    if told is None:
        return None
    return Window(time_of(told["start"]), time_of(told["end"]), told["state"], told["final"])
