"""Time that passes when nobody has anything left to do now.

    call_later ──► due ──► ready in its process, in order ──► one process, drawn by dice, takes a step

A `Process` is an event loop of the shape that the materializer asks for, with a clock of its own that may be wrong.
It can be paused, so that it goes on later and believes that nothing happened; and killed, after which none of its
callbacks runs. Within a process callbacks run in the order in which they were given, as on asyncio's loop; among
processes dice decide. So a seed is one order of everything.
"""

import heapq
import random
from collections import deque
from collections.abc import Callable
from typing import Any

START_MS = 1_700_000_000_000
STEPS_MAX = 200_000
"""A hundred times what a history takes."""


class Timer:
    """What `call_later` returns."""

    __slots__ = ("args", "call", "cancelled", "process")

    def __init__(self, process: "Process", call: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.process, self.call, self.args = process, call, args
        self.cancelled = False

    def cancel(self) -> None:
        """Not any more."""
        self.cancelled = True


class Timeline:
    """Virtual time, in seconds since the history began, and all that is going to happen in it."""

    def __init__(self, dice: random.Random) -> None:
        self.now = 0.0
        self.steps = 0
        self.dice = dice
        self._due: list[tuple[float, int, Timer]] = []
        self._scheduled = 0
        self._turns: list[Process] = []  # a process for each of its ready callbacks

    def after(self, delay: float, process: "Process", call: Callable[..., object], *args: Any) -> Timer:
        """Have a process call something when so many seconds have passed."""
        self._scheduled += 1
        timer = Timer(process, call, args)
        heapq.heappush(self._due, (self.now + delay, self._scheduled, timer))
        return timer

    def ready(self, process: "Process") -> None:
        """A process has one more callback to run now."""
        self._turns.append(process)

    def run(self, until: float) -> None:
        """Let everything happen that does before a moment, and be there."""
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
        """When the next thing happens that is not cancelled, if anything ever does."""
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
        """Milliseconds since 1970, as this process believes."""
        return START_MS + self.skew_ms + int(self._timeline.now * 1000)

    def call_soon(self, call: Callable[..., object], *args: Any) -> None:
        """Have something called in one of the next turns."""
        self._append((None, call, args))

    def call_later(self, delay: float, call: Callable[..., object], *args: Any) -> Timer:
        """Have something called when so many seconds have passed."""
        return self._timeline.after(delay, self, call, *args)

    def take(self, timer: Timer) -> None:
        """A timer has gone off."""
        self._append((timer, timer.call, timer.args))

    def pause(self) -> None:
        """Run nothing until `resume`; what becomes ready waits."""
        self._paused = True

    def resume(self) -> None:
        """Go on as if nothing had been."""
        if self._paused:
            self._paused = False
            for _ in self._ready:
                self._timeline.ready(self)

    @property
    def paused(self) -> bool:
        """Whether it stands still."""
        return self._paused

    def kill(self) -> None:
        """Run nothing, ever again."""
        self.dead = True
        self._ready.clear()

    def turn(self) -> None:
        """Run the callback that has waited longest."""
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
