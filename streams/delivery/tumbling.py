"""Tumbling windows: stretches of log time, one after another, whose batches hand a state on to each other.

    {} ──► batch ──► state ──► batch ──► state ──► ... ──► the final call, without changes

The state is a function of the window's changes, so it need not be kept: the checkpoint stays before the first change of
a window until its final call is done, and whoever goes on after a crash delivers the window anew, from {}.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..formats.table_view import Delivery
from ..sinks.sink import DeliveryResult, Success, Unsubscribed, Window
from .attempts import BlockedError, DeliveryContext, GoneError

CallWindow: TypeAlias = Callable[[Sequence[Delivery], int, Window], Awaitable[DeliveryResult]]
"""Calls with some changes of a window; the number is that of the attempt."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Open:
    start_ms: int
    first: Delivery
    state: dict[str, Any]


class Tumbling:
    """The windows of one lane, of which one at a time is open."""

    def __init__(self, around: DeliveryContext) -> None:
        self._around = around
        self._size = around.terms.tumbling_ms
        self._open: _Open | None = None
        self._time = 0

    def start_of(self, time_ms: int) -> int:
        """When the window of that time begins."""
        return time_ms - time_ms % self._size

    @property
    def end_ms(self) -> int | None:
        """When the open window is over, if one is open."""
        return None if self._open is None else self._open.start_ms + self._size

    def held(self) -> tuple[Delivery, ...]:
        """The first change of the open window: the checkpoint stays before it."""
        return () if self._open is None else (self._open.first,)

    def has_passed(self, time_ms: int) -> bool:
        """No change of before `time_ms` will come; True if the open window is over by that."""
        self._time = max(self._time, time_ms)
        return self._is_over()

    def window(self, *, is_final: bool = False) -> Window:
        """The open window, as a call is told of it."""
        assert self._open is not None, "a batch has entered its window"
        start = self._open.start_ms
        return Window(start, start + self._size, self._open.state, is_final)

    def keep(self, state: dict[str, Any] | None) -> None:
        """What the call for the open window gave back."""
        if state is not None and self._open is not None:
            self._open.state = state

    async def enter(self, first: Delivery, call: CallWindow) -> None:
        """A batch that begins with `first` comes next: end the window before its own."""
        start = self.start_of(first.change.time)
        if self._open is not None and self._open.start_ms != start:
            await self._finish(call)
        if self._open is None:
            self._open = _Open(start, first, {})

    async def end_if_over(self, call: CallWindow) -> None:
        """Nothing waits: end the open window if its time has passed."""
        if self._is_over():
            await self._finish(call)

    def _is_over(self) -> bool:
        end = self.end_ms
        return end is not None and end <= self._time

    async def _finish(self, call: CallWindow) -> None:
        """The final call. Where it fails too often only its state is lost: there is no change to keep in a letter."""
        terms, tries = self._around.terms, 0
        while True:
            verdict = await call((), tries + 1, self.window(is_final=True))
            if isinstance(verdict, Success):
                break
            if isinstance(verdict, Unsubscribed):
                raise GoneError(verdict.reason)
            tries += 1
            if terms.retries is not None and tries > terms.retries:
                if terms.on_failure == "block":
                    raise BlockedError(verdict.error)
                logger.error("the final call of a window failed %d times: %s", tries, verdict.error)
                break
            await asyncio.sleep(terms.pause(tries, self._around.jitter()))
        self._open = None
