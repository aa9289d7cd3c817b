"""A partition in this process: its worker writes, its state answers reads at once.

The state holds only durable, folded commands, and only this process writes the log. So every read, consistent or
not, is answered from the current state.
"""

from collections.abc import Callable, Sequence
from typing import cast

from ..log.commands import Command, Cut, Position
from ..model.errors import RequestError, ResourceNotFoundError, ValidationError
from .feed_requests import FeedReader, FeedRequest, OnFed, no_feed
from .fold.reads import PORTION_BYTES, PageReader
from .fold.state import Table
from .long_reads import LongReads
from .partition import (
    EncodedKey,
    OnFound,
    OnItem,
    OnItems,
    OnOutcome,
    OnPage,
    OnReached,
    OnStatus,
    QueryRequest,
    ResultPosition,
    ScanRequest,
    Since,
)
from .worker import Worker, status_of


class LocalPartition:
    """A `Partition` over a worker.

    Attributes:
        worker: Folds the partition.

    Args:
        worker: Folds the partition.
        read_feed: Reads the partition's feed.
        long_reads: Reads pages that are longer than one portion.
    """

    def __init__(self, worker: Worker, read_feed: FeedReader = no_feed, *, long_reads: LongReads) -> None:
        self.worker = worker
        self._state = worker.state
        self._read_feed = read_feed
        self._long_reads = long_reads
        self.submit: Callable[[Command, int, OnOutcome], None] = worker.submit

    @property
    def position(self) -> Position:
        """The position of reads: they see all entries up to and including this one."""
        return self.worker.position

    def get(
        self,
        table: int,
        pk: bytes,
        sk: bytes,
        consistent: bool,  # noqa: ARG002  the current state always is consistent
        done: OnItem,
    ) -> None:
        found = self._state.tables.get(table)
        done(None if found is None else found.items.get(pk, sk), self.worker.position)

    def get_all(
        self,
        keys: Sequence[EncodedKey],
        consistent: bool,  # noqa: ARG002  the current state always is consistent
        done: OnItems,
    ) -> None:
        """Read items at one position of the log; a deleted table has none."""
        tables = self._state.tables
        done(
            [tables[table].items.get(pk, sk) if table in tables else None for table, pk, sk in keys],
            self.worker.position,
        )

    def get_isolated(
        self,
        keys: Sequence[EncodedKey],
        since: Since,  # noqa: ARG002
        done: OnFound,
    ) -> None:
        """Read items in isolation; a deleted table has none."""
        self.get_all(keys, True, cast(OnItems, done))

    def query(self, request: QueryRequest, done: OnPage) -> None:
        self._read_page(request, done)

    def scan(self, request: ScanRequest, done: OnPage) -> None:
        self._read_page(request, done)

    def _read_page(self, request: QueryRequest | ScanRequest, done: OnPage) -> None:
        """Read a page that fits into one portion now, and the rest of a longer one in later turns of the loop."""
        try:
            reader, position = self._open(request)
            page = reader.read(PORTION_BYTES)
        except RequestError as error:
            done(error, self.worker.position)
            return
        if page is not None:
            done(page, position)
            return

        def go_on() -> bool:
            if not reader.can_continue(self._state.tables.get(request.table)):
                reader.close()
                self._read_page(request, done)  # from the start: the client has received nothing of it
                return True
            page = reader.read(PORTION_BYTES)
            if page is not None:
                done(page, position)
            return page is not None

        self._long_reads.add(go_on)

    def _open(self, request: QueryRequest | ScanRequest) -> tuple[PageReader, Position]:
        """Open a page of the present state, and return it with its position.

        Raises:
            RequestError: The table or the index cannot be read, or the start key is of another segment.
        """
        reader = PageReader(self._table(request.table), request, self._state.limits.page_bytes)
        return reader, self.worker.position

    def reach(self, position: ResultPosition, done: OnReached) -> None:
        """See Partition. A position that was returned is folded already, and there is no other partition."""
        if offset_in(self.worker.position.partition, position) < self._state.next_offset:
            done(None)
        else:
            done(ValidationError(f"The log ends before position {position.text()}"))

    def status(self, table: int | None, done: OnStatus) -> None:
        done(status_of(self.worker, table))

    def feed(self, request: FeedRequest, done: OnFed) -> None:
        self._read_feed(request, done)

    def _table(self, table_id: int) -> Table:
        table = self._state.tables.get(table_id)
        if table is None:
            raise ResourceNotFoundError()
        return table


def offset_in(partition: int, position: ResultPosition) -> int:
    """Return the offset of the position in a partition; -1 if it has none there."""
    positions = position.positions if isinstance(position, Cut) else (position,)
    return max((each.offset for each in positions if each.partition == partition), default=-1)
