"""One of the lines that a subscription's changes wait in: a key has one lane, and a lane one batch under way.

    queue ──► batch: full, or waited for long enough ──► attempts ──► handled
                └── never of two depths, of two tumbling windows, of a part of a transaction

So the changes of a key are handled one after the other, whatever the other lanes do.
"""

import asyncio
import contextlib
import logging
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Final

from ...materializer.fold.outcomes import Change
from ..formats.table_view import Delivery
from ..sinks.sink import Batch, DeliveryResult, Failure, PartialFailure, Sink, Success, Window
from .attempts import Attempts, BlockedError, DeliveryContext, GoneError
from .metrics import SubscriptionMetrics
from .tumbling import Tumbling

logger = logging.getLogger("foldb.triggers")

_GRACE_S: Final = 180.0
"""A sink ends its calls in time itself, of which it may make one a change. Before that it may have to load code, and to
wait until other lanes have. One that does not end even so is cut off."""


class Lane:
    """A line of changes and who works it off.

    Attributes:
        lane_id: Which of the subscription's lanes.
        queue: What waits, in order; the changes of a transaction that stays together follow one another.
        depth: How many triggers led to what is under way, or was last.
        blocked: Why it stands still, if it does.
    """

    def __init__(
        self,
        number: int,
        subscription: str,
        sink: Sink,
        around: DeliveryContext,
        figures: SubscriptionMetrics,
        *,
        handled: Callable[[Sequence[Delivery]], None],
        gone: Callable[[str], None],
        broken: Callable[[Exception], None],
    ) -> None:
        """`handled` is told what came to its end, `gone` that no more calls are wanted."""
        self.lane_id = number
        self.queue: deque[Delivery] = deque()
        self.depth = 0
        self.blocked: str | None = None
        self._subscription = subscription
        self._sink = sink
        self._around = around
        self._terms = around.terms
        self._figures = figures
        self._handled = handled
        self._gone = gone
        self._broken = broken
        self._tumbling = Tumbling(around) if around.terms.tumbling_ms else None
        self._attempts: Attempts | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_full = asyncio.Event()
        self._is_between_calls = asyncio.Event()
        self._is_between_calls.set()
        self._is_closing = False
        self._not_before = 0.0  # by the loop's clock: who is called wants no call until then
        self._loop = asyncio.get_running_loop()

    def wake(self) -> None:
        """Something was put into the queue."""
        if self._task is None:
            self._task = self._loop.create_task(self._work())
        elif len(self.queue) >= self._terms.batch:
            self._is_full.set()

    def has_passed(self, time_ms: int) -> None:
        """No change of before `time_ms` will come any more: a tumbling window may be over."""
        if self._tumbling is not None and self._tumbling.has_passed(time_ms):
            self.wake()

    def window_end(self) -> int | None:
        """When the open tumbling window is over, if one is open."""
        return None if self._tumbling is None else self._tumbling.end_ms

    def unhandled(self) -> Iterator[Delivery]:
        """All that is not handled yet, the oldest of each source before its others."""
        held = () if self._tumbling is None else self._tumbling.held()
        return chain(held, self.under_way(), self.queue)

    def under_way(self) -> Sequence[Delivery]:
        """What of the batch under way is not handled yet."""
        return () if self._attempts is None else self._attempts.pending

    @property
    def tries(self) -> int:
        """How often the first of what is under way has failed."""
        return 0 if self._attempts is None else self._attempts.tries

    async def close(self, grace_s: float = 0.0) -> None:
        """Stop, once the call that is under way has ended or so many seconds are over; what is not handled stays so."""
        self._is_closing = True
        if self._task is None:
            return
        if grace_s and not self._is_between_calls.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_between_calls.wait(), grace_s)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _work(self) -> None:
        """Work off the queue. Only who comes to its end may begin again: else a batch is under way still."""
        try:
            while True:
                if not self.queue and self._tumbling is not None:
                    await self._tumbling.end_if_over(self._call_window)
                    self._handled(())
                if not self.queue or self._is_closing:
                    break
                if self._terms.window_s and len(self.queue) < self._terms.batch:
                    await self._wait_for_more()
                await self._bring_to_end(self._next())
            self._task = None
        except BlockedError as blocked:
            self.blocked = str(blocked)
        except GoneError as gone:
            self._gone(str(gone))
        except Exception as error:
            self._broken(error)

    async def _wait_for_more(self) -> None:
        self._is_full.clear()
        timer = self._loop.call_later(self._terms.window_s, self._is_full.set)
        try:
            await self._is_full.wait()
        finally:
            timer.cancel()

    def _next(self) -> list[Delivery]:
        """Take the next batch off the queue."""
        queue = self.queue
        first = queue[0].change
        if self._is_transaction(first):
            batch = [queue.popleft()]
            while (
                queue
                and (tx := queue[0].change.tx) is not None
                and first.tx is not None
                and tx.id == first.tx.id
            ):
                batch.append(queue.popleft())
            return batch
        batch = [queue.popleft() for _ in range(min(len(queue), self._terms.batch))]
        for place, each in enumerate(batch):
            if not self._go_together(first, each.change):
                queue.extendleft(reversed(batch[place:]))
                return batch[:place]
        return batch

    def _is_transaction(self, change: Change) -> bool:
        return self._terms.together and change.tx is not None

    def _go_together(self, first: Change, other: Change) -> bool:
        """Whether two changes may be of one batch. The depth stands last in a context, and is below 64: one byte."""
        return (
            first.context.encoded[-1] == other.context.encoded[-1]
            and not self._is_transaction(other)
            and (
                self._tumbling is None
                or self._tumbling.start_of(first.time) == self._tumbling.start_of(other.time)
            )
        )

    async def _bring_to_end(self, batch: list[Delivery]) -> None:
        self.depth = batch[0].change.context.depth
        is_whole = self._is_transaction(batch[0].change)
        self._attempts = Attempts(batch, self._call, self._around, self._handled, whole=is_whole)
        if self._tumbling is not None:
            await self._tumbling.enter(batch[0], self._call_window)
        await self._attempts.run()
        self._attempts = None

    async def _call(self, changes: Sequence[Delivery], attempt: int) -> DeliveryResult:
        if self._tumbling is None:
            return await self._call_window(changes, attempt, None)
        verdict = await self._call_window(changes, attempt, self._tumbling.window())
        if isinstance(verdict, Success | PartialFailure):
            self._tumbling.keep(verdict.state)
        return verdict

    async def _call_window(
        self, changes: Sequence[Delivery], attempt: int, window: Window | None
    ) -> DeliveryResult:
        terms, figures = self._terms, self._figures
        if self._not_before > self._loop.time():
            await asyncio.sleep(self._not_before - self._loop.time())
        batch = Batch(self._subscription, changes, self.lane_id, attempt, terms.replay, window)
        begun = self._around.seconds()
        self._is_between_calls.clear()
        verdict: DeliveryResult
        try:
            async with asyncio.timeout(terms.timeout_s * max(1, len(changes)) + _GRACE_S):
                verdict = await self._sink.deliver(batch)
        except TimeoutError:
            verdict = Failure("no answer in time")
        except asyncio.CancelledError:
            if self._task is None or self._task.cancelling():
                raise
            # What it waited for was cancelled, by somebody who waited for the same.
            verdict = Failure("the call was cut off", traceback.format_exc())
        except Exception as error:
            verdict = Failure(f"{type(error).__name__}: {error}", traceback.format_exc())
        finally:
            self._is_between_calls.set()
        ended = self._around.seconds()
        figures.called(ended, ended - begun, len(changes))
        if isinstance(verdict, Failure | PartialFailure):
            figures.failed += 1
            self._not_before = self._loop.time() + (verdict.retry_after_s or 0.0)
            if figures.failure(verdict.error, verdict.traceback, self._around.clock()):
                logger.warning("%s: %s", self._subscription, verdict.traceback or verdict.error)
        return verdict
