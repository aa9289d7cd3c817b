"""An event loop whose turns and clock the test controls."""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, cast


class Timer:
    def __init__(self, call: Callable[[], object]) -> None:
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeLoop:
    """The part of a loop that the materializer needs, and a clock that moves only with `advance`."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._start = now_ms
        self._elapsed = 0.0
        self._ready: deque[Callable[[], object]] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._count = 0

    def clock(self) -> int:
        """Milliseconds since 1970."""
        return self._start + round(self._elapsed * 1000)

    def time(self) -> float:
        """Seconds since any moment."""
        return self._elapsed

    def set_back(self, seconds: int) -> None:
        """Set the clock back. The timers go on."""
        self._start -= seconds * 1000

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> None:
        if context is None:
            self._ready.append(lambda: callback(*args))
        else:
            self._ready.append(lambda: context.run(callback, *args))

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> None:
        self._ready.append(lambda: callback(*args))  # a deque, which any thread may append to

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=cast(asyncio.AbstractEventLoop, self))

    def create_task(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        return asyncio.Task(work, loop=cast(asyncio.AbstractEventLoop, self))

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        raise AssertionError(context)

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        self._count += 1
        timer = Timer(lambda: callback(*args))
        heapq.heappush(self._timers, (self._elapsed + delay, self._count, timer))
        return timer

    def turn(self) -> None:
        """Run the ready callbacks; those that they schedule run in the next turn."""
        for _ in range(len(self._ready)):
            self._ready.popleft()()

    def settle(self) -> None:
        """Run turns until no callback is ready."""
        while self._ready:
            self.turn()

    def advance(self, seconds: float) -> None:
        """Advance the clock, running due timers in their order."""
        until = self._elapsed + seconds
        self.settle()
        while self._timers and self._timers[0][0] <= until:
            self._elapsed, _, timer = heapq.heappop(self._timers)
            if not timer.cancelled:
                timer.call()
            self.settle()
        self._elapsed = until
