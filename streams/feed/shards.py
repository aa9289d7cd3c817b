"""Shards of a stream: partitions and log time in the terms of DynamoDB Streams.

The changes of a stream in one partition are divided into shards by log time, one shard per period of `shard_ms` since
the stream was enabled. A period without changes has no shard, except for the first. Shards therefore follow from the
changes alone, and a refold finds the same ones.

A shard begins with its first change, even if that is trimmed: the durable offset stores it. The true start of a partly
trimmed shard is unknown after a start from a snapshot that is older than all kept changes, or after changes were
dropped from memory; such a shard begins with its first captured change.

    stream enabled at 1000, shard_ms 500     changes at 1100, 1200     2300       2700
                                             └─── period 0 ───┘      period 2   period 3, open
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...materializer.feed_requests import Shard
from ...materializer.fold.feed.capture import WATCHED, CapturePeriod
from ...model.sequence_numbers import SequenceNumber

_SHARD_ID = re.compile(r"shardId-([0-9]{20})-([0-9a-f]{4})([0-9a-f]{4,12})")


class ShardName(NamedTuple):
    """The parts of a shard id: the start of its period in log time, the partition, and the index of the period."""

    begun_ms: int
    partition: int
    period: int


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


def shard_id(stream: int, shard_ms: int, partition: int, period: int) -> str:
    """Return the id of a shard: between 28 and 65 characters, as SDKs check.

    >>> shard_id(1_700_000_000_000, 14_400_000, 3, 2)
    'shardId-00000001700028800000-00030002'
    """
    return f"shardId-{begun_ms(stream, shard_ms, period):020d}-{partition:04x}{period:04x}"


def read_shard_id(text: str) -> ShardName | None:
    """Parse a shard id; None if the text is not one.

    >>> read_shard_id("shardId-00000001700028800000-00030002")
    ShardName(begun_ms=1700028800000, partition=3, period=2)
    """
    match = _SHARD_ID.fullmatch(text)
    return None if match is None else ShardName(int(match[1]), int(match[2], 16), int(match[3], 16))


def shards(
    starts: Iterable[ShardStart],
    *,
    stream: int,
    shard_ms: int,
    begun: int,
    ended: int | None,
    trim_horizon: int,
) -> list[Shard]:
    """Return the shards of a stream in one partition, oldest first.

    Args:
        starts: The first changes of shards, in order.
        stream: The stream's label.
        shard_ms: The length of a period.
        begun: The sequence number of the command that enabled the stream in this partition.
        ended: The sequence number of the command that disabled it, None while it is enabled.
        trim_horizon: The sequence number up to which changes are trimmed. A shard that ends there is left out.
    """
    first = {0: begun}  # the first shard exists before the first change
    for each in starts:
        if each.stream == stream:
            first.setdefault(each.period, each.sequence_number)
    periods = [*first.items()]
    lasts = [after - 1 for _, after in periods[1:]] + [None if ended is None else ended]
    return [
        Shard(period, sequence_number, last, begun_ms(stream, shard_ms, period))
        for (period, sequence_number), last in zip(periods, lasts, strict=True)
        if last is None or last > trim_horizon or (ended is not None and period == periods[-1][0])
    ]
