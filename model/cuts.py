"""The syntax of a cut, a point of history, in the name of a table: `Orders@10482.3`.

    name      ::= TABLE "@" cut                           TABLE is a name or an ARN; neither contains an @
    cut       ::= position ("," position)* | time | age
    position  ::= (PARTITION ":")? OFFSET ("." INDEX)?    10482, 10482.3, 2:10482.3 and 1:7,2:9, as in x-foldb-position
    time      ::= YYYY-MM-DDTHH:MM(:SS(.mmm)?)?Z          of log time, in UTC
    age       ::= "-" DURATION                            -1h: before now (durations.py)

Seconds since 1970 are no cut, because they would look like an offset.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from .durations import duration, milliseconds
from .lazy_dataclass import dataclass

SEPARATOR: Final = "@"

_POSITION: Final = re.compile(r"(?:([0-9]{1,4}):)?([0-9]{1,18})(?:\.([0-9]{1,5}))?")
_TIME: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,3}))?)?Z"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_SHOWN_MAX: Final = 100
_LONGEST: Final = 16_384  # characters: a position for each of 500 partitions
_FORMS: Final = "a position (10482, 10482.3, 2:10482.3), a time (2026-11-20T12:00:00.000Z) or an age (-1h)"


@dataclass(frozen=True, slots=True)
class NamedPosition:
    """A position as it is written. `partition` is None in a database with one partition."""

    partition: int | None
    offset: int
    index: int | None = None


@dataclass(frozen=True, slots=True)
class AtPositions:
    """The state at one position, or at one position for each of several partitions, in the order of the partitions."""

    positions: tuple[NamedPosition, ...]


@dataclass(frozen=True, slots=True)
class AtTime:
    """The state at a log time, in milliseconds since 1970."""

    time_ms: int


@dataclass(frozen=True, slots=True)
class Ago:
    """The state at a log time before now, in milliseconds."""

    age_ms: int


NamedCut: TypeAlias = AtPositions | AtTime | Ago


def split_name(name: str) -> tuple[str, str | None]:
    """Return the table and the text of the cut in a name; None if it has no cut.

    >>> split_name("Orders@-1h")
    ('Orders', '-1h')
    >>> split_name("Orders")
    ('Orders', None)
    """
    table, separator, cut = name.partition(SEPARATOR)
    return table, cut if separator else None


def parse_cut(text: str) -> NamedCut:
    """Parse the text of a cut.

    >>> parse_cut("2:10482.3")
    AtPositions(positions=(NamedPosition(partition=2, offset=10482, index=3),))
    >>> parse_cut("-1.5h")
    Ago(age_ms=5400000)

    Raises:
        ValueError: The text is not a cut. The message has the forms of a cut.
    """
    if text.startswith("-"):
        return _parse_age(text)
    if "T" in text:
        return AtTime(_parse_time(text))
    return AtPositions(parse_positions(text))


def parse_positions(text: str) -> tuple[NamedPosition, ...]:
    """Parse one position, or several with commas, each of another partition; return them ordered by partition.

    Raises:
        ValueError: The text is not a position, or has two positions of a partition.
    """
    if len(text) > _LONGEST:
        raise _malformed(text)
    positions = [_parse_position(part, text) for part in text.split(",")]
    if len(positions) == 1:
        return tuple(positions)
    by_partition = {each.partition: each for each in positions if each.partition is not None}
    if len(by_partition) < len(positions):
        raise _malformed(text)
    return tuple(by_partition[partition] for partition in sorted(by_partition))


def cut_text(cut: NamedCut) -> str:
    """Return the text of a cut, which `parse_cut` reads.

    >>> cut_text(AtTime(1763640000000))
    '2025-11-20T12:00:00.000Z'
    """
    match cut:
        case AtTime(time_ms):
            return time_text(time_ms)
        case Ago(age_ms):
            return f"-{duration(age_ms)}"
        case AtPositions(positions):
            return ",".join(map(_position_text, positions))


def time_text(time_ms: int) -> str:
    """Return the text of a time in milliseconds since 1970."""
    moment = _EPOCH + time_ms * _MILLISECOND
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03d}Z"


def _position_text(position: NamedPosition) -> str:
    partition = "" if position.partition is None else f"{position.partition}:"
    index = "" if position.index is None else f".{position.index}"
    return f"{partition}{position.offset}{index}"


def _parse_position(part: str, text: str) -> NamedPosition:
    match = _POSITION.fullmatch(part)
    if match is None:
        raise _malformed(text)
    partition, offset, index = match.groups()
    return NamedPosition(
        None if partition is None else int(partition), int(offset), None if index is None else int(index)
    )


def _parse_time(text: str) -> int:
    match = _TIME.fullmatch(text)
    if match is None:
        raise _malformed(text)
    *date, second, fraction = match.groups()
    try:
        moment = datetime(*map(int, date), int(second or 0), tzinfo=UTC)  # type: ignore[arg-type, misc]  # five integers
    except ValueError:
        raise _malformed(text) from None
    time_ms = (moment - _EPOCH) // _MILLISECOND + int((fraction or "").ljust(3, "0"))
    if time_ms < 0:
        raise _malformed(text)
    return time_ms


def _parse_age(text: str) -> Ago:
    try:
        return Ago(milliseconds(text[1:]))
    except ValueError:
        raise _malformed(text) from None


def _malformed(text: str) -> ValueError:
    return ValueError(f"`{text[:_SHOWN_MAX]}` is not a cut: write {_FORMS}")
