"""Reads of several partitions at one instant.

    all partitions are folded in this process, and no other process appends to the log
                                  │
    one turn of the loop ──► each partition as it has folded, plus the decided effects ──► the state at the instant

A write is acknowledged after it is folded, so the state at an instant has all writes that were acknowledged before.
From one instant to the next it only moves forward. So a read at an instant needs no second look, no wait and no lock,
and it conflicts with no write.

A transaction over partitions is applied in one after the other, but its coordinator decides it in one step. Once it is
decided, a read at an instant has all of it: where the partition has not applied it, the future items that the partition
stored when it prepared the transaction. Before, the read has nothing of it. No client can have seen it before: other
consistent reads wait where its keys are held, and it is acknowledged when all partitions have applied it.

The position of such an answer includes that of the coordinator. A client that sends it with its next read waits for the
decision to be applied (ConsistentPartition.reach).

A long page is read in later turns, from views that are opened at the instant.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...log.commands import Delete, Put
from ...materializer.fold.reads import PORTION_BYTES, PageReader
from ...materializer.fold.state import Table
from ...materializer.fold.storage import Stored
from ...materializer.fold.transactions.decided import decided_effect, decided_effects
from ...materializer.long_reads import LongReads
from ...materializer.partition import EncodedKey, OnFound, OnPage, QueryRequest, ResultPosition, ScanRequest
from ...materializer.worker import Worker
from ...model.errors import RequestError, ResourceNotFoundError
from ...model.slots import partition_of_key
from .fan_in import joined
from .routed_scan import JoinedPage


class InstantReads:
    """Reads all partitions of this process at one instant.

    Args:
        workers: The workers of all partitions, by id. Nothing else appends to their log.
        long_reads: Reads pages that are longer than one portion.
    """

    def __init__(self, workers: Sequence[Worker], long_reads: LongReads) -> None:
        self.workers = workers
        self.states = [worker.state for worker in workers]
        self.long_reads = long_reads

    def get_all(self, keys: Sequence[EncodedKey], done: OnFound) -> None:
        """Read items; a deleted table has none."""
        partitions: set[int] = set()
        done([self._item(key, partitions) for key in keys], self.position(partitions))

    def read_page(
        self, request: QueryRequest | ScanRequest, partition_ids: Sequence[int], done: OnPage
    ) -> None:
        """Read a page from these partitions, in this order; a Query has one."""
        _InstantPage(self, request, partition_ids, done).begin()

    def position(self, partitions: Iterable[int]) -> ResultPosition:
        """Return the position of these partitions now."""
        return joined([self.workers[partition].position for partition in partitions])

    def _item(self, key: EncodedKey, partitions: set[int]) -> Stored | None:
        """Return the item at a key. Add the partitions that it is read from."""
        partition = partition_of_key(key[0], key[1], len(self.states))
        partitions.add(partition)
        state = self.states[partition]
        table: Table | None = state.tables.get(key[0])
        if table is None:
            return None
        if state.transactions.held and (decided := decided_effect(self.states, partition, key)):
            coordinator, effect = decided
            partitions.add(coordinator)
            if isinstance(effect, Put):
                return effect.item, effect.size
            if isinstance(effect, Delete):
                return None
        return table.items.get(key[1], key[2])


class _Part(NamedTuple):
    """The part of a page that one partition has, and the position at which it is read."""

    partition: int
    reader: PageReader
    position: ResultPosition


class _InstantPage:
    """One page of the state at an instant."""

    def __init__(
        self,
        reads: InstantReads,
        request: QueryRequest | ScanRequest,
        partition_ids: Sequence[int],
        done: OnPage,
    ) -> None:
        self._reads = reads
        self._request = request
        self._partition_ids = partition_ids
        self._done = done
        self._limits = reads.states[0].limits

    def begin(self) -> None:
        """Read one portion now. If the page goes on after it, preserve the rest in views."""
        self._left = deque(self._partition_ids)  # the partitions without a reader
        self._parts: deque[_Part] = deque()
        self._positions: list[ResultPosition] = []
        self._joined: JoinedPage | None = None
        if isinstance(self._request, ScanRequest) and len(self._left) > 1:
            self._joined = JoinedPage(self._request, self._limits.page_bytes)
        work = PORTION_BYTES
        try:
            while work > 0:
                if not self._parts:
                    self._open_next()
                reader = self._parts[0].reader
                spent = reader.spent
                if self._read(work):
                    return
                work -= reader.spent - spent
            while self._left:
                self._open_next()
        except RequestError as error:
            self._close()
            self._done(error, self._reads.position(self._partition_ids[:1]))
            return
        for part in self._parts:
            part.reader.open_views()
        self._reads.long_reads.add(self._go_on)

    def _open_next(self) -> None:
        """Open the next partition.

        Raises:
            RequestError: The partition has no such table or index, or the start key is of another segment.
        """
        partition = self._left.popleft()
        states, table_id = self._reads.states, self._request.table
        table = states[partition].tables.get(table_id)
        if table is None:
            raise ResourceNotFoundError
        request = self._request if self._joined is None else self._joined.rest
        reader = PageReader(table, request, self._limits.page_bytes)
        read_from = {partition}
        if request.consistent and states[partition].transactions.prepared:
            for coordinator, effect in decided_effects(states, partition, table_id):
                reader.lay(effect, self._limits)
                read_from.add(coordinator)
        self._parts.append(_Part(partition, reader, self._reads.position(read_from)))

    def _go_on(self) -> bool:
        """Read a portion in a later turn; return whether the page was answered, or is read from the start again."""
        states, table = self._reads.states, self._request.table
        if not all(
            part.reader.can_continue(states[part.partition].tables.get(table)) for part in self._parts
        ):
            self._close()
            self.begin()  # the client has received nothing of it
            return True
        return self._read(PORTION_BYTES)

    def _read(self, work: int) -> bool:
        """Read a portion from the first open partition. Answer and return True when the page has ended."""
        part = self._parts[0]
        page = part.reader.read(work)
        if page is None:
            return False
        self._parts.popleft()
        if self._joined is None:
            self._done(page, part.position)
            return True
        if not page.full:
            self._positions.append(part.position)
        has_ended = self._joined.add(page)
        if has_ended or not (self._parts or self._left):
            self._close()
            self._done(self._joined.page(), joined(self._positions))
            return True
        if self._parts:
            rest = self._joined.rest
            assert rest.room is not None, "a joined page has a size limit"
            self._parts[0].reader.continue_page(rest.limit, rest.room)
        return False

    def _close(self) -> None:
        for part in self._parts:
            part.reader.close()
