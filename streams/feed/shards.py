"""Shards of a stream: partitions and log time in the terms of DynamoDB Streams.

The changes of a stream in one partition are divided into shards by log time, one shard per period of `shard_ms` since
the stream was enabled. A period without changes has no shard, except for the first. A split of a capacity partition
divides the shard that has keys on both sides of its boundary: each child has the changes of its range of keys, from the
split on. Each range then has shards of its own, one per period. So all changes of a key are in one shard at any time,
and in its child later. Shards follow from the changes and the splits alone, and a refold finds the same ones.

A shard begins with its first change, even if that is trimmed: the durable offset stores it. The true start of a partly
trimmed shard is unknown after a start from a snapshot that is older than all kept changes, or after changes were
dropped from memory; such a shard begins with its first captured change.

    stream enabled at 1000, shard_ms 500     changes at 1100, 1200     2300   split at 2400    2700
    range 0, until the split                 └─── period 0 ───┘      period 2
    ranges 1 and 2                                                              period 2       period 3, open
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

from ...materializer.feed_requests import Shard
from ...materializer.fold.feed.capture import WATCHED, CapturePeriod
from ...materializer.fold.outcomes import Change
from ...model.capacity_partitions import HIGHEST, LOWEST, Boundary
from ...model.keys import key_hash
from ...model.sequence_numbers import SequenceNumber

_SHARD_ID = re.compile(r"shardId-([0-9]{20})-([0-9a-f]{4})([0-9a-f]{4,12})(?:-([0-9a-f]{4,8}))?")

_period = attrgetter("period")


class ShardName(NamedTuple):
    """The parts of a shard id: the start of its period in log time, the partition, the period's index, the range."""

    begun_ms: int
    partition: int
    period: int
    range: int = 0


class KeyRange(NamedTuple):
    """A range of the keys of a stream's table, which has shards of its own: 0 has all keys, and each split makes two.

    Attributes:
        parent: The id of the range that was divided to make this one; None for range 0.
        low: The boundary below its first key.
        high: The boundary above its last key.
        period: The index of the period in which it begins.
        first: The sequence number with which it begins.
        last: The last one before a split ends it, or the stream is disabled; None while it is open.
    """

    parent: int | None
    low: Boundary
    high: Boundary
    period: int
    first: SequenceNumber
    last: SequenceNumber | None

    def holds(self, change: Change) -> bool:
        """Return whether the key of a change is in the range."""
        return self.low <= (key_hash(change.table, change.pk), change.pk, change.sk) < self.high


class ShardStart(NamedTuple):
    """The first change of a shard: the stream, the index of the period, and the sequence number."""

    stream: int
    period: int
    sequence_number: SequenceNumber


def period_of(time_ms: int, stream: int, shard_ms: int) -> int:
    """Return the index of a stream's period at a time; `stream` is the stream's label, the time when it was enabled.

    >>> period_of(2300, 1000, 500)
    2
    """
    return max(0, time_ms - stream) // shard_ms


def period_in(window: CapturePeriod, time_ms: int) -> int:
    """Return the index of a capture period's shard period at a time; 0 without a stream."""
    return 0 if window.label == WATCHED else period_of(time_ms, window.label, window.shard_ms)


def window_of(windows: Sequence[CapturePeriod], sequence_number: SequenceNumber) -> CapturePeriod | None:
    """Return the capture period of a sequence number: that of a stream rather than that of a subscription."""
    found = None
    for window in windows:
        if window.holds(sequence_number):
            if window.label:
                return window
            found = window
    return found


def begun_ms(stream: int, shard_ms: int, period: int) -> int:
    """Return the log time at which a period begins."""
    return stream + period * shard_ms


def shard_id(stream: int, shard_ms: int, partition: int, period: int, range_id: int = 0) -> str:
    """Return the id of a shard: between 28 and 65 characters, as SDKs check.

    >>> shard_id(1_700_000_000_000, 14_400_000, 3, 2)
    'shardId-00000001700028800000-00030002'
    >>> shard_id(1_700_000_000_000, 14_400_000, 3, 2, range_id=5)
    'shardId-00000001700028800000-00030002-0005'
    """
    name = f"shardId-{begun_ms(stream, shard_ms, period):020d}-{partition:04x}{period:04x}"
    return f"{name}-{range_id:04x}" if range_id else name


def read_shard_id(text: str) -> ShardName | None:
    """Parse a shard id; None if the text is not one.

    >>> read_shard_id("shardId-00000001700028800000-00030002")
    ShardName(begun_ms=1700028800000, partition=3, period=2, range=0)
    """
    match = _SHARD_ID.fullmatch(text)
    if match is None:
        return None
    return ShardName(int(match[1]), int(match[2], 16), int(match[3], 16), int(match[4] or "0", 16))


def key_ranges(stream: CapturePeriod) -> list[KeyRange]:
    """Return the ranges of a stream in one partition, by id: range 0, and two of each split."""
    ranges = [KeyRange(None, LOWEST, HIGHEST, 0, stream.begun, stream.ended)]
    present, lows = [0], [LOWEST]  # the ranges that are not divided, in the order of their keys
    for split in stream.splits:
        index = bisect_right(lows, split.boundary) - 1
        parent = ranges[present[index]]
        ranges[present[index]] = parent._replace(last=split.sequence_number - 1)
        period = period_of(split.time_ms, stream.label, stream.shard_ms)
        for low, high in ((parent.low, split.boundary), (split.boundary, parent.high)):
            ranges.append(KeyRange(present[index], low, high, period, split.sequence_number, stream.ended))
        present[index : index + 1] = len(ranges) - 2, len(ranges) - 1
        lows.insert(index + 1, split.boundary)
    return ranges


def shards(starts: Iterable[ShardStart], stream: CapturePeriod, *, trim_horizon: int) -> list[Shard]:
    """Return the shards of a stream in one partition, oldest first.

    Args:
        starts: The first changes of periods, in order.
        stream: The stream in this partition.
        trim_horizon: The sequence number up to which changes are trimmed. A shard that ends there is left out.
    """
    rolls = _rolls(starts, stream)
    found = []
    ranges = key_ranges(stream)
    for range_id, range_ in enumerate(ranges):
        period, first = range_.period, range_.first
        while True:
            roll = _next_roll(rolls, range_, period)
            last = range_.last if roll is None else roll.sequence_number - 1
            is_end = roll is None and stream.ended is not None and last == stream.ended
            if last is None or last > trim_horizon or is_end:
                begun = begun_ms(stream.label, stream.shard_ms, period)
                found.append(Shard(period, first, last, begun, _path(ranges, range_id)))
            if roll is None:
                break
            period, first = roll.period, roll.sequence_number
    return sorted(found, key=lambda shard: (shard.first, shard.path))


def shard_end(
    starts: Iterable[ShardStart], stream: CapturePeriod, key: tuple[int, int]
) -> tuple[SequenceNumber | None, Callable[[Change], bool] | None]:
    """Return the last sequence number of a shard, None while it is open, and a filter of changes by their keys.

    The filter is None if all changes of the partition up to there are in the shard.
    """
    period, range_id = key
    ranges = key_ranges(stream)
    if range_id >= len(ranges):  # of a split that is not folded here yet
        return None, lambda _: False
    range_ = ranges[range_id]
    roll = _next_roll(_rolls(starts, stream), range_, period)
    return range_.last if roll is None else roll.sequence_number - 1, range_.holds if range_id else None


def _rolls(starts: Iterable[ShardStart], stream: CapturePeriod) -> list[ShardStart]:
    """Return the first changes of the periods after period 0, which begins with the stream."""
    return [each for each in starts if each.stream == stream.label and each.period]


def _next_roll(rolls: Sequence[ShardStart], range_: KeyRange, period: int) -> ShardStart | None:
    """Return the first change in this partition that belongs to a later period of a range."""
    index = bisect_right(rolls, period, key=_period)
    if index == len(rolls) or (range_.last is not None and rolls[index].sequence_number > range_.last):
        return None
    return rolls[index]


def _path(ranges: Sequence[KeyRange], range_id: int) -> list[int]:
    """Return the ids of the ranges that were divided to make a range, and its own."""
    path = [range_id]
    while (parent := ranges[path[-1]].parent) is not None:
        path.append(parent)
    return path[::-1]
