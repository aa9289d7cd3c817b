"""The syntax of durations in flags and in triggers: 200ms, 10s, 1.5h, 7d; and the text of points in time."""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|s|m|h|d)", re.ASCII)
_SECONDS: Final = {
    "ms": Decimal("0.001"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
    "d": Decimal(86400),
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SHOWN: Final = (("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))


def seconds(text: str) -> Decimal:
    """Return the seconds of a duration. `0` needs no unit.

    >>> seconds("250ms")
    Decimal('0.250')

    Raises:
        ValueError: `text` is not a duration.
    """
    if text == "0":
        return Decimal(0)
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(
            f"`{text}` is not a duration: write a number and a unit, like 200ms, 10s, 5m, 4h or 7d"
        )
    return Decimal(match[1]) * _SECONDS[match[2]]


def milliseconds(text: str) -> int:
    """Return the milliseconds of a duration. `0` needs no unit.

    >>> milliseconds("1.5h")
    5400000

    Raises:
        ValueError: `text` is not a duration, or has a fraction of a millisecond.
    """
    found = seconds(text) * 1000
    if found != int(found):
        raise ValueError(f"`{text}` has a fraction of a millisecond: 1ms is the smallest unit")
    return int(found)


def duration(milliseconds: int) -> str:
    """Return the text of a duration in the largest unit, at most hours, that needs no fraction.

    >>> duration(0), duration(90_000), duration(7_200_000)
    ('0s', '90s', '2h')
    """
    if not milliseconds:
        return "0s"
    unit, unit_ms = next(each for each in _SHOWN if milliseconds % each[1] == 0)
    return f"{milliseconds // unit_ms}{unit}"


def time_text(time_ms: int) -> str:
    """Return a time in milliseconds since 1970 as an ISO date.

    >>> time_text(1_700_000_000_123)
    '2023-11-14T22:13:20.123Z'
    """
    moment = _EPOCH + timedelta(milliseconds=time_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
