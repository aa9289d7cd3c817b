"""The changes of one table in one partition.

    take ──► the newest, in memory ──► change segments ──► trimmed, when their time is over

Who keeps up reads memory alone. What is in a segment leaves memory when there is too much of it.
"""

from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import Final

from ...materializer.feed import ReadChanges
from ...materializer.fold.feed.windows import WATCHED, Window
from ...materializer.fold.outcomes import Change
from .shards import Beginning, nth_of

CHANGE_BYTES: Final = 400
"""About what a change takes in memory besides its images."""

_NEVER: Final = 1 << 62

_number = attrgetter("sequence_number")
_time = attrgetter("time")


class Channel:
    """See the module.

    Attributes:
        table: Which.
        recent: The newest changes, in order; `recent_bytes` about what they take.
        recent_after: All that has a higher number is in `recent`.
        last: The highest number that was taken.
        beginnings: The first changes of shards.
        trimmed_after: What has this number or a lower one is over, or was lost.
    """

    def __init__(self, table: int, after: int) -> None:
        self.table = table
        self.recent: list[Change] = []
        self.recent_bytes = 0
        self.recent_after = self.last = self.trimmed_after = after
        self.beginnings: list[Beginning] = []
        self._stream = -1
        self._roll_ms = 0  # the log time from which on a change is in another shard

    def take(self, change: Change, window: Window) -> None:
        """Take the next change, which belongs to `window`. What was taken before is passed over."""
        number = change.sequence_number
        if number <= self.last:
            return
        self.last = number
        label = change.stream = window.label
        if change.time >= self._roll_ms or label != self._stream:
            self._begin_shard(change, window)
        self.recent.append(change)
        self.recent_bytes += size_of(change)

    def _begin_shard(self, change: Change, window: Window) -> None:
        if window.label == WATCHED:
            self._stream, self._roll_ms = WATCHED, _NEVER
            return
        nth = nth_of(change.time, window.label, window.shard_ms)
        self._stream = window.label
        self._roll_ms = window.label + (nth + 1) * window.shard_ms
        self.beginnings.append(Beginning(window.label, nth, change.sequence_number))

    def newest(self, request: ReadChanges, after: int) -> list[Change]:
        """A page of those in memory that have a higher number than `after`."""
        recent, stream, until = self.recent, request.stream, request.until
        first = bisect_right(recent, after, key=_number)
        end = len(recent) if until is None else bisect_right(recent, until, lo=first, key=_number)
        return fill(
            [],
            recent[first : min(end, first + request.limit)] if stream is None else recent[first:end],
            request,
        )

    def count(self, after: int, until: int | None) -> tuple[int, int | None]:
        """How many in memory have such a number, and the log time of the first."""
        first = bisect_right(self.recent, after, key=_number)
        end = len(self.recent) if until is None else bisect_right(self.recent, until, lo=first, key=_number)
        return end - first, self.recent[first].time if first < end else None

    def find(self, time_ms: int) -> int:
        """The highest number of a change in memory that has a lower log time; `recent_after` if there is none."""
        place = bisect_left(self.recent, time_ms, key=_time)
        return self.recent[place - 1].sequence_number if place else self.recent_after


def fill(page: list[Change], changes: list[Change], request: ReadChanges) -> list[Change]:
    """Add `changes` to a page, as many as the request has room for."""
    stream, room = request.stream, request.size - sum(map(images_of, page))
    for change in changes:
        if stream is not None and change.stream != stream:
            continue
        size = images_of(change)
        if page and (room < size or len(page) >= request.limit):
            break
        room -= size
        page.append(change)
    return page


def images_of(change: Change) -> int:
    """The bytes of its images."""
    old, new = change.old, change.new
    return (0 if old is None else len(old)) + (0 if new is None else len(new))


def size_of(change: Change) -> int:
    """About the bytes that it takes."""
    return CHANGE_BYTES + images_of(change)
