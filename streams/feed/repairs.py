"""Damaged change segments of one partition are made again from the log, while readers wait.

    a read meets damage ──► the segment is sealed ──► another process folds the log ──► the file is replaced

A reader gets the changes, or an error that it may retry: never a page without the changes that are damaged.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

from ...materializer.feed_requests import LONGEST_WAIT_MS
from ...materializer.worker import Scheduler
from .segments import Segment, SegmentDamagedError, Segments
from .serial_executor import Work

Remake: TypeAlias = Callable[[int, int, int, Callable[[Path | Exception, Callable[[], None]], None]], None]
"""Makes the segment of a table with changes after < number <= until; see Histories.segment."""

# After a failure the disk or the log has to be looked at by an operator: not with each request.
AGAIN_S: Final = 10.0

logger = logging.getLogger(__name__)


class Repairs:
    """See the module.

    Args:
        remake: Makes a segment from the log; None where there is no log to read.
        scheduler: The loop.

    Attributes:
        repaired: The number of segments that were replaced.
    """

    def __init__(self, remake: Remake | None, scheduler: Scheduler) -> None:
        self.repaired = 0
        self._remake = remake
        self._scheduler = scheduler
        self._waiting: dict[Segment, list[Callable[[bool], None]]] = {}
        self._failed: set[Segment] = set()

    @property
    def damaged(self) -> int:
        """The number of segments that are damaged and not replaced yet."""
        return len(self._waiting) + len(self._failed)

    def repair(
        self,
        table: int,
        segments: Segments,
        error: SegmentDamagedError,
        writing: Work,
        done: Callable[[bool], None],
    ) -> None:
        """Have a segment replaced. `done` gets whether that is so, after 20 seconds at the latest."""
        segment = error.segment
        if segment in self._failed:
            done(False)
        elif segment in self._waiting:
            self._wait(segment, done)
        else:
            logger.warning("%s; the segment is made again from the log, readers of it wait", error)
            self._waiting[segment] = []
            self._wait(segment, done)
            writing.do(
                lambda: segments.seal(segment),
                lambda last: self._make(table, segments, segment, last, writing),
            )

    def close(self) -> None:
        """Answer every reader that waits."""
        for segment in list(self._waiting):
            self._answer(segment, is_made=False)

    def _wait(self, segment: Segment, done: Callable[[bool], None]) -> None:
        answered = False

        def answer(is_made: bool) -> None:
            nonlocal answered
            if not answered:
                answered = True
                timer.cancel()
                done(is_made)

        timer = self._scheduler.call_later(LONGEST_WAIT_MS / 1000, answer, False)
        self._waiting[segment].append(answer)

    def _make(self, table: int, segments: Segments, segment: Segment, last: Any, writing: Work) -> None:
        if isinstance(last, Exception):
            self._fail(segment, last)
        elif last is None:  # it was removed, or replaced before the reader came
            self._answer(segment, is_made=True)
        elif self._remake is None:
            self._fail(segment, LookupError("there is no log to read"))
        else:
            self._remake(
                table,
                segment.after,
                last,
                lambda made, release: self._made(segments, segment, last, made, release, writing),
            )

    def _made(
        self,
        segments: Segments,
        segment: Segment,
        last: int,
        made: Path | Exception,
        release: Callable[[], None],
        writing: Work,
    ) -> None:
        def replaced(outcome: bool | Exception) -> None:
            release()
            if isinstance(outcome, Exception):
                self._fail(segment, outcome)
                return
            if outcome:
                self.repaired += 1
                logger.warning("%s was made again from the log", segment.path)
            self._answer(segment, is_made=True)

        if isinstance(made, Exception):
            replaced(made)
        else:
            writing.do(lambda: segments.replace(segment, made, last), replaced)

    def _fail(self, segment: Segment, error: Exception) -> None:
        logger.error(
            "%s cannot be made again from the log: %s; readers of it get an error, and it is tried again in %d s",
            segment.path,
            error,
            AGAIN_S,
        )
        self._failed.add(segment)
        self._scheduler.call_later(AGAIN_S, self._failed.discard, segment)
        self._answer(segment, is_made=False)

    def _answer(self, segment: Segment, *, is_made: bool) -> None:
        for done in self._waiting.pop(segment, []):
            done(is_made)
