"""Where partitions and log time meet DynamoDB Streams' words.

A partition's part of a stream is cut into shards by log time, one for each `shard_ms` since the stream was enabled in
which something changed, and one for the first. So what shards there are, and which change is in which, follows from the
changes alone: it is the same after every refold.

A shard begins with its first change, also when that is over: the mark remembers it. Of a shard of which a part is over
already, a start does not know it that takes a snapshot from before all that is kept, or that follows changes being let
go of: there such a shard begins with the first change that was taken.

    stream enabled at 1000, shard_ms 500     changes at 1100, 1200     2300     2700
                                             └──── nth 0 ────┘      nth 2    nth 3, open
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from ...materializer.feed_requests import Shard
from ...materializer.fold.feed.capture import WATCHED, CapturePeriod

_SHARD_ID = re.compile(r"shardId-([0-9]{20})-([0-9a-f]{4})([0-9a-f]{4,12})")


class ShardName(NamedTuple):
    """What a shard id says: the log time at which its period begins, the partition, and which period it is."""

    begun_ms: int
    partition: int
    nth: int


class Beginning(NamedTuple):
    """That a change, the first of its shard, was met: the stream, the period and the change's number."""

    stream: int
    nth: int
    number: int


def nth_of(time_ms: int, stream: int, shard_ms: int) -> int:
    """Which of a stream's periods a moment is in; `stream` is its label, when it was enabled.

    >>> nth_of(2300, 1000, 500)
    2
    """
    return max(0, time_ms - stream) // shard_ms


def nth_in(window: CapturePeriod, time_ms: int) -> int:
    """Which of a window's periods a moment is in; one that only watches has no periods."""
    return 0 if window.label == WATCHED else nth_of(time_ms, window.label, window.shard_ms)


def begun_ms(stream: int, shard_ms: int, nth: int) -> int:
    """The log time at which a period begins."""
    return stream + nth * shard_ms


def shard_id(stream: int, shard_ms: int, partition: int, nth: int) -> str:
    """The id of a shard, between 28 and 65 characters long, as SDKs check.

    >>> shard_id(1_700_000_000_000, 14_400_000, 3, 2)
    'shardId-00000001700028800000-00030002'
    """
    return f"shardId-{begun_ms(stream, shard_ms, nth):020d}-{partition:04x}{nth:04x}"


def read_shard_id(text: str) -> ShardName | None:
    """What `shard_id` was given; None if it is nothing of the kind.

    >>> read_shard_id("shardId-00000001700028800000-00030002")
    ShardName(begun_ms=1700028800000, partition=3, nth=2)
    """
    match = _SHARD_ID.fullmatch(text)
    return None if match is None else ShardName(int(match[1]), int(match[2], 16), int(match[3], 16))


def shards(
    beginnings: Iterable[Beginning],
    *,
    stream: int,
    shard_ms: int,
    begun: int,
    ended: int | None,
    trim_horizon: int,
) -> list[Shard]:
    """The shards of a stream in one partition, oldest first.

    Args:
        beginnings: The first changes of shards, in the order of their numbers.
        stream: The stream's label.
        shard_ms: The length of a period.
        begun: The number of the command that enabled it here; `ended` of the one that disabled it.
        ended: See `begun`.
        kept_after: What is not kept any more. A shard that ends there is left out.
    """
    first = {0: begun}  # the first shard is there before anything has changed
    for each in beginnings:
        if each.stream == stream:
            first.setdefault(each.nth, each.number)
    places = [*first.items()]
    lasts = [number - 1 for _, number in places[1:]] + [None if ended is None else ended]
    return [
        Shard(nth, number, last, begun_ms(stream, shard_ms, nth))
        for (nth, number), last in zip(places, lasts, strict=True)
        if last is None or last > trim_horizon or (ended is not None and nth == places[-1][0])
    ]
