"""Durations and points in time in flags: 500ms, 30s, 7d; 2026-11-20T12:00:00Z, and -1h for an hour ago."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

import typer

from ...model.durations import milliseconds
from .errors import CommandError, ExitCode


def read_duration(value: str | int) -> int:
    """Return the milliseconds of a flag's value. A default passes through here too, and is an int already.

    Raises:
        typer.BadParameter: `value` is not a duration.
    """
    try:
        return value if isinstance(value, int) else milliseconds(value)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def read_time(text: str, clock: Callable[[], int], sentence: str) -> int:
    """Return the milliseconds since 1970 of a date, a date and time (UTC unless it has an offset), or -1h.

    Raises:
        CommandError: `text` is none of these. Its text is `sentence`.
    """
    try:
        if text.startswith("-"):
            return max(0, clock() - milliseconds(text[1:]))
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise CommandError(sentence, ExitCode.USAGE) from None
    return max(0, round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000))


def now() -> int:
    """Return milliseconds since 1970."""
    return time.time_ns() // 1_000_000
