"""An event loop on virtual time: it advances the clock to the next timer, so an hour of retries takes no time."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):  # its class depends on the platform
    """A selector without events: a wait ends at once and advances the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "everybody waits for somebody else"
        self.now += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on virtual time."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        """Return the seconds since the loop was made."""
        return self._virtual.now


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` on virtual time, and cancel the tasks that it leaves, like the end of a process."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
