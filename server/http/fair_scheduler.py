"""Fair scheduling of long requests: they have a share of each turn of the event loop, so that short ones do not wait.

A page of a Scan takes as long as five hundred GetItems. With a hundred scanning clients, every get and health check
would wait for a hundred pages, and all those pages would be in memory together. So a long request starts only while the
share of this turn lasts and few long pages are being read. Otherwise it is queued for a later turn, in order. The queue
is limited in bytes; past the limit clients receive a ThrottlingException.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

SHARE_S: Final = 0.010

# Operations that can take long. Requests with a large body are long, too.
LONG: Final = frozenset((
    b"DynamoDB_20120810.BatchGetItem", b"DynamoDB_20120810.BatchWriteItem",
    b"DynamoDB_20120810.BatchExecuteStatement", b"DynamoDB_20120810.ExecuteStatement",
    b"DynamoDB_20120810.ExecuteTransaction",
    b"DynamoDB_20120810.Query", b"DynamoDB_20120810.Scan",
    b"DynamoDB_20120810.TransactGetItems", b"DynamoDB_20120810.TransactWriteItems",
    b"DynamoDBStreams_20120810.GetRecords",
))  # fmt: skip
LONG_BODY_BYTES: Final = 32 * 1024


class SchedulerLoop(Protocol):
    """The part of an event loop that the scheduler uses."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> object: ...


class FairScheduler:
    """Starts long requests within their share of each turn."""

    def __init__(
        self,
        loop: SchedulerLoop,
        limit: int,
        clock: Callable[[], float] = time.perf_counter,
        *,
        is_full: Callable[[], bool] = lambda: False,
    ) -> None:
        """Queue at most `limit` bytes of requests; start none while `is_full` returns True."""
        self._loop = loop
        self._clock = clock
        self._is_full = is_full
        self._limit = limit
        self._bytes = 0  # in the queue
        self._queue: deque[tuple[int, Callable[[], None]]] = deque()
        self._end = 0.0  # of this turn's share; 0 if no request was scheduled in this turn

    def schedule(self, size: int, request: Callable[[], None]) -> bool:
        """Run a request of `size` bytes now, or queue it; return False if the queue is full."""
        if not self._end:
            self._end = self._clock() + SHARE_S
            self._loop.call_soon(self._next)
        if not self._queue and self._clock() <= self._end and not self._is_full():
            request()
            return True
        if self._queue and self._bytes + size > self._limit:
            return False
        self._bytes += size
        self._queue.append((size, request))
        return True

    def _next(self) -> None:
        self._end = 0.0
        if self._queue:
            self._end = self._clock() + SHARE_S
            self._loop.call_soon(self._next)
        # The first request of a turn runs even if the share has passed.
        while self._queue and not self._is_full():
            size, request = self._queue.popleft()
            self._bytes -= size
            request()
            if self._clock() > self._end:
                break
