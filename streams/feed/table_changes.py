"""The changes of one table in one partition.

    take ──► the newest, in memory ──► change segments ──► trimmed, when their time is over

Who keeps up reads memory alone. What is in a segment leaves memory when there is too much of it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import pairwise
from operator import attrgetter
from typing import Final

from ...materializer.feed_requests import ReadChanges
from ...materializer.fold.feed.capture import WATCHED, CapturePeriod
from ...materializer.fold.outcomes import Change
from .segments import Batch, Segments
from .shards import Beginning, nth_in

CHANGE_BYTES: Final = 600
"""About what a change takes in memory besides its images."""

_NEVER: Final = 1 << 62

_number = attrgetter("sequence_number")
_time = attrgetter("time")


class TableChanges:
    """See the module.

    Attributes:
        table: Which.
        recent: The newest changes, in order; `recent_bytes` about what they take.
        recent_after: All that has a higher number is in `recent`.
        last: The highest number that was taken.
        sent: What has this number or a lower one is in segments or on its way; `unsent_bytes` is about the rest.
        stored: What has this number or a lower one is in segments.
        trimmed_after: What has this number or a lower one is over, or was lost.
        trim_at_ms: The horizon at which to look again whether something is over.
        segments: Where they are kept.
        beginnings: The first changes of shards.
    """

    def __init__(self, table: int, segments: Segments) -> None:
        self.table = table
        self.recent: list[Change] = []
        self.recent_bytes = self.unsent_bytes = 0
        self.recent_after = self.last = self.sent = self.stored = segments.last
        self.trimmed_after = segments.first_after
        self.trim_at_ms = 0
        self.segments = segments
        self.beginnings: list[Beginning] = segments.beginnings()
        self._stream = -1
        self._roll_ms = 0  # the log time from which on a change is in another shard

    def take(self, change: Change, window: CapturePeriod) -> None:
        """Take the next change, which belongs to `window`. What was taken before is passed over."""
        number = change.sequence_number
        if number <= self.last:
            return
        self.last = number
        label = change.stream = window.label
        if change.time >= self._roll_ms or label != self._stream:
            self._begin_shard(change, window)
        self.recent.append(change)
        old, new = change.old, change.new  # as images_of, without a call
        size = CHANGE_BYTES + (0 if old is None else len(old)) + (0 if new is None else len(new))
        self.recent_bytes += size
        self.unsent_bytes += size

    def _begin_shard(self, change: Change, window: CapturePeriod) -> None:
        self._stream = window.label
        nth, self._roll_ms = nth_in(window, change.time), _NEVER
        if window.label != WATCHED:
            self._roll_ms = window.label + (nth + 1) * window.shard_ms
        last = self.beginnings[-1] if self.beginnings else None
        if last is None or (last.stream, last.nth) != (
            window.label,
            nth,
        ):  # else it was begun before this start
            self.beginnings.append(Beginning(window.label, nth, change.sequence_number))

    # To segments

    def send(self, size: int) -> list[Batch]:
        """The oldest that have not been sent yet, about `size` bytes of them, by shard; they are sent then."""
        recent = self.recent
        begin = end = bisect_right(recent, self.sent, key=_number)
        while end < len(recent) and size > 0:
            taken = CHANGE_BYTES + images_of(recent[end])
            size -= taken
            self.unsent_bytes -= taken
            end += 1
        rolls = self.beginnings[bisect_right(self.beginnings, self.sent, key=_number_of) :]
        places = {begin, end, *(bisect_left(recent, each.number, key=_number) for each in rolls)}
        self.sent = recent[end - 1].sequence_number
        return [
            Batch(self._shard_at(recent[low].sequence_number), recent[low:high])
            for low, high in pairwise(sorted(place for place in places if place <= end))
        ]

    def _shard_at(self, number: int) -> int:
        return self.beginnings[bisect_right(self.beginnings, number, key=_number_of) - 1].nth

    def send_again(self) -> None:
        """Have what was sent and not written count as not sent."""
        self.sent = self.stored
        first = bisect_right(self.recent, self.sent, key=_number)
        self.unsent_bytes = _bytes(self.recent[first:])

    def shrink(self, bound: int) -> None:
        """Let go of the oldest that are in segments, if all take more than `bound` bytes; a good part at once."""
        if self.recent_bytes > bound:
            stored = bisect_right(self.recent, self.stored, key=_number)
            place = 0
            while place < stored and self.recent_bytes > bound // 2:
                self.recent_bytes -= CHANGE_BYTES + images_of(self.recent[place])
                place += 1
            self._drop(place)

    def lose(self, bound: int) -> None:
        """Let go of the oldest, wherever they are, until all take less than `bound` bytes."""
        place = 0
        while self.recent_bytes > bound:
            self.recent_bytes -= CHANGE_BYTES + images_of(self.recent[place])
            place += 1
        self._drop(place)

    def go_on_in(self, segments: Segments) -> None:
        """Have nothing but what is in memory, and that count as not sent, to other segments."""
        self.segments = segments
        self.sent = self.stored = self.recent_after
        self.trimmed_after = max(self.trimmed_after, self.recent_after)
        self.unsent_bytes = self.recent_bytes

    @property
    def gone_after(self) -> int:
        """What has this number or a lower one cannot be read: also of what was just removed, before it is trimmed."""
        return max(self.trimmed_after, self.segments.first_after)

    def trim(self, after: int) -> None:
        """Show nothing more that has this number or a lower one."""
        self.trimmed_after = max(self.trimmed_after, after)
        kept = bisect_right(self.beginnings, self.trimmed_after, key=_number_of) - 1
        if kept > 0:
            del self.beginnings[:kept]

    def _drop(self, count: int) -> None:
        if count:
            self.recent_after = self.recent[count - 1].sequence_number
            del self.recent[:count]

    # Reading what is in memory

    def newest(self, request: ReadChanges, after: int) -> tuple[list[Change], bool]:
        """A page of those that have a higher number than `after`, and whether it is full."""
        recent, page = self.recent, list[Change]()
        first = bisect_right(recent, after, key=_number)
        until = request.until
        end = len(recent) if until is None else bisect_right(recent, until, lo=first, key=_number)
        return page, fill(page, (recent[place] for place in range(first, end)), request)

    def count(self, after: int, until: int) -> tuple[int, int | None]:
        """How many have such a number, and the log time of the first."""
        first = bisect_right(self.recent, after, key=_number)
        end = bisect_right(self.recent, until, lo=first, key=_number)
        return end - first, self.recent[first].time if first < end else None

    def find(self, time_ms: int) -> int | None:
        """The highest number of a change with a lower log time, if that is known without segments."""
        place = bisect_left(self.recent, time_ms, key=_time)
        if place:
            return self.recent[place - 1].sequence_number
        return None if self.recent_after > self.segments.first_after else self.recent_after


def fill(page: list[Change], changes: Iterable[Change], request: ReadChanges) -> bool:
    """Add changes to a page until it is full, which is returned."""
    stream, limit = request.stream, request.limit
    room = request.size - sum(map(images_of, page))
    for change in changes:
        if stream is not None and change.stream != stream:
            continue
        room -= images_of(change)
        if page and (room < 0 or len(page) >= limit):
            return True
        page.append(change)
    return False


def images_of(change: Change) -> int:
    """The bytes of its images."""
    old, new = change.old, change.new
    return (0 if old is None else len(old)) + (0 if new is None else len(new))


def _bytes(changes: Iterable[Change]) -> int:
    return sum(CHANGE_BYTES + images_of(change) for change in changes)


def _number_of(beginning: Beginning) -> int:
    return beginning.number
