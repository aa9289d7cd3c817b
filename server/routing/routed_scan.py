"""One page of a Scan over several partitions.

    partition ──► its part of the page ──► room left? ──► the next partition ──► ... ──► one Page

Partitions are ordered by hash, so the end of a page determines the partition where the next begins. Limit and the
megabyte apply to the whole page, and its cost is computed from its total size. A local index is partitioned like its
table but ordered by hashes of its own: it is scanned partition after partition, and a segment has a part in each.
"""

from collections.abc import Sequence
from dataclasses import replace

from ...materializer.fold.reads import segment_bounds
from ...materializer.partition import OnPage, Page, Partition, ResultPosition, ScanRequest
from ...materializer.worker import Scheduler
from ...model.capacity import read_half_units
from ...model.errors import RequestError
from ...model.keys import slot
from ...model.slots import data_partitions, partition_of, partition_of_key
from .fan_in import joined


class JoinedPage:
    """One page, joined from the parts of several partitions.

    Attributes:
        rest: The request for the part that is not read yet.
    """

    def __init__(self, request: ScanRequest, page_bytes: int) -> None:
        """Begin a page of at most `page_bytes`."""
        self.rest = replace(request, room=page_bytes)
        self._page = Page([], 0, 0, None, 0)

    def add(self, part: Page) -> bool:
        """Add the part of the next partition; return whether the page has ended."""
        page, rest = self._page, self.rest
        if part.full:  # the page ends before this partition
            page.last = page.tail
            return True
        page.items += part.items
        page.count += part.count
        page.scanned += part.scanned
        page.table_half_units += part.table_half_units
        page.size += part.size
        page.tail = part.tail or page.tail
        if part.last is not None:
            page.last = part.last
            return True
        assert rest.room is not None
        limit = None if rest.limit is None else rest.limit - part.scanned
        self.rest = replace(rest, start=None, limit=limit, room=max(0, rest.room - part.weight))
        return False

    def page(self) -> Page:
        """Return the page with its cost."""
        page = self._page
        # The half units of the parts cannot be added: each part is rounded up.
        units = read_half_units(page.size, self.rest.consistent)
        if self.rest.index is None:
            page.table_half_units = units
        else:
            page.index_half_units = units
        return page


class RoutedScan:
    """One page of a scan whose partitions are read one after the other, each at a position of its own.

    Args:
        partitions: All partitions, by id.
        request: The request for the page.
        partition_ids: The partitions to scan, in order.
        page_bytes: The size limit of a page.
        scheduler: The event loop. Other requests run between two partitions.
        callback: Receives the page.
    """

    def __init__(
        self,
        partitions: Sequence[Partition],
        request: ScanRequest,
        partition_ids: Sequence[int],
        page_bytes: int,
        scheduler: Scheduler,
        callback: OnPage,
    ) -> None:
        self._partitions = partitions
        self._partition_ids = iter(partition_ids)
        self._joined = JoinedPage(request, page_bytes)
        self._scheduler = scheduler
        self._callback = callback
        self._positions: list[ResultPosition] = []

    def scan_next(self) -> None:
        """Scan the next partition, or finish the page after the last one."""
        partition_id = next(self._partition_ids, None)
        if partition_id is None:
            self._finish()
        else:
            self._partitions[partition_id].scan(self._joined.rest, self._on_part)

    def _on_part(self, part: Page | RequestError, position: ResultPosition) -> None:
        if isinstance(part, RequestError):
            self._callback(part, position)
            return
        if not part.full:
            self._positions.append(position)
        if self._joined.add(part):
            self._finish()
        else:
            self._scheduler.call_soon(self.scan_next)

    def _finish(self) -> None:
        self._callback(self._joined.page(), joined(self._positions))


def partitions_of(request: ScanRequest, owner: int, *, is_local: bool, partitions: int) -> range:
    """Return the partitions to scan, in order, from the start key on.

    `owner` is the id of the table or global index by whose hashes the entries are partitioned.
    """
    selected = data_partitions(partitions)
    if not is_local:
        low, high = segment_bounds(request.segment, request.segments)
        first, last = partition_of(slot(low), partitions), partition_of(slot(high - 1), partitions)
        selected = range(first, last + 1)
    if request.start is not None:
        start = partition_of_key(owner, request.start[0], partitions)
        if start in selected:  # else the key is of another segment, and the first partition refuses it
            selected = range(start, selected.stop)
    return selected
