"""A history moved from one log into another, whatever kind of log either is.

    source ──► record ──► its entry, with the time that it had ──► target, at the same offset

Positions, sequence numbers, log time and digests go on as they were, because offsets are the same and entries carry
their time. A copy that was interrupted goes on where it stopped. Two copies that both go on to be written are two
histories with one name: the writers of the source stop first, and the last copy brings what is left.
"""

import queue
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, Protocol, TypeAlias

from ..model.errors import ForeignLogError, LogError
from .commands import Entry, Genesis, Record
from .log import Appended, Log

# So many appends are under way: the target makes groups of them.
WINDOW: Final = 256


class Readable(Protocol):
    """The part of a log that is copied from."""

    @property
    def partitions(self) -> int: ...

    def read(self, partition: int, start: int = 0) -> Iterator[Record]: ...

    def end(self, partition: int) -> int: ...

    def genesis(self, partition: int) -> Genesis: ...


Deliveries: TypeAlias = "queue.SimpleQueue[Callable[[], None]]"
"""Where the target's `deliver` puts callbacks; the copy takes them out."""


def first_entries(source: Readable) -> list[Entry]:
    """What a target that is not there yet begins with."""
    return [original(next(source.read(partition))) for partition in range(source.partitions)]


def original(record: Record) -> Entry:
    """The record's entry with the time that it had, wherever it goes."""
    entry = record.entry
    return entry if entry.time is not None else replace(entry, time=record.time)


def copy(
    source: Readable, target: Log, deliveries: Deliveries, progress: Callable[[int], None] = lambda _: None
) -> int:
    """Append to `target` what `source` has and it has not; return how many records that were.

    Args:
        source: Read up to its end as it is when its turn comes.
        target: Holds nothing but what a former copy brought. Nobody else appends to it.
        deliveries: Where the target delivers to.
        progress: Told of records, those included that were there already.

    Raises:
        ForeignLogError: The target holds another history.
        LogError: The target took no more. The copy can go on from there later.
    """
    copied = 0
    for partition in range(source.partitions):
        start = _common(source, target, partition)
        progress(start)
        copied += _copy_partition(source, target, partition, start, deliveries, progress)
    return copied


def _common(source: Readable, target: Log, partition: int) -> int:
    """Where the target's partition ends, if it is the beginning of the source's."""
    theirs, ours = source.genesis(partition), target.genesis(partition)
    if theirs != ours:
        raise ForeignLogError(
            f"the target holds the log {ours.log_id.hex()}, and {theirs.log_id.hex()} is to be copied: "
            "name a target that holds nothing"
        )
    end = target.end(partition)
    if end > source.end(partition):
        raise _served_since(f"partition {partition} of the target goes on after that of the source")
    here, there = next(source.read(partition, end - 1)), next(target.read(partition, end - 1))
    if original(here) != original(there):
        raise _served_since(f"record {partition}:{end - 1} of the target is not that of the source")
    return end


def _served_since(difference: str) -> ForeignLogError:
    return ForeignLogError(
        f"{difference}: the target was served since the last copy, so each of them now holds writes that the other "
        "does not. Serve only one of them from now on. To go on with the source, copy it into a target that holds "
        "nothing; to go on with the target, stop the servers of the source."
    )


def _copy_partition(
    source: Readable,
    target: Log,
    partition: int,
    start: int,
    deliveries: Deliveries,
    progress: Callable[[int], None],
) -> int:
    flight = _Flight(deliveries, start)
    for record in source.read(partition, start):
        flight.wait_for(WINDOW - 1)
        target.append(partition, original(record), flight.done)
        flight.under_way += 1
        progress(1)
    flight.wait_for(0)
    return flight.next_offset - start


class _Flight:
    """The appends under way, and where the next of them must come to stand."""

    def __init__(self, deliveries: Deliveries, start: int) -> None:
        self.under_way = 0
        self.next_offset = start
        self._deliveries = deliveries

    def done(self, result: Appended | LogError) -> None:
        self.under_way -= 1
        if isinstance(result, LogError):
            raise result
        if result.offset != self.next_offset:
            raise LogError(
                f"record {self.next_offset} came to stand at {result.offset} of the target: somebody else writes it, "
                "or it is not a new one. Copy into one that holds nothing."
            )
        self.next_offset += 1

    def wait_for(self, most: int) -> None:
        """Return when at most so many are under way."""
        while self.under_way > most:
            self._deliveries.get()()
