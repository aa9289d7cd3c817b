"""The changes of one table in one partition.

    append ──► the newest, in memory ──► change segments ──► trimmed when they are older than the retention

A reader that keeps up reads memory alone. Changes that are in a segment leave memory when they take too much of it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from itertools import pairwise
from operator import attrgetter
from typing import Final

from ...materializer.feed_requests import ReadChanges, fill, images_of
from ...materializer.fold.feed.capture import WATCHED, CapturePeriod
from ...materializer.fold.outcomes import Change
from ...model.sequence_numbers import SequenceNumber
from .segments import Segments, ShardBatch
from .shards import ShardStart, period_in

CHANGE_BYTES: Final = 600
"""Approximate memory of a change without its images."""

MAX_FILTERED: Final = 2000
"""Changes that a read of a shard with a range of keys filters at most: one takes 0.7 us. The client reads on."""

_NEVER: Final = 1 << 62

_sequence_number = attrgetter("sequence_number")
_time = attrgetter("time")


class TableChanges:
    """The changes of one table in one partition.

    Attributes:
        recent: The newest changes, in order.
        recent_bytes: Approximate memory of `recent`.
        recent_after: Every change with a higher sequence number is in `recent`.
        last: The highest sequence number that was appended.
        sent: Sequence number up to which changes are in segments or on their way there.
        unsent_bytes: Approximate memory of the changes after `sent`.
        stored: Sequence number up to which changes are in segments.
        trimmed_after: Sequence number up to which changes are trimmed or dropped.
        next_trim_ms: The retention horizon at which `ChangeWriter.trim` searches again.
        shard_starts: The first change of each shard.
    """

    def __init__(self, table_id: int, segments: Segments) -> None:
        self.table_id = table_id
        self.recent: list[Change] = []
        self.recent_bytes = self.unsent_bytes = 0
        self.recent_after = self.last = self.sent = self.stored = segments.last
        self.trimmed_after = segments.first_after
        self.next_trim_ms = 0
        self.segments = segments
        self.shard_starts: list[ShardStart] = segments.shard_starts()
        self._sums = [0]  # of the images before each change in `recent`, and of all; from any number on
        self._stream = -1
        self._shard_end_ms = 0  # a change at this log time or later begins another shard

    def append(self, change: Change, window: CapturePeriod) -> None:
        """Append the next change, which belongs to `window`. A change that was appended before is ignored."""
        sequence_number = change.sequence_number
        if sequence_number <= self.last:
            return
        self.last = sequence_number
        label = change.stream = window.label
        if change.time >= self._shard_end_ms or label != self._stream:
            self._begin_shard(change, window)
        self.recent.append(change)
        old, new = change.old, change.new  # as images_of, without a call
        images = (0 if old is None else len(old)) + (0 if new is None else len(new))
        self._sums.append(self._sums[-1] + images)
        size = CHANGE_BYTES + images
        self.recent_bytes += size
        self.unsent_bytes += size

    def _begin_shard(self, change: Change, window: CapturePeriod) -> None:
        self._stream = window.label
        period, self._shard_end_ms = period_in(window, change.time), _NEVER
        if window.label != WATCHED:
            self._shard_end_ms = window.label + (period + 1) * window.shard_ms
        last = self.shard_starts[-1] if self.shard_starts else None
        is_known = last is not None and (last.stream, last.period) == (window.label, period)
        if not is_known:  # else the shard began before this start
            self.shard_starts.append(ShardStart(window.label, period, change.sequence_number))

    # To segments

    def next_batches(self, size: int) -> list[ShardBatch]:
        """Return the oldest unsent changes, about `size` bytes of them, by shard. They count as sent."""
        recent = self.recent
        begin = end = bisect_right(recent, self.sent, key=_sequence_number)
        while end < len(recent) and size > 0:
            taken = CHANGE_BYTES + images_of(recent[end])
            size -= taken
            self.unsent_bytes -= taken
            end += 1
        starts = self.shard_starts[bisect_right(self.shard_starts, self.sent, key=_sequence_number) :]
        bounds = {begin, end}
        bounds |= {bisect_left(recent, each.sequence_number, key=_sequence_number) for each in starts}
        self.sent = recent[end - 1].sequence_number
        return [
            ShardBatch(self._period_at(recent[low].sequence_number), recent[low:high])
            for low, high in pairwise(sorted(bound for bound in bounds if bound <= end))
        ]

    def _period_at(self, sequence_number: SequenceNumber) -> int:
        index = bisect_right(self.shard_starts, sequence_number, key=_sequence_number) - 1
        return self.shard_starts[index].period

    def reset_sent(self) -> None:
        """Count changes that were sent and not written as unsent."""
        self.sent = self.stored
        first = bisect_right(self.recent, self.sent, key=_sequence_number)
        self.unsent_bytes = _bytes(self.recent[first:])

    def evict_stored(self, max_bytes: int) -> None:
        """Drop the oldest stored changes from memory if it exceeds `max_bytes`, down to half of that."""
        if self.recent_bytes > max_bytes:
            stored = bisect_right(self.recent, self.stored, key=_sequence_number)
            count = 0
            while count < stored and self.recent_bytes > max_bytes // 2:
                self.recent_bytes -= CHANGE_BYTES + images_of(self.recent[count])
                count += 1
            self._drop(count)

    def drop_oldest(self, max_bytes: int) -> None:
        """Drop the oldest changes from memory, stored or not, until they take at most `max_bytes`."""
        count = 0
        while self.recent_bytes > max_bytes:
            self.recent_bytes -= CHANGE_BYTES + images_of(self.recent[count])
            count += 1
        self._drop(count)

    def restart_in(self, segments: Segments) -> None:
        """Continue in new segments: keep the changes in memory, as unsent, and no others."""
        self.segments = segments
        self.sent = self.stored = self.recent_after
        self.trimmed_after = max(self.trimmed_after, self.recent_after)
        self.unsent_bytes = self.recent_bytes

    @property
    def trim_horizon(self) -> int:
        """Sequence number up to which changes cannot be read: trimmed, or in segments that were just removed."""
        return max(self.trimmed_after, self.segments.first_after)

    def trim(self, after: int) -> None:
        """Hide the changes up to a sequence number."""
        self.trimmed_after = max(self.trimmed_after, after)
        ended = bisect_right(self.shard_starts, self.trimmed_after, key=_sequence_number) - 1
        if ended > 0:
            del self.shard_starts[:ended]

    def _drop(self, count: int) -> None:
        if count:
            self.recent_after = self.recent[count - 1].sequence_number
            del self.recent[:count]
            del self._sums[:count]

    # Reading memory

    def newest(
        self, request: ReadChanges, after: int, holds: Callable[[Change], bool] | None = None
    ) -> tuple[list[Change], SequenceNumber | None]:
        """Return a page of the changes in memory after a sequence number, and where the next page begins.

        That is None if the page reaches the end of the changes or of the request. `holds` filters the changes of a
        shard, at most MAX_FILTERED of them. The request is limited to its stream, so no other filter is needed.
        """
        recent, until = self.recent, request.until
        first = bisect_right(recent, after, key=_sequence_number)
        end = len(recent) if until is None else bisect_right(recent, until, lo=first, key=_sequence_number)
        if holds is None:
            stop = self._end_of_page(first, min(end, first + request.limit), request.size)
            page = recent[first:stop]
        else:
            stop, page = min(end, first + MAX_FILTERED), []
            if fill(page, (recent[index] for index in range(first, stop)), request, holds):
                return page, page[-1].sequence_number
        return page, None if stop == end else recent[stop - 1].sequence_number

    def _end_of_page(self, first: int, end: int, size: int) -> int:
        """Return the end of a page that begins at an index: it has `size` bytes of images at most, or one change.

        The changes are not touched: by the time of a read they have left the processor's cache.
        """
        sums = self._sums
        fitting = bisect_right(sums, sums[first] + size, lo=first, hi=end + 1) - 1
        return min(end, max(fitting, first + 1))

    def count(self, after: int, until: int) -> tuple[int, int | None]:
        """Count the changes in memory with after < sequence number <= until; also the log time of the first."""
        first = bisect_right(self.recent, after, key=_sequence_number)
        end = bisect_right(self.recent, until, lo=first, key=_sequence_number)
        return end - first, self.recent[first].time if first < end else None

    def find(self, time_ms: int) -> int | None:
        """Return the highest sequence number with an earlier log time, None if only segments can tell."""
        index = bisect_left(self.recent, time_ms, key=_time)
        if index:
            return self.recent[index - 1].sequence_number
        return None if self.recent_after > self.segments.first_after else self.recent_after


def _bytes(changes: Iterable[Change]) -> int:
    return sum(CHANGE_BYTES + images_of(change) for change in changes)
