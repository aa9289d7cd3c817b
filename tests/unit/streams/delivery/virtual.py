"""A loop on which no time passes but that which somebody waits for: an hour of retries is over at once."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):  # which it is depends on the platform
    """Nothing ever comes from outside, so waiting is over when it begins, and the clock is put on."""

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
        """Seconds since the loop was made."""
        return self._virtual.now


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` on virtual time; what it leaves behind is cancelled, as where a process ends."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
