"""Long requests have a share of each turn of the loop, so that short ones need not wait for them.

A page of a scan takes as long as five hundred gets. A hundred clients that scan would make every get, and the line
that says that we are healthy, wait for a hundred pages; and all those pages would be in memory at once. So what may
be long is begun only while its share of the turn lasts and few long pages are under way, and otherwise waits for a
later turn, in order. What waits is bounded in bytes; past the bound clients are throttled.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

SHARE_S = 0.010

# What may take long; and whatever has a large body.
LONG = frozenset((
    b"DynamoDB_20120810.BatchGetItem", b"DynamoDB_20120810.BatchWriteItem",
    b"DynamoDB_20120810.Query", b"DynamoDB_20120810.Scan",
    b"DynamoDB_20120810.TransactGetItems", b"DynamoDB_20120810.TransactWriteItems",
    b"DynamoDBStreams_20120810.GetRecords",
))  # fmt: skip
LONG_BODY_BYTES = 32 * 1024


class Loop(Protocol):
    """The part of an event loop that is needed."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> object: ...


class FairScheduler:
    """Does long requests as the turns of a loop allow."""

    def __init__(
        self,
        loop: Loop,
        bound: int,
        clock: Callable[[], float] = time.perf_counter,
        *,
        is_full: Callable[[], bool] = lambda: False,
    ) -> None:
        """Keep at most `bound` bytes of requests waiting; begin none while `is_full` returns True."""
        self._loop = loop
        self._clock = clock
        self._is_full = is_full
        self._bound = bound
        self._bytes = 0  # of what waits
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._end = 0.0  # of the share of this turn; 0 when none was begun

    def do(self, size: int, request: Callable[[], None]) -> bool:
        """Do a request of so many bytes now, or later and after all that wait; False if there is no room to wait."""
        if not self._end:
            self._end = self._clock() + SHARE_S
            self._loop.call_soon(self._next)
        if not self._waiting and self._clock() <= self._end and not self._is_full():
            request()
            return True
        if self._waiting and self._bytes + size > self._bound:
            return False
        self._bytes += size
        self._waiting.append((size, request))
        return True

    def _next(self) -> None:
        self._end = 0.0
        if self._waiting:
            self._end = self._clock() + SHARE_S
            self._loop.call_soon(self._next)
        # The first of a turn is done however long the turn has lasted.
        while self._waiting and not self._is_full():
            size, request = self._waiting.popleft()
            self._bytes -= size
            request()
            if self._clock() > self._end:
                break
