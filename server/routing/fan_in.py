"""Merging the answers of several partitions."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from ...log.commands import Cut, Position
from ...materializer.partition import ResultPosition
from ...model.errors import RequestError


class FanIn:
    """Collects a fixed number of answers, and passes them on with the last one."""

    def __init__(self, count: int, callback: Callable[[list[Any], list[ResultPosition]], None]) -> None:
        """`callback` receives the results in order, and their positions."""
        self._missing = count
        self._results: list[Any] = [None] * count
        self._positions: list[ResultPosition] = []
        self._callback = callback

    def add(self, index: int, result: Any, position: ResultPosition | None = None) -> None:
        """Add the answer with that index."""
        self._results[index] = result
        if position is not None:
            self._positions.append(position)
        self._missing -= 1
        if not self._missing:
            self._callback(self._results, self._positions)


def first_error(results: Sequence[Any]) -> RequestError | None:
    """Return the first result that is an error, if there is one."""
    return next((result for result in results if isinstance(result, RequestError)), None)


def in_order(indexes: Collection[Sequence[int]], results: Sequence[Sequence[Any]]) -> list[Any]:
    """Return the parts of several results in one list: `indexes` has the places of each part."""
    found: list[Any] = [None] * sum(map(len, indexes))
    for own, result in zip(indexes, results, strict=True):
        for index, each in zip(own, result, strict=True):
            found[index] = each
    return found


def joined(positions: Iterable[ResultPosition]) -> ResultPosition:
    """Return a cut with the latest position of each partition; a position if all are of one partition.

    Its log time is the latest of all. It is None if one of them is unknown.
    """
    latest: dict[int, Position] = {}
    times: list[int | None] = []
    for position in positions:
        times.append(position.time_ms)
        for each in position.positions if isinstance(position, Cut) else (position,):
            known = latest.get(each.partition)
            if known is None or _order(each) > _order(known):
                latest[each.partition] = each
    if len(latest) == 1:
        return next(iter(latest.values()))
    known_times = [time for time in times if time is not None]
    time_ms = max(known_times) if known_times and len(known_times) == len(times) else None
    return Cut(tuple(latest[partition_id] for partition_id in sorted(latest)), time_ms)


def _order(position: Position) -> tuple[int, bool, int]:
    """Return the sort key of a position: the end of an entry comes after all of its commands."""
    return position.offset, position.index is None, position.index or 0
