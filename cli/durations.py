"""How long something takes, as people write it: 500ms, 30s, 1.5h, 7d."""

from ..streams.declared import seconds
from .failures import CommandError, ExitCode


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
