"""A lane: one queue of a subscription's changes, with one batch under way. All changes of a key go through one lane.

    queue ──► batch: full, or the batching window has passed ──► attempts ──► handled
                └── of one depth and one tumbling window; never a part of a transaction

The changes of a key are therefore handled one after another, independently of other lanes.
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
from ..sinks.sink import Batch, DeliveryResult, Failure, PartialFailure, Success, Window
from .attempts import Attempts, BlockedError, DeliveryContext, UnsubscribedError
from .tumbling import Tumbling

logger = logging.getLogger("foldb.triggers")

_GRACE_S: Final = 180.0
"""Time that a call may take beyond its timeout, after which the lane cancels it. A sink enforces the timeout itself,
for each change or for a batch; before that it may load code, and wait until other lanes have loaded theirs."""


class Lane:
    """A queue of changes, and the task that delivers them.

    Attributes:
        lane_id: Index of the lane in its subscription.
        queue: The queued changes in order. Those of a transaction that is delivered together are adjacent.
        depth: Trigger depth of the batch under way, or of the last one.
        blocked: The error that blocks the lane, if it is blocked.
    """

    def __init__(
        self,
        lane_id: int,
        context: DeliveryContext,
        on_handled: Callable[[Sequence[Delivery]], None],
        *,
        on_unsubscribed: Callable[[str], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        """Prepare an empty lane.

        `on_handled` receives changes that are handled or dead letters, `on_unsubscribed` the sink's reason to
        unsubscribe, `on_error` an unexpected error.
        """
        self.lane_id = lane_id
        self.queue: deque[Delivery] = deque()
        self.depth = 0
        self.blocked: str | None = None
        self._context = context
        self._policy = context.policy
        self._on_handled = on_handled
        self._on_unsubscribed = on_unsubscribed
        self._on_error = on_error
        self._tumbling = Tumbling(context) if context.policy.tumbling_ms else None
        self._attempts: Attempts | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_full = asyncio.Event()
        self._is_between_calls = asyncio.Event()
        self._is_between_calls.set()
        self._is_closing = False
        self._not_before = 0.0  # by the loop's clock: the sink asked for no call before this time
        self._loop = asyncio.get_running_loop()

    def wake(self) -> None:
        """Deliver the queue, after changes were added to it."""
        if self._task is None:
            self._task = self._loop.create_task(self._run())
        elif len(self.queue) >= self._policy.batch:
            self._is_full.set()

    def advance_time(self, time_ms: int) -> None:
        """Close the tumbling window that ends at `time_ms` or earlier: no change of an earlier time follows."""
        if self._tumbling is not None and self._tumbling.advance_time(time_ms):
            self.wake()

    def window_end(self) -> int | None:
        """Return the end of the open tumbling window, if one is open."""
        return None if self._tumbling is None else self._tumbling.end_ms

    def unhandled(self) -> Iterator[Delivery]:
        """Yield the changes that are not handled yet; of each source the oldest first."""
        held = () if self._tumbling is None else self._tumbling.held()
        return chain(held, self.under_way(), self.queue)

    def under_way(self) -> Sequence[Delivery]:
        """Return the unhandled changes of the batch under way."""
        return () if self._attempts is None else self._attempts.pending

    @property
    def tries(self) -> int:
        """Number of failed attempts of the first change under way."""
        return 0 if self._attempts is None else self._attempts.tries

    async def close(self, grace_s: float = 0.0) -> None:
        """Stop after the running call, which may take at most `grace_s` more; unhandled changes stay unhandled."""
        self._is_closing = True
        if self._task is None:
            return
        if grace_s and not self._is_between_calls.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_between_calls.wait(), grace_s)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _run(self) -> None:
        """Deliver the queue. After an error `_task` stays set, so no second batch starts beside the one under way."""
        try:
            while True:
                if not self.queue and self._tumbling is not None:
                    await self._tumbling.end_if_over(self._call_window)
                    self._on_handled(())
                if not self.queue or self._is_closing:
                    break
                if self._policy.window_s and len(self.queue) < self._policy.batch:
                    await self._wait_for_more()
                await self._deliver(self._next_batch())
            self._task = None
        except BlockedError as blocked:
            self.blocked = str(blocked)
        except UnsubscribedError as unsubscribed:
            self._on_unsubscribed(str(unsubscribed))
        except Exception as error:
            self._on_error(error)

    async def _wait_for_more(self) -> None:
        self._is_full.clear()
        timer = self._loop.call_later(self._policy.window_s, self._is_full.set)
        try:
            await self._is_full.wait()
        finally:
            timer.cancel()

    def _next_batch(self) -> list[Delivery]:
        """Remove the next batch from the queue."""
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
        batch = [queue.popleft() for _ in range(min(len(queue), self._policy.batch))]
        depth = first.context.depth
        together, tumbling = self._policy.together, self._tumbling
        window = None if tumbling is None else tumbling.start_of(first.time)
        for index, each in enumerate(batch):
            change = each.change
            if (
                change.context.depth != depth
                or (together and change.tx is not None)
                or (tumbling is not None and tumbling.start_of(change.time) != window)
            ):
                queue.extendleft(reversed(batch[index:]))
                return batch[:index]
        return batch

    def _is_transaction(self, change: Change) -> bool:
        return self._policy.together and change.tx is not None

    async def _deliver(self, batch: list[Delivery]) -> None:
        self.depth = batch[0].change.context.depth
        is_transaction = self._is_transaction(batch[0].change)
        self._attempts = Attempts(
            batch, self._call, self._context, self._on_handled, is_transaction=is_transaction
        )
        if self._tumbling is not None:
            await self._tumbling.enter(batch[0], self._call_window)
        await self._attempts.run()
        self._attempts = None

    async def _call(self, changes: Sequence[Delivery], attempt: int) -> DeliveryResult:
        if self._tumbling is None:
            return await self._call_window(changes, attempt, None)
        result = await self._call_window(changes, attempt, self._tumbling.window())
        if isinstance(result, Success | PartialFailure):
            self._tumbling.set_state(result.state)
        return result

    async def _call_window(
        self, changes: Sequence[Delivery], attempt: int, window: Window | None
    ) -> DeliveryResult:
        context, policy, metrics = self._context, self._policy, self._context.metrics
        if self._not_before > self._loop.time():
            await asyncio.sleep(self._not_before - self._loop.time())
        batch = Batch(context.subscription, changes, self.lane_id, attempt, policy.replay, window)
        started = context.seconds()
        self._is_between_calls.clear()
        result: DeliveryResult
        try:
            async with asyncio.timeout(policy.timeout_s * max(1, len(changes)) + _GRACE_S):
                result = await context.sink.deliver(batch)
        except TimeoutError:
            result = Failure("no answer in time")
        except asyncio.CancelledError:
            if self._task is None or self._task.cancelling():
                raise
            # Another lane waited for the same future and cancelled it.
            result = Failure("the call was cancelled", traceback.format_exc())
        except Exception as error:
            result = Failure(f"{type(error).__name__}: {error}", traceback.format_exc())
        finally:
            self._is_between_calls.set()
        ended = context.seconds()
        metrics.called(ended, ended - started, len(changes))
        if isinstance(result, Failure | PartialFailure):
            metrics.failed += 1
            self._not_before = self._loop.time() + (result.retry_after_s or 0.0)
            if metrics.failure(result.error, result.traceback, context.clock()):
                logger.warning("%s: %s", context.subscription, result.traceback or result.error)
        return result
