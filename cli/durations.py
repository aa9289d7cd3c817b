"""How long something takes, as people write it: 500ms, 30s, 5m, 4h, 7d."""

import re
from typing import Final

_WRITTEN = re.compile(r"([0-9]+)(ms|s|m|h|d)")
_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration(text: str) -> int:
    """Milliseconds.

    >>> duration("4h")
    14400000

    Raises:
        ValueError: It is no such time, or none at all.
    """
    written = _WRITTEN.fullmatch(text)
    if written is None or not int(written[1]):
        raise ValueError(f"`{text}` is no time; write it like 500ms, 30s, 5m, 4h or 7d")
    return int(written[1]) * _MS[written[2]]
