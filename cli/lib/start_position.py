"""The start and the end of reading changes, as --from and --to.

    start       the beginning of history                 2026-11-20, 2026-11-20T12:00:00Z   a time
    horizon     the oldest change that the feed keeps    -1h                                an hour ago
    end, now    new changes                              @10482.3, @1:7,2:10482.3           a position or a cut
    snapshot    all items, then new changes              100000000000001048200030000        a sequence number

With several partitions a sequence number has the partition id before it, and commas separate several:
1:1000...,2:1000.... Other partitions are not read. The change with that sequence number or at that position is the
first one read; the Numbers of a Start are the sequence numbers before the first.
"""

import re
from collections.abc import Callable, Mapping
from math import inf
from typing import Any, Final

from ...model.cuts import AtPositions, parse_cut
from ...model.sequence_numbers import SequenceNumbers, number_texts, parse_number
from .durations import read_time

Start = dict[str, Any]

_WORDS: Final = {
    "start": "BEGINNING",
    "beginning": "BEGINNING",
    "horizon": "HORIZON",
    "end": "NOW",
    "now": "NOW",
    "snapshot": "SNAPSHOT",
}
_NUMBER = r"[0-9]{21,40}"
_NUMBERS = re.compile(rf"{_NUMBER}|[0-9]{{1,3}}:{_NUMBER}(,[0-9]{{1,3}}:{_NUMBER})*")
_POSITION = re.compile(r"@([0-9]{1,3}:)?[0-9]{1,18}(\.[0-9]{1,5})?(,[0-9]{1,3}:[0-9]{1,18}(\.[0-9]{1,5})?)*")
_ONLY_PARTITION: Final = 0
_PLACES: Final = "-1h, a time such as 2026-11-20T12:00:00Z, a position such as @2, or a sequence number"
_BEGINNINGS: Final = f"start, horizon, end, snapshot, {_PLACES}"


def read_start(text: str, clock: Callable[[], int], flag: str = "--from") -> Start:
    """Return a Start of the server's API. `clock` returns milliseconds since 1970.

    >>> read_start("-1h", lambda: 3_600_001)
    {'At': 'TIME', 'Time': 1}

    Raises:
        CommandError: `text` is not a start.
    """
    if (word := _WORDS.get(text.lower())) is not None:
        return {"At": word}
    if _POSITION.fullmatch(text):
        return {"At": "POSITION", "Position": text.removeprefix("@")}
    if _NUMBERS.fullmatch(text):
        before = {partition: number - 1 for partition, number in _numbers(text).items()}
        return {"At": "NUMBERS", "Numbers": number_texts(before)}
    return {"At": "TIME", "Time": read_time(text, clock, f"{flag} {text}: write {_BEGINNINGS}")}


def read_end(text: str, clock: Callable[[], int], flag: str = "--to") -> dict[str, Any]:
    """Return an End of the server's API. The change with that sequence number or at that position is the last.

    Raises:
        CommandError: `text` is not an end.
    """
    if _POSITION.fullmatch(text):
        return {"Position": text.removeprefix("@")}
    if _NUMBERS.fullmatch(text):
        return {"Numbers": number_texts(_numbers(text))}
    return {"Time": read_time(text, clock, f"{flag} {text}: write {_PLACES}")}


def is_reversed(start: Start, end: Mapping[str, Any]) -> bool:
    """Return whether an end is before a start of the same form: in time, or in each partition that both name.

    >>> is_reversed({"At": "TIME", "Time": 2}, {"Time": 1}), is_reversed({"At": "TIME", "Time": 2}, {"Time": 2})
    (True, False)
    """
    if "Time" in start and "Time" in end:
        return bool(end["Time"] < start["Time"])
    if "Position" in start and "Position" in end:
        firsts, lasts = _places(start["Position"], 0), _places(end["Position"], inf)
    elif "Numbers" in start and "Numbers" in end:
        firsts = {each: (int(before) + 1, 0) for each, before in start["Numbers"].items()}
        lasts = {each: (int(last), 0) for each, last in end["Numbers"].items()}
    else:
        return False
    both = firsts.keys() & lasts.keys()
    return bool(both) and all(lasts[each] < firsts[each] for each in both)


def _places(text: str, default_index: float) -> dict[Any, tuple[int, float]]:
    """Return the offset and index of each position by its partition."""
    cut = parse_cut(text)
    assert isinstance(cut, AtPositions), "the form was checked"
    return {
        each.partition or _ONLY_PARTITION: (each.offset, default_index if each.index is None else each.index)
        for each in cut.positions
    }


def _numbers(text: str) -> SequenceNumbers:
    parts = (part.rpartition(":") for part in text.split(","))
    return {int(partition or _ONLY_PARTITION): parse_number(number) for partition, _, number in parts}
