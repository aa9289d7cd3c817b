"""Several partitions' answers made one."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...log.commands import Cut, Position
from ...materializer.partition import ResultPosition
from ...model.errors import RequestError


class FanIn:
    """Waits for so many answers; the last to come makes the whole."""

    def __init__(self, count: int, done: Callable[[list[Any], list[ResultPosition]], None]) -> None:
        self._waiting = count
        self._results: list[Any] = [None] * count
        self._places: list[ResultPosition] = []
        self._done = done

    def answered(self, nth: int, result: Any, place: ResultPosition | None = None) -> None:
        """Take answer number `nth`."""
        self._results[nth] = result
        if place is not None:
            self._places.append(place)
        self._waiting -= 1
        if not self._waiting:
            self._done(self._results, self._places)


def first_error(results: Sequence[Any]) -> RequestError | None:
    """The first of the answers that is an error."""
    return next((result for result in results if isinstance(result, RequestError)), None)


def joined(places: Iterable[ResultPosition]) -> ResultPosition:
    """Return the latest position of each partition; one alone where all are of one partition.

    Its log time is the latest of all, where each is known: an earlier position of a partition has no later one.
    """
    latest: dict[int, Position] = {}
    times: list[int | None] = []
    for place in places:
        times.append(place.time_ms)
        for each in place.positions if isinstance(place, Cut) else (place,):
            known = latest.get(each.partition)
            if known is None or _order(each) > _order(known):
                latest[each.partition] = each
    if len(latest) == 1:
        return next(iter(latest.values()))
    known_times = [time for time in times if time is not None]
    time_ms = max(known_times) if known_times and len(known_times) == len(times) else None
    return Cut(tuple(latest[number] for number in sorted(latest)), time_ms)


def _order(position: Position) -> tuple[int, bool, int]:
    """After a whole entry is later than after any of its commands."""
    return position.offset, position.index is None, position.index or 0
