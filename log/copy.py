"""Copy the history of one log into another log of any kind.

    source ──► record ──► its entry, with its original log time ──► target, at the same offset

Positions, sequence numbers, log time and digests stay the same, because offsets are the same and entries carry their
time. An interrupted copy continues where it stopped. Writes to both logs after the copy make two histories with one
name: stop the writers of the source first, then copy the remaining records.
"""

import queue
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, Protocol, TypeAlias

from ..model.errors import ForeignLogError, LogError
from .commands import Entry, Genesis, Record
from .log import Appended, Log

# Appends in flight at most: the target writes them in groups.
WINDOW: Final = 256


class Readable(Protocol):
    """The methods of a log that a copy reads by."""

    @property
    def partitions(self) -> int: ...

    def read(self, partition: int, start: int = 0) -> Iterator[Record]: ...

    def end(self, partition: int) -> int: ...

    def genesis(self, partition: int) -> Genesis: ...


Deliveries: TypeAlias = "queue.SimpleQueue[Callable[[], None]]"
"""The queue to which the target's `deliver` adds callbacks; the copy runs them."""


def first_entries(source: Readable) -> list[Entry]:
    """Return the first entry of each partition, for a target that does not exist yet."""
    return [original(next(source.read(partition))) for partition in range(source.partitions)]


def original(record: Record) -> Entry:
    """Return the record's entry with its original log time."""
    entry = record.entry
    return entry if entry.time is not None else replace(entry, time=record.time)


def copy(
    source: Readable, target: Log, deliveries: Deliveries, progress: Callable[[int], None] = lambda _: None
) -> int:
    """Append the records of `source` that `target` lacks, and return their number.

    Args:
        source: Each partition is read up to its end at the time when its copy begins.
        target: Holds only records of an earlier copy. No other process appends to it.
        deliveries: The queue that the target delivers to.
        progress: Called with numbers of records, including those that the target held already.

    Raises:
        ForeignLogError: The target holds another history.
        LogError: The target refused an append. A later copy continues from there.
    """
    copied = 0
    for partition in range(source.partitions):
        start = _common(source, target, partition)
        progress(start)
        copied += _copy_partition(source, target, partition, start, deliveries, progress)
    return copied


def _common(source: Readable, target: Log, partition: int) -> int:
    """Return the end of the target's partition, after checking that it is a prefix of the source's."""
    theirs, ours = source.genesis(partition), target.genesis(partition)
    if theirs != ours:
        raise ForeignLogError(
            f"the target holds the log {ours.log_id.hex()}, not the source's log {theirs.log_id.hex()}: "
            "name an empty target"
        )
    end = target.end(partition)
    if end > source.end(partition):
        raise _served_since(f"partition {partition} of the target is longer than that of the source")
    here, there = next(source.read(partition, end - 1)), next(target.read(partition, end - 1))
    if original(here) != original(there):
        raise _served_since(f"record {partition}:{end - 1} of the target is not that of the source")
    return end


def _served_since(difference: str) -> ForeignLogError:
    return ForeignLogError(
        f"{difference}: the target was served since the last copy, so each of the two logs holds writes that the other "
        "lacks. Serve only one of them from now on. To keep the source, copy it into an empty target; to keep the "
        "target, stop the servers of the source."
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
        target.append(partition, original(record), flight.on_appended)
        flight.in_flight += 1
        progress(1)
    flight.wait_for(0)
    return flight.next_offset - start


class _Flight:
    """The appends in flight, and the offset that the next one must get."""

    def __init__(self, deliveries: Deliveries, start: int) -> None:
        self.in_flight = 0
        self.next_offset = start
        self._deliveries = deliveries

    def on_appended(self, result: Appended | LogError) -> None:
        self.in_flight -= 1
        if isinstance(result, LogError):
            raise result
        if result.offset != self.next_offset:
            raise LogError(
                f"record {self.next_offset} was written at offset {result.offset} of the target: another process "
                "writes to the target, or the target is not new. Copy into an empty target."
            )
        self.next_offset += 1

    def wait_for(self, limit: int) -> None:
        """Return when at most `limit` appends are in flight."""
        while self.in_flight > limit:
            self._deliveries.get()()
