"""Rebuilds damaged change segments of one partition from the log, while readers wait.

    a read meets damage ──► the segment is sealed ──► another process folds the log ──► the file is replaced

A reader gets the changes, or an error that it may retry: never a page without the damaged changes.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

from ...materializer.feed_requests import LONGEST_WAIT_MS
from ...materializer.worker import Scheduler
from .segment_files import Segment, SegmentDamagedError
from .segments import Segments
from .serial_executor import SerialExecutor

RebuildSegment: TypeAlias = Callable[
    [int, int, int, Callable[[Path | Exception, Callable[[], None]], None]], None
]
"""Rebuilds the segment of a table with after < sequence number <= until; see HistoricalFeeds.segment."""

# After a failure an operator has to look at the disk or the log, so the rebuild is not repeated for each request.
RETRY_S: Final = 10.0

logger = logging.getLogger(__name__)


class Repairs:
    """The repairs of one partition.

    Args:
        rebuild: Rebuilds a segment from the log; None without a log to read.

    Attributes:
        repaired: The number of segments that were replaced.
    """

    def __init__(self, rebuild: RebuildSegment | None, scheduler: Scheduler) -> None:
        self.repaired = 0
        self._rebuild = rebuild
        self._scheduler = scheduler
        self._waiting: dict[Segment, list[Callable[[bool], None]]] = {}
        self._failed: set[Segment] = set()

    @property
    def damaged(self) -> int:
        """The number of damaged segments that are not replaced yet."""
        return len(self._waiting) + len(self._failed)

    def repair(
        self,
        table: int,
        segments: Segments,
        error: SegmentDamagedError,
        writing: SerialExecutor,
        on_done: Callable[[bool], None],
    ) -> None:
        """Replace a damaged segment, and call `on_done` with the success, after at most 20 seconds."""
        segment = error.segment
        if segment in self._failed:
            on_done(False)
        elif segment in self._waiting:
            self._wait(segment, on_done)
        else:
            logger.warning("%s; it is rebuilt from the log, and its readers wait", error)
            self._waiting[segment] = []
            self._wait(segment, on_done)
            writing.submit(
                lambda: segments.seal(segment),
                lambda last: self._start(table, segments, segment, last, writing),
            )

    def close(self) -> None:
        """Answer all waiting readers."""
        for segment in list(self._waiting):
            self._answer(segment, is_replaced=False)

    def _wait(self, segment: Segment, on_done: Callable[[bool], None]) -> None:
        is_answered = False

        def answer(is_replaced: bool) -> None:
            nonlocal is_answered
            if not is_answered:
                is_answered = True
                timer.cancel()
                on_done(is_replaced)

        timer = self._scheduler.call_later(LONGEST_WAIT_MS / 1000, answer, False)
        self._waiting[segment].append(answer)

    def _start(
        self, table: int, segments: Segments, segment: Segment, last: Any, writing: SerialExecutor
    ) -> None:
        if isinstance(last, Exception):
            self._fail(segment, last)
        elif last is None:  # it was removed, or replaced before this read
            self._answer(segment, is_replaced=True)
        elif self._rebuild is None:
            self._fail(segment, LookupError("there is no log to read"))
        else:
            self._rebuild(
                table,
                segment.after,
                last,
                lambda rebuilt, release: self._replace(segments, segment, last, rebuilt, release, writing),
            )

    def _replace(
        self,
        segments: Segments,
        segment: Segment,
        last: int,
        rebuilt: Path | Exception,
        release: Callable[[], None],
        writing: SerialExecutor,
    ) -> None:
        def on_replaced(outcome: bool | Exception) -> None:
            release()
            if isinstance(outcome, Exception):
                self._fail(segment, outcome)
                return
            if outcome:
                self.repaired += 1
                logger.warning("%s was rebuilt from the log", segment.path)
            self._answer(segment, is_replaced=True)

        if isinstance(rebuilt, Exception):
            on_replaced(rebuilt)
        else:
            writing.submit(lambda: segments.replace(segment, rebuilt, last), on_replaced)

    def _fail(self, segment: Segment, error: Exception) -> None:
        logger.error(
            "cannot rebuild %s from the log: %s; its readers get an error, the next attempt is in %d s",
            segment.path,
            error,
            RETRY_S,
        )
        self._failed.add(segment)
        self._scheduler.call_later(RETRY_S, self._failed.discard, segment)
        self._answer(segment, is_replaced=False)

    def _answer(self, segment: Segment, *, is_replaced: bool) -> None:
        for on_done in self._waiting.pop(segment, []):
            on_done(is_replaced)
