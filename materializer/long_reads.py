"""Fair scheduling of long pages: each turn of the loop reads one portion of one page.

    page ──► portion ──► (other requests) ──► portion of the next page ──► ... ──► answer

A page of a megabyte of small items takes as long as a thousand gets. The pages under way are read round-robin, a
portion each, so a get waits for one portion however many clients scan, and a short page does not wait for a whole
long one.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from .worker import Scheduler

# The maximum number of pages under way. Each holds up to a megabyte of its answer and slows the writes to its table.
_FULL: Final = 8


class LongReads:
    """The pages of one process that are longer than a portion."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._pages: deque[Callable[[], bool]] = deque()

    @property
    def is_full(self) -> bool:
        """Whether a request that may be long should wait before it begins."""
        return len(self._pages) >= _FULL

    def add(self, go_on: Callable[[], bool]) -> None:
        """Call `go_on` in later turns until it returns True, which means that its page was answered."""
        self._pages.append(go_on)
        if len(self._pages) == 1:
            self._scheduler.call_soon(self._turn)

    def _turn(self) -> None:
        go_on = self._pages[0]
        has_ended = go_on()
        self._pages.popleft()
        if not has_ended:
            self._pages.append(go_on)
        if self._pages:
            self._scheduler.call_soon(self._turn)
