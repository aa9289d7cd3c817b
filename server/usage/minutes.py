"""The statistics of metrics by minute, for the last hours.

A minute holds the metrics that had samples in it. The oldest minutes are dropped when there are more than a day, or
when all minutes together have too many statistics: so busy databases with many tables keep fewer hours.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from .usage import Statistics

MINUTE_MS: Final = 60_000
_MINUTES_MAX: Final = 24 * 60
# Each takes about 250 bytes.
_STATISTICS_MAX: Final = 100_000


class Series(NamedTuple):
    """A metric with its dimensions, which are empty where the metric has none."""

    metric: str
    table: str = ""
    gsi: str = ""
    operation: str = ""


class Minute(NamedTuple):
    """The statistics of the minute that begins at a time, in milliseconds since 1970."""

    begin_ms: int
    values: Mapping[Series, Statistics]


class Minutes:
    """The closed minutes, the oldest first."""

    def __init__(self) -> None:
        self._minutes: deque[Minute] = deque()
        self._size = 0

    def add(self, minute: Minute) -> None:
        """Append a minute, which is later than all others, and drop the oldest ones beyond the bounds."""
        self._minutes.append(minute)
        self._size += len(minute.values)
        while len(self._minutes) > _MINUTES_MAX or self._size > _STATISTICS_MAX:
            self._size -= len(self._minutes.popleft().values)

    def between(self, begin_ms: int, end_ms: int) -> Iterator[Minute]:
        """Yield the minutes that begin at or after a time and before another one."""
        return (each for each in self._minutes if begin_ms <= each.begin_ms < end_ms)
