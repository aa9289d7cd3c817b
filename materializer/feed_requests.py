"""What is asked of a partition's change feed, and what it answers: plain data, because the partition may be elsewhere.

A partition keeps the changes of a table while its stream is enabled or a subscription watches it. Where one stands is
told by its sequence number alone; 0 is before all of them. The feed itself is made above this layer (`streams/feed`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeAlias

from ..log.commands import Position
from ..model.errors import RequestError, ServiceUnavailableError
from .fold.outcomes import Change
from .partition import Partition, Place

LONGEST_WAIT_MS: Final = 20_000
"""An answer is never waited for longer; who wants to wait on asks again."""


@dataclass(frozen=True, slots=True)
class ReadChanges:
    """Changes of a table, in order of their numbers.

    Attributes:
        table: Which.
        after_sequence_number: Only what has a higher number.
        until: Only what has this number or a lower one.
        stream: Only what was changed while the stream with this label (its `created_ms`) was enabled.
        limit: At most so many.
        size: About so many bytes of images at most; one change always goes.
        wait_ms: Where there is nothing yet, the answer waits for something for so long (LONGEST_WAIT_MS at most).
    """

    table: int
    after_sequence_number: int
    until: int | None = None
    stream: int | None = None
    limit: int = 1000
    size: int = 1024 * 1024
    wait_ms: int = 0


@dataclass(frozen=True, slots=True)
class FindNumber:
    """The number after which all changes of a table have a log time of `time_ms` or later.

    `stream` only tells which stream's `kept_after` the answer has.
    """

    table: int
    time_ms: int
    stream: int | None = None


@dataclass(frozen=True, slots=True)
class ListShards:
    """The stretches into which the changes of one stream of a table fall here, oldest first."""

    table: int
    stream: int


@dataclass(frozen=True, slots=True)
class CountChanges:
    """How many changes of a table have a number above `after`, and up to `until` if that is given."""

    table: int
    after_sequence_number: int
    until: int | None = None


FeedRequest: TypeAlias = ReadChanges | FindNumber | ListShards | CountChanges


@dataclass(slots=True)
class Changes:
    """A page of changes.

    Attributes:
        changes: In order.
        next: The `after` of the next read: the last change's number or, where nothing more is there, the highest number
            that what has been folded could have given.
        kept_after: What has this number or a lower one is not kept here: a read with a lower `after` has a gap. Of one
            stream that goes back to its beginning; of all, to where it was last begun to keep the table's changes.
        is_end: Whether there is nothing more now.
        time: Log time here.
    """

    changes: list[Change]
    next: int
    trim_horizon: int
    is_end: bool
    time: int


@dataclass(frozen=True, slots=True)
class Number:
    """An answer to FindNumber; `kept_after` as in Changes."""

    after: int
    trim_horizon: int


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


@dataclass(frozen=True, slots=True)
class Count:
    """An answer to CountChanges: how many, the log time of the first, and the end as in Changes.next."""

    changes: int
    oldest_ms: int | None
    end: int


FeedAnswer: TypeAlias = Changes | Number | Shards | Count


class OnFed(Protocol):
    """Who waits for an answer of the feed."""

    def __call__(self, answer: FeedAnswer | RequestError, place: Place, /) -> None: ...


Reader: TypeAlias = Callable[[FeedRequest, OnFed], None]
"""Who answers what is asked of a feed."""


class FedPartition(Partition, Protocol):
    """A partition whose change feed can be read."""

    def feed(self, request: FeedRequest, done: OnFed) -> None:
        """Read the feed; `done` is called exactly once, on the caller's loop."""
        ...


def no_feed(_: FeedRequest, done: OnFed) -> None:
    """Read a feed that nobody keeps."""
    done(ServiceUnavailableError(), Position(0, -1))
