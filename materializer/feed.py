"""What is asked of a partition's change feed, and what it answers: plain data, because the partition may be elsewhere.

A partition keeps the changes of a table while its stream is enabled or a subscription watches it. Where one stands is
told by its sequence number alone; 0 is before all of them. The feed itself is made above this layer (`streams/feed`).
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from ..model.errors import RequestError
from .fold.outcomes import Change
from .partition import Place


@dataclass(frozen=True, slots=True)
class ReadChanges:
    """Changes of a table, in order of their numbers.

    Attributes:
        table: Which.
        after: Only what has a higher number.
        until: Only what has this number or a lower one.
        stream: Only what was changed while the stream with this label (its `created_ms`) was enabled.
        limit: At most so many.
        size: About so many bytes of images at most; one change always goes.
        wait_ms: Where there is nothing yet, the answer waits for something for so long.
    """

    table: int
    after: int
    until: int | None = None
    stream: int | None = None
    limit: int = 1000
    size: int = 1024 * 1024
    wait_ms: int = 0


@dataclass(frozen=True, slots=True)
class FindNumber:
    """The number after which all changes of a table have a log time of `time_ms` or later."""

    table: int
    time_ms: int


@dataclass(frozen=True, slots=True)
class ListShards:
    """The stretches into which the changes of one stream of a table fall here, oldest first."""

    table: int
    stream: int


FeedRequest: TypeAlias = ReadChanges | FindNumber | ListShards


@dataclass(slots=True)
class Changes:
    """A page of changes.

    Attributes:
        changes: In order.
        next: The `after` of the next read: the last change's number or, where nothing more is there, the highest number
            that what has been folded could have given.
        kept_after: What has this number or a lower one is not kept here: a read with a lower `after` has a gap.
        is_end: Whether there is nothing more now.
        time: Log time here.
    """

    changes: list[Change]
    next: int
    kept_after: int
    is_end: bool
    time: int


@dataclass(frozen=True, slots=True)
class Number:
    """An answer to FindNumber; `kept_after` as in Changes."""

    after: int
    kept_after: int


class Shard(NamedTuple):
    """One stretch of a stream here: the `nth` period of the stream's shard age, from 0.

    `first` is not above its first change and `last` its highest, None while it is open; `begun_ms` is log time.
    """

    nth: int
    first: int
    last: int | None
    begun_ms: int


@dataclass(frozen=True, slots=True)
class Shards:
    """An answer to ListShards; what was trimmed is left out."""

    shards: list[Shard]
    time: int


FeedAnswer: TypeAlias = Changes | Number | Shards


class OnFed(Protocol):
    """Who waits for an answer of the feed."""

    def __call__(self, answer: FeedAnswer | RequestError, place: Place) -> None: ...
