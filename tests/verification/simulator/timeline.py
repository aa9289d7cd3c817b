"""Virtual time, which advances when no callback is ready.

    call_later ──► due ──► ready in its process, in order ──► one process, drawn at random, runs a callback

A `Process` has the part of an event loop that the materializer needs, with a clock of its own that may be wrong. It
can be paused, and resumes without noticing; and killed, after which none of its callbacks runs. The callbacks of one
process run in the order in which they were scheduled, as on asyncio's loop; the order among processes is random. So
a seed determines the order of everything.
"""

import heapq
import random
from collections import deque
from collections.abc import Callable
from typing import Any

START_MS = 1_700_000_000_000
STEPS_MAX = 200_000
"""A hundred times the steps of a usual history."""


class Timer:
    """The result of `call_later`."""

    __slots__ = ("args", "call", "cancelled", "process")

    def __init__(self, process: "Process", call: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.process, self.call, self.args = process, call, args
        self.cancelled = False

    def cancel(self) -> None:
        """Cancel the call."""
        self.cancelled = True


class Timeline:
    """Virtual time, in seconds since the history began, and all scheduled events."""

    def __init__(self, dice: random.Random) -> None:
        self.now = 0.0
        self.steps = 0
        self.dice = dice
        self._due: list[tuple[float, int, Timer]] = []
        self._scheduled = 0
        self._turns: list[Process] = []  # one element per ready callback: its process

    def after(self, delay: float, process: "Process", call: Callable[..., object], *args: Any) -> Timer:
        """Schedule a call in a process after a delay."""
        self._scheduled += 1
        timer = Timer(process, call, args)
        heapq.heappush(self._due, (self.now + delay, self._scheduled, timer))
        return timer

    def ready(self, process: "Process") -> None:
        """Add a ready callback of a process."""
        self._turns.append(process)

    def run(self, until: float) -> None:
        """Run everything that is due before a moment, and advance to it."""
        turns, due, draw = self._turns, self._due, self.dice.random
        while True:
            while turns:
                nth = int(draw() * len(turns))
                turns[nth], turns[-1] = turns[-1], turns[nth]
                turns.pop().turn()
                self.steps += 1
                assert self.steps < STEPS_MAX, "somebody is busy for ever"
            if not due or due[0][0] > until:
                break
            self.now, _, timer = heapq.heappop(due)
            if not timer.cancelled:
                timer.process.take(timer)
        self.now = until

    @property
    def next_due(self) -> float | None:
        """Return the time of the next event that is not cancelled, if there is one."""
        while self._due and (self._due[0][2].cancelled or self._due[0][2].process.dead):
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None


class Process:
    """One process's loop and clock."""

    def __init__(self, timeline: Timeline, name: str, *, skew_ms: int = 0) -> None:
        self.name = name
        self.dead = False
        self.skew_ms = skew_ms
        self._timeline = timeline
        self._ready: deque[tuple[Timer | None, Callable[..., object], tuple[Any, ...]]] = deque()
        self._paused = False

    def clock(self) -> int:
        """Return this process's milliseconds since 1970."""
        return START_MS + self.skew_ms + int(self._timeline.now * 1000)

    def call_soon(self, call: Callable[..., object], *args: Any) -> None:
        """Schedule a call in one of the next turns."""
        self._append((None, call, args))

    def call_later(self, delay: float, call: Callable[..., object], *args: Any) -> Timer:
        """Schedule a call after a delay."""
        return self._timeline.after(delay, self, call, *args)

    def take(self, timer: Timer) -> None:
        """Make an expired timer ready."""
        self._append((timer, timer.call, timer.args))

    def pause(self) -> None:
        """Run nothing until `resume`; ready callbacks wait."""
        self._paused = True

    def resume(self) -> None:
        """Continue."""
        if self._paused:
            self._paused = False
            for _ in self._ready:
                self._timeline.ready(self)

    @property
    def paused(self) -> bool:
        """Whether it is paused."""
        return self._paused

    def kill(self) -> None:
        """Run no callback again."""
        self.dead = True
        self._ready.clear()

    def turn(self) -> None:
        """Run the oldest ready callback."""
        if self._paused or not self._ready:
            return
        timer, call, args = self._ready.popleft()
        if timer is None or not timer.cancelled:
            call(*args)

    def _append(self, callback: tuple[Timer | None, Callable[..., object], tuple[Any, ...]]) -> None:
        if self.dead:
            return
        self._ready.append(callback)
        if not self._paused:
            self._timeline.ready(self)
