"""A partition in this process: its worker writes, its state answers reads at once.

The state holds only what is durable and folded, and this process alone writes the log. So every read, consistent
or not, is answered from the state at hand.
"""

from collections.abc import Callable, Sequence

from ..log.commands import Command, Position
from ..model.errors import RequestError, ResourceNotFoundError
from .fold import reads
from .fold.state import Table
from .fold.storage import Stored
from .partition import Key, Page, QueryRequest, ScanRequest
from .worker import Done, Worker


class LocalPartition:
    """A `Partition` over a worker."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._state = worker.state
        self.submit: Callable[[Command, int, Done], None] = worker.submit

    @property
    def position(self) -> Position:
        """What reads see: everything up to and including this entry."""
        return self._worker.position

    def get(
        self,
        table: int,
        pk: bytes,
        sk: bytes,
        consistent: bool,  # noqa: ARG002  the state at hand always is
        done: Callable[[Stored | None, Position], None],
    ) -> None:
        """Read an item; a table that is gone holds nothing."""
        found = self._state.tables.get(table)
        done(None if found is None else found.items.get(pk, sk), self._worker.position)

    def get_all(
        self,
        keys: Sequence[Key],
        consistent: bool,  # noqa: ARG002  the state at hand always is
        done: Callable[[list[Stored | None], Position], None],
    ) -> None:
        """Read items at one position of the log; a table that is gone holds nothing."""
        tables = self._state.tables
        found = [tables[table].items.get(pk, sk) if table in tables else None for table, pk, sk in keys]
        done(found, self._worker.position)

    def query(self, request: QueryRequest, done: Callable[[Page | RequestError, Position], None]) -> None:
        """Read a page of one item collection."""
        page: Page | RequestError
        try:
            page = reads.query_page(self._table(request.table), request, self._state.limits.page_bytes)
        except RequestError as error:
            page = error
        done(page, self._worker.position)

    def scan(self, request: ScanRequest, done: Callable[[Page | RequestError, Position], None]) -> None:
        """Read a page in hash order."""
        page: Page | RequestError
        try:
            page = reads.scan_page(self._table(request.table), request, self._state.limits.page_bytes)
        except RequestError as error:
            page = error
        done(page, self._worker.position)

    def _table(self, table_id: int) -> Table:
        table = self._state.tables.get(table_id)
        if table is None:
            raise ResourceNotFoundError()
        return table
