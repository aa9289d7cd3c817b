"""Tumbling windows: adjacent ranges of log time; the batches of a window pass a state on to each other.

    {} ──► batch ──► state ──► batch ──► state ──► ... ──► the final call, without changes

The state is a function of the window's changes and is therefore not stored: the checkpoint stays below the first change
of a window until its final call succeeds, and a restart delivers the whole window again, from {}.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from ...model.lazy_dataclass import dataclass
from ..formats.table_view import Delivery
from ..sinks.sink import DeliveryResult, Success, Unsubscribed, Window
from .attempts import BlockedError, DeliveryContext, UnsubscribedError

CallWindow: TypeAlias = Callable[[Sequence[Delivery], int, Window], Awaitable[DeliveryResult]]
"""Calls the sink with changes of a window and the number of the attempt."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _OpenWindow:
    start_ms: int
    first: Delivery
    state: dict[str, Any]


class Tumbling:
    """The tumbling windows of one lane. At most one is open."""

    def __init__(self, context: DeliveryContext) -> None:
        self._context = context
        self._size = context.policy.tumbling_ms
        self._open: _OpenWindow | None = None
        self._time = 0

    def start_of(self, time_ms: int) -> int:
        """Return the start of the window that contains a time."""
        return time_ms - time_ms % self._size

    @property
    def end_ms(self) -> int | None:
        """End of the open window, if one is open."""
        return None if self._open is None else self._open.start_ms + self._size

    def held(self) -> tuple[Delivery, ...]:
        """Return the first change of the open window: the checkpoint stays below it."""
        return () if self._open is None else (self._open.first,)

    def advance_time(self, time_ms: int) -> bool:
        """Record that no change of a time before `time_ms` follows. Return whether the open window is over."""
        self._time = max(self._time, time_ms)
        return self._is_over()

    def window(self, *, is_final: bool = False) -> Window:
        """Return the open window as an argument of a call."""
        assert self._open is not None, "a batch has entered its window"
        start = self._open.start_ms
        return Window(start, start + self._size, self._open.state, is_final)

    def set_state(self, state: dict[str, Any] | None) -> None:
        """Store the state that a call for the open window returned."""
        if state is not None and self._open is not None:
            self._open.state = state

    async def enter(self, first: Delivery, call: CallWindow) -> None:
        """Open the window of a batch that begins with `first`, after the end of an earlier window."""
        start = self.start_of(first.change.time)
        if self._open is not None and self._open.start_ms != start:
            await self._finish(call)
        if self._open is None:
            self._open = _OpenWindow(start, first, {})

    async def end_if_over(self, call: CallWindow) -> None:
        """End the open window if its time has passed; the lane's queue is empty."""
        if self._is_over():
            await self._finish(call)

    def _is_over(self) -> bool:
        end = self.end_ms
        return end is not None and end <= self._time

    async def _finish(self, call: CallWindow) -> None:
        """Make the final call. After too many failures only the state is lost: there is no change to dead-letter."""
        policy, tries = self._context.policy, 0
        while True:
            result = await call((), tries + 1, self.window(is_final=True))
            if isinstance(result, Success):
                break
            if isinstance(result, Unsubscribed):
                raise UnsubscribedError(result.reason)
            tries += 1
            if policy.retries is not None and tries > policy.retries:
                if policy.on_failure == "block":
                    raise BlockedError(result.error)
                logger.error(
                    "the final call of a tumbling window failed %d times, its state is dropped: %s",
                    tries,
                    result.error,
                )
                break
            await asyncio.sleep(policy.backoff(tries, self._context.jitter()))
        self._open = None
