"""One page of a Scan over several partitions.

    partition ──► its part of the page ──► room left? ──► the next partition ──► ... ──► one Page

Partitions follow each other in the order of hashes, so where a page stops says where the next begins. Limit and the
megabyte are those of the whole page, and what it costs is worked out from its sum. A local index is spread as its
table is but ordered by hashes of its own: there the order is partition after partition, and a segment has a part in
each of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...materializer.fold.reads import segment_bounds
from ...materializer.partition import Page, Partition, ResultPosition, ScanRequest
from ...materializer.worker import Scheduler
from ...model.capacity import read_half_units
from ...model.errors import RequestError
from ...model.keys import slot
from ...model.slots import data_partitions, partition_of, partition_of_key
from .fan_in import joined

Done = Callable[[Page | RequestError, ResultPosition], None]


class RoutedScan:
    """One page under way.

    Args:
        partitions: All there are, by number.
        request: What was asked of the whole.
        numbers: The partitions that have a part in it, in order.
        page_bytes: The room of a page.
        scheduler: The loop: between two partitions it is the others' turn.
        done: Told the page.
    """

    def __init__(
        self,
        partitions: Sequence[Partition],
        request: ScanRequest,
        numbers: Sequence[int],
        page_bytes: int,
        scheduler: Scheduler,
        done: Done,
    ) -> None:
        self._partitions = partitions
        self._numbers = iter(numbers)
        self._rest = replace(request, room=page_bytes)  # what is still to be read
        self._scheduler = scheduler
        self._done = done
        self._page = Page([], 0, 0, None, 0)
        self._places: list[ResultPosition] = []

    def go_on(self) -> None:
        """Ask the next partition, or be done."""
        number = next(self._numbers, None)
        if number is None:
            self._finish()
        else:
            self._partitions[number].scan(self._rest, self._answered)

    def _answered(self, part: Page | RequestError, place: ResultPosition) -> None:
        if isinstance(part, RequestError):
            self._done(part, place)
            return
        page, rest = self._page, self._rest
        if part.full:  # the page ends where it stood
            page.last = page.tail
            self._finish()
            return
        self._places.append(place)
        _add(page, part)
        if part.last is not None:
            page.last = part.last
            self._finish()
            return
        assert rest.room is not None
        limit = None if rest.limit is None else rest.limit - part.scanned
        self._rest = replace(rest, start=None, limit=limit, room=max(0, rest.room - part.weight))
        self._scheduler.call_soon(self.go_on)

    def _finish(self) -> None:
        page = self._page
        # Half units of parts do not add up to those of the whole: each would be rounded up by itself.
        units = read_half_units(page.size, self._rest.consistent)
        if self._rest.index is None:
            page.table_half_units = units
        else:
            page.index_half_units = units
        self._done(page, joined(self._places))


def _add(page: Page, part: Page) -> None:
    page.items += part.items
    page.count += part.count
    page.scanned += part.scanned
    page.table_half_units += part.table_half_units
    page.size += part.size
    page.tail = part.tail or page.tail


def partitions_of(request: ScanRequest, owner: int, *, is_local: bool, partitions: int) -> range:
    """The partitions that a scan has to ask from where it starts, in order; `owner` says how keys are spread."""
    asked = data_partitions(partitions)
    if not is_local:
        low, high = segment_bounds(request.segment, request.segments)
        asked = range(partition_of(slot(low), partitions), partition_of(slot(high - 1), partitions) + 1)
    if request.start is not None:
        start = partition_of_key(owner, request.start[0], partitions)
        if start in asked:  # else it is of another segment: for the first of these to refuse
            asked = range(start, asked.stop)
    return asked
