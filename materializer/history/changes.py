"""The changes of a table as its feed has them, from the versions of its items.

    timeline ──► each version with its position ──► its item, and that of the version before it at its key
                                                ──► its author (attribution.py), and the stream of its definition

A page is bounded by its changes and by the bytes of their images. The next page begins after the last change of a page,
in its epoch or a later one.
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter

from ...log.commands import Position
from ...model.errors import HorizonError
from ...model.sequence_numbers import (
    SequenceNumber,
    first_offset_after,
    last_of_command,
    number_before,
    position_of,
    sequence_number,
)
from ..feed_requests import Changes, ReadChanges, fill
from ..fold.feed.capture import WATCHED, captured_stream
from ..fold.outcomes import Change, Tx
from .attribution import Author, authors_at
from .definitions import Definitions
from .engine import VersionCursor
from .history import NotFoldedError
from .timeline import time_at, written
from .version_history import SpannedHistory, VersionHistory
from .version_keys import read_key, unpack_position

_position = attrgetter("position")


def read_changes(history: SpannedHistory, until: Position, read: ReadChanges, partitions: int) -> Changes:
    """Return a page of the changes of a table up to a position, whether its feed captured them or not.

    Raises:
        HorizonError: The range begins before the horizon. A range from the very first change begins at the horizon.
        NotFoldedError: The page begins in an epoch that is not folded yet. A page ends before such an epoch.
    """
    after, horizon = read.after_sequence_number, history.horizon
    first = first_offset_after(after)
    if after and first < horizon.offset:
        raise HorizonError(f"the oldest position that can be read is {horizon.text(partitions)}")
    last = _last_number(until) if read.until is None else min(_last_number(until), read.until)
    log_time = until.time_ms or 0
    if after >= last:
        return Changes([], after, after, True, log_time)
    first = max(horizon.offset, first)
    page: list[Change] = []
    end = after
    while end < last:
        try:
            epoch = history.epoch_at(first)
        except NotFoldedError:
            if not page:
                raise
            break
        # An epoch with an end follows the log until the next one has caught up.
        boundary = epoch.end_offset
        first = epoch.next_offset if boundary is None or first >= boundary else boundary
        begin, end = end, min(last, number_before(first))
        found = _changes(epoch, read.table, position_of(begin)[0], position_of(end)[0] + 1, partitions)
        if fill(page, (change for change in found if begin < change.sequence_number <= end), read):
            return Changes(page, page[-1].sequence_number, after, False, log_time)
    return Changes(page, end, after, end == last, log_time)


def _last_number(position: Position) -> SequenceNumber:
    if position.index is None:
        return number_before(position.offset + 1)
    return last_of_command(sequence_number(position.offset, position.index, 0))


def _changes(epoch: VersionHistory, table: int, first: int, end: int, partitions: int) -> Iterator[Change]:
    """Yield the changes by the records of an epoch with first <= offset < end."""
    engine, streams = epoch.engine, _Streams(epoch.definitions, table)
    cursor = engine.chains()
    for offset, _, versions in written(engine, table, max(first, epoch.first_offset), end):
        log_time, authors = time_at(engine, offset), authors_at(engine, offset)
        for packed, group in groupby(versions, _position):
            index, by_command = unpack_position(packed)[1], list(group)
            author, stream = authors[index], streams.at(packed)
            nths = author.nths_in(table, len(by_command))
            for nth, version in zip(nths, by_command, strict=True):
                _, pk, sk = read_key(version.key)
                old, new = _images(cursor, version.key, version.stamp)
                yield Change(
                    table,
                    pk,
                    sk,
                    old,
                    new,
                    sequence_number(offset, index, nth),
                    log_time,
                    author.context,
                    _tx(author, nth, len(by_command), partitions),
                    stream,
                )


def _images(cursor: VersionCursor, key: bytes, stamp: bytes) -> tuple[bytes | None, bytes | None]:
    """Return the item before a version, and that of the version."""
    cursor.seek(key + stamp)
    new = cursor.value()
    before = cursor.next()
    old = cursor.value() if before is not None and before.startswith(key) else None
    return None if old is None else old[0], None if new is None else new[0]


def _tx(author: Author, nth: int, count: int, partitions: int) -> Tx | None:
    if author.transaction is None:
        return None
    coordinator, packed = author.transaction
    changing = author.changing(count)
    return Tx(
        Position(coordinator, *unpack_position(packed)).text(partitions), changing.index(nth), len(changing)
    )


class _Streams:
    """The streams of a table over time."""

    def __init__(self, definitions: Definitions, table: int) -> None:
        changes = definitions.of(table)
        self._positions = [packed for packed, _ in changes]
        self._labels = [WATCHED]
        for _, definition in changes:
            stream = None if definition is None else captured_stream(definition)
            self._labels.append(WATCHED if stream is None else stream.created_ms)

    def at(self, packed: int) -> int:
        """Return the label of the stream that was enabled before the command at a packed position, or WATCHED."""
        return self._labels[bisect_left(self._positions, packed)]
