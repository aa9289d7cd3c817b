"""Requests to a partition's change feed, and their answers: plain data, because the partition may be on another node.

A partition keeps the changes of a table while its stream is enabled or a subscription watches it. A sequence number
alone is the position of a reader; 0 is before all changes. The feed itself is above this layer (`streams/feed`).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from ..log.commands import Position
from ..model.errors import RequestError, ServiceUnavailableError
from ..model.lazy_dataclass import dataclass
from ..model.sequence_numbers import SequenceNumber
from .fold.outcomes import Change
from .partition import Partition, ResultPosition

LONGEST_WAIT_MS: Final = 20_000
"""The longest time for which an answer is delayed; a client that wants to wait longer repeats its request."""


@dataclass(frozen=True, slots=True)
class ReadChanges:
    """Read changes of a table, in order of their sequence numbers.

    Attributes:
        table: The id of the table.
        after_sequence_number: Only changes with a higher sequence number.
        until: Only changes with this sequence number or a lower one.
        stream: Only changes made while the stream with this label (its `created_ms`) was enabled.
        shard: Only changes of this shard of the stream: its period and its range of keys (`Shard`).
        limit: The maximum number of changes.
        size: The approximate maximum of image bytes; the answer always has one change at least.
        wait_ms: How long to wait for a change if there is none; at most LONGEST_WAIT_MS.
    """

    table: int
    after_sequence_number: SequenceNumber
    until: SequenceNumber | None = None
    stream: int | None = None
    limit: int = 1000
    size: int = 1024 * 1024
    wait_ms: int = 0
    shard: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class FindSequenceNumber:
    """Find the sequence number after which all changes of a table have a log time of `time_ms` or later.

    `stream` only selects the stream of the answer's `trim_horizon`.
    """

    table: int
    time_ms: int
    stream: int | None = None


@dataclass(frozen=True, slots=True)
class ListShards:
    """List the shards of one stream of a table in this partition, oldest first."""

    table: int
    stream: int


@dataclass(frozen=True, slots=True)
class CountChanges:
    """Count the changes of a table with a sequence number above `after_sequence_number`, up to `until` if given."""

    table: int
    after_sequence_number: SequenceNumber
    until: SequenceNumber | None = None


FeedRequest: TypeAlias = ReadChanges | FindSequenceNumber | ListShards | CountChanges


@dataclass(slots=True)
class Changes:
    """A page of changes.

    Attributes:
        changes: The changes, in order.
        next: The `after_sequence_number` of the next read: the sequence number of the last change or, at the end, the
            highest
            sequence number of all folded commands.
        trim_horizon: Changes with this sequence number or a lower one are not kept: a read after a lower one has a gap.
            Of
            one stream it is at least the stream's beginning; otherwise the beginning of the last capture of the table.
        is_end: Whether `changes` reaches the end of the feed.
        time: Log time of the partition.
        is_over: Whether no later change can be in the range of the request: its `until`, or the end of its shard.
    """

    changes: list[Change]
    next: SequenceNumber
    trim_horizon: SequenceNumber
    is_end: bool
    time: int
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class FoundSequenceNumber:
    """The answer to FindNumber; `trim_horizon` as in Changes."""

    after: SequenceNumber
    trim_horizon: SequenceNumber


class Shard(NamedTuple):
    """One shard of a stream in this partition: the `nth` period of the stream's shard age, from 0, of a range of keys.

    `first` is at most the sequence number of its first change, `last` its highest; None while it is open. `begun_ms`
    is log time. Ranges have ids; `path` has those of the ranges that were divided to make this one, and its own.
    """

    nth: int
    first: SequenceNumber
    last: SequenceNumber | None
    begun_ms: int
    path: Sequence[int] = (0,)

    @property
    def key(self) -> tuple[int, int]:
        """The period and the range, by which a shard of a stream is named in its partition."""
        return self.nth, self.path[-1]


@dataclass(frozen=True, slots=True)
class Shards:
    """The answer to ListShards, without trimmed shards."""

    shards: list[Shard]
    time: int


@dataclass(frozen=True, slots=True)
class ChangeCount:
    """The answer to CountChanges: the count, the log time of the first change, and the end as in Changes.next."""

    changes: int
    oldest_ms: int | None
    end: SequenceNumber


FeedAnswer: TypeAlias = Changes | FoundSequenceNumber | Shards | ChangeCount


class OnFed(Protocol):
    """Called with the feed's answer."""

    def __call__(self, answer: FeedAnswer | RequestError, position: ResultPosition, /) -> None: ...


FeedReader: TypeAlias = Callable[[FeedRequest, OnFed], None]
"""Answers requests to a feed."""


class FedPartition(Partition, Protocol):
    """A partition with a readable change feed."""

    def feed(self, request: FeedRequest, done: OnFed) -> None:
        """Read the feed; `done` is called exactly once, on the caller's loop."""
        ...


def fill(
    page: list[Change],
    changes: Iterable[Change],
    request: ReadChanges,
    holds: Callable[[Change], bool] | None = None,
) -> bool:
    """Append changes to a page, of a shard those that it holds. Return whether the page is full."""
    stream, limit = request.stream, request.limit
    room = request.size - sum(map(images_of, page))
    for change in changes:
        if stream is not None and change.stream != stream:
            continue
        if holds is not None and not holds(change):
            continue
        room -= images_of(change)
        if page and (room < 0 or len(page) >= limit):
            return True
        page.append(change)
    return False


def images_of(change: Change) -> int:
    """Return the number of bytes of a change's images."""
    old, new = change.old, change.new
    return (0 if old is None else len(old)) + (0 if new is None else len(new))


def no_feed(_: FeedRequest, done: OnFed) -> None:
    """Refuse to read the feed of a partition without one."""
    done(ServiceUnavailableError(), Position(0, -1))
