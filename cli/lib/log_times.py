"""A position or a log time in flags such as --from and --to.

10482, 10482.3, 2:10482.3        a position
2026-11-20T12:00:00Z, -1h        a time: in each partition the last record up to it, or the first record from it on
"""

import re

from ...log.commands import Position
from .durations import now, read_time
from .errors import CommandError, ExitCode
from .log_history import read_position, timed
from .log_location import SourceLog, check_position, check_time
from .output import time_text

_POSITION = re.compile(r"@?([0-9]+:)?[0-9]+(\.[0-9]+)?")


def is_position(text: str) -> bool:
    """Return whether a text has the form of a position, or of several with commas."""
    return _POSITION.fullmatch(text.partition(",")[0]) is not None


def time_of(text: str) -> int | None:
    """Return the milliseconds since 1970 of a time. None: `text` is a position.

    Raises:
        CommandError: `text` is neither a time nor a position.
    """
    if is_position(text):
        return None
    return read_time(
        text,
        now,
        f"`{text}` is not a position such as 10482, 10482.3 or 2:10482.3, "
        "and not a time such as 2026-11-20T12:00:00Z or -1h",
    )


def last_places(log: SourceLog, text: str, partitions: range) -> dict[int, Position]:
    """Return the last positions to read: the position `text`, or in each partition the last record up to that time.

    Raises:
        CommandError: `text` is not a position of this log, or is a time before its first record.
        HorizonError: `text` is before the history horizon.
    """
    time_ms = time_of(text)
    if time_ms is None:
        return _positions(log, text, 1)
    found = {}
    check_time(log, time_ms)
    for partition in partitions:
        first = None
        offset = log.begin(partition) - 1 if log.begin(partition) else None
        for time, _, record in timed(log.read(partition, log.begin(partition))):
            if time > time_ms:
                first = time
                break
            offset = record.offset
        if offset is None:
            start = "" if first is None else f": its history begins at {time_text(first)}"
            raise CommandError(f"the log has no record up to {time_text(time_ms)}{start}", ExitCode.USAGE)
        found[partition] = Position(partition, offset)
    return found


def first_places(log: SourceLog, text: str, partitions: range) -> dict[int, Position]:
    """Return the first positions to read: the position `text`, or in each partition the first record from that time on.

    A partition without such a record starts at its end.

    Raises:
        CommandError: `text` is not a position of this log.
        HorizonError: `text` is before the history horizon.
    """
    time_ms = time_of(text)
    if time_ms is None:
        return _positions(log, text, 0)
    check_time(log, time_ms)
    return {
        partition: Position(
            partition,
            next(
                (
                    record.offset
                    for time, _, record in timed(log.read(partition, log.begin(partition)))
                    if time >= time_ms
                ),
                log.end(partition),
            ),
        )
        for partition in partitions
    }


def _positions(log: SourceLog, text: str, before: int) -> dict[int, Position]:
    """Return positions that are at most `before` records before the horizon: the state there is known."""
    positions = [read_position(each, log.partitions) for each in text.split(",")]
    for position in positions:
        is_known = position.index is None and position.offset + before >= log.begin(position.partition)
        if not is_known:
            check_position(log, position)
    return {position.partition: position for position in positions}
