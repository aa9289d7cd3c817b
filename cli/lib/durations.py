"""Durations and times as people write them: 500ms, 30s, 1.5h, 7d; 2026-11-20T12:00:00Z, -1h for an hour ago."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from ...streams.decorator import seconds
from .errors import CommandError, ExitCode


def duration(text: str) -> int:
    """Milliseconds.

    >>> duration("4h")
    14400000

    Raises:
        ValueError: It is no such time, or none at all.
    """
    found = int(seconds(text) * 1000)
    if not found:
        raise ValueError(f"`{text}` is no time; write it like 500ms, 30s, 5m, 4h or 7d")
    return found


def flag_duration(flag: str, text: str) -> int:
    """The same of what a flag was given.

    Raises:
        CommandError: It is no such time, or none at all.
    """
    try:
        return duration(text)
    except ValueError as error:
        raise CommandError(f"{flag}: {error}", ExitCode.USAGE) from None


def read_time(text: str, clock: Callable[[], int], sentence: str) -> int:
    """Return milliseconds since 1970 of a date, a date and time (of UTC unless it has an offset), or -1h.

    Raises:
        CommandError: It is none of these; `sentence` says so.
    """
    try:
        if text.startswith("-"):
            return max(0, clock() - duration(text[1:]))
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise CommandError(sentence, ExitCode.USAGE) from None
    return max(0, round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000))


def now() -> int:
    """Return milliseconds since 1970."""
    return time.time_ns() // 1_000_000
