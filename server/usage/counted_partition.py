"""A partition that counts the requests of several items, and pages, with their units and errors.

    BatchGetItem, TransactWriteItems, Query ... ──► CountedPartition ──► partition of the node

It is the outermost wrapper, so it counts each request once, on the node that received it, and sees the errors of every
other wrapper. GetItem and the writes of single items do not use it: their handlers call `TableUsage` where they answer,
because a wrapper's callback would cost them a microsecond. The node's own reads and writes, such as those of dead
letters, use the partition itself and are not counted.
"""

from collections.abc import Sequence
from functools import partial

from ...log.commands import Action, Command, Delete, Put, Transact, Update
from ...materializer.fold.outcomes import (
    Applied,
    Outcome,
    Transacted,
    TransactionRefused,
    transaction_units,
)
from ...materializer.fold.state import PartitionState
from ...materializer.fold.storage import Stored
from ...materializer.partition import (
    Conflict,
    EncodedKey,
    Found,
    OnFound,
    OnItem,
    OnItems,
    OnOutcome,
    OnPage,
    Page,
    Partition,
    QueryRequest,
    ResultPosition,
    ScanRequest,
    Since,
)
from ...model.capacity import read_half_units, transaction_read_half_units
from ...model.errors import RequestError, TransactionCanceledError
from .usage import Usage


class CountedPartition:
    """The partition of a node, with counters."""

    def __init__(self, partition: Partition, state: PartitionState, usage: Usage) -> None:
        self._partition = partition
        self._state = state
        self._usage = usage
        self.reach = partition.reach
        self.status = partition.status

    def submit(self, command: Command, size: int, done: OnOutcome) -> None:
        if isinstance(command, Transact):
            done = partial(self._transacted, command.actions, done)
        elif isinstance(command, Put | Update | Delete):
            done = partial(self._written, command.table, command.pk, done)
        self._partition.submit(command, size, done)

    def get(self, table: int, pk: bytes, sk: bytes, consistent: bool, done: OnItem) -> None:
        def on_item(found: Stored | RequestError | None, position: ResultPosition) -> None:
            self._usage[table].count_get(pk, found, consistent)
            done(found, position)

        self._partition.get(table, pk, sk, consistent, on_item)

    def get_all(self, keys: Sequence[EncodedKey], consistent: bool, done: OnItems) -> None:
        def on_items(found: list[Stored | None] | RequestError, position: ResultPosition) -> None:
            if not isinstance(found, RequestError):
                for (table, pk, _), stored in zip(keys, found, strict=True):
                    size = 0 if stored is None else stored[1]
                    self._usage[table].count_read(None, pk, read_half_units(size, consistent))
            elif len(keys) == 1:  # BatchGetItem reads each of several throttled items again
                self._usage[keys[0][0]].count_error(keys[0][1], found)
            done(found, position)

        self._partition.get_all(keys, consistent, on_items)

    def get_isolated(self, keys: Sequence[EncodedKey], since: Since, done: OnFound) -> None:
        def on_found(found: list[Found] | RequestError, position: ResultPosition) -> None:
            if isinstance(found, RequestError):
                self._usage[keys[0][0]].count_error(keys[0][1], found)
            else:
                for (table, pk, _), stored in zip(keys, found, strict=True):
                    if isinstance(stored, Conflict):
                        self._usage[table].conflicts.add(1)
                    size = stored[1] if isinstance(stored, tuple) else 0
                    self._usage[table].count_read(None, pk, transaction_read_half_units(size))
            done(found, position)

        self._partition.get_isolated(keys, since, on_found)

    def query(self, request: QueryRequest, done: OnPage) -> None:
        self._partition.query(request, partial(self._on_page, request, request.pk, done))

    def scan(self, request: ScanRequest, done: OnPage) -> None:
        self._partition.scan(request, partial(self._on_page, request, None, done))

    def _written(
        self, table: int, pk: bytes, done: OnOutcome, outcome: Outcome, position: ResultPosition
    ) -> None:
        self._usage[table].count_outcome(pk, outcome)
        done(outcome, position)

    def _on_page(
        self,
        request: QueryRequest | ScanRequest,
        pk: bytes | None,
        done: OnPage,
        page: Page | RequestError,
        position: ResultPosition,
    ) -> None:
        usage = self._usage[request.table]
        if isinstance(page, RequestError):
            usage.count_error(pk, page)
        else:
            index = request.index if self._is_global(request) else None
            # A page of a global index reads nothing from its table.
            usage.count_read(index, pk, page.table_half_units + page.index_half_units)
            (usage.scanned if pk is None else usage.queried).add(page.count)
        done(page, position)

    def _transacted(
        self, actions: Sequence[Action], done: OnOutcome, outcome: Outcome, position: ResultPosition
    ) -> None:
        results = outcome.actions if isinstance(outcome, Transacted) else [None] * len(actions)
        # No units if nothing was appended.
        for action, units, result in zip(actions, transaction_units(outcome), results, strict=False):
            usage = self._usage[action.table]
            if isinstance(outcome, Transacted) and outcome.replayed:  # the items were only read
                usage.count_read(None, action.pk, units.half_units)
            elif units.table:
                usage.count_write(action.pk, units, result if isinstance(result, Applied) else None)
        if isinstance(outcome, TransactionRefused) and isinstance(outcome.error, TransactionCanceledError):
            for action, reason in zip(actions, outcome.error.reasons, strict=True):
                self._usage[action.table].count_reason(action.pk, reason)
        done(outcome, position)

    def _is_global(self, request: QueryRequest | ScanRequest) -> bool:
        table = self._state.tables.get(request.table)
        index = None if table is None or request.index is None else table.definition.index(request.index)
        return index is not None and index.kind == "GSI"
