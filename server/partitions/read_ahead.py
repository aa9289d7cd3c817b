"""Reads a log in a thread, for a reader in the event loop that must not wait for a broker.

log ──► a batch of records, in a thread ──► iterator ──► the batch is used up ──► the next
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from ...log.commands import Record
from ...log.log import Log
from ...model.errors import FoldbError

# Records of a batch: some megabytes at most, as entries beside load have about 20 KB.
_BATCH: Final = 200


class ReadAhead:
    """An iterator over the records of a partition. It ends with each batch; `when_ready` waits for the next.

    Attributes:
        is_over: Whether it has returned all records that the log held at the beginning.
    """

    def __init__(self, log: Log, partition_id: int, start: int, loop: asyncio.AbstractEventLoop) -> None:
        self.is_over = False
        self._source: Iterator[Record] | None = None
        self._open: Callable[[], Iterator[Record]] = lambda: log.read(partition_id, start)
        self._loop = loop
        self._records: deque[Record] = deque()
        self._error: FoldbError | None = None

    def __iter__(self) -> Iterator[Record]:
        return self

    def __next__(self) -> Record:
        """Return the next record of the batch.

        Raises:
            FoldbError: The log cannot be read.
        """
        if self._error is not None:
            raise self._error
        if not self._records:
            raise StopIteration
        return self._records.popleft()

    @property
    def is_waiting(self) -> bool:
        """Whether the batch is used up and the log may have more."""
        return not self._records and not self.is_over and self._error is None

    def when_ready(self, ready: Callable[[], None]) -> None:
        """Read the next batch, and call `ready` on the loop."""
        self._loop.run_in_executor(None, self._read, ready)

    def _read(self, ready: Callable[[], None]) -> None:
        """Read a batch. Runs in a thread, of which there is one at a time."""
        error: FoldbError | None = None
        batch: list[Record] = []
        try:
            if self._source is None:
                self._source = self._open()
            batch = list(islice(self._source, _BATCH))
        except FoldbError as caught:
            error = caught
        self._loop.call_soon_threadsafe(self._take, batch, error, ready)

    def _take(self, batch: list[Record], error: FoldbError | None, ready: Callable[[], None]) -> None:
        self._records.extend(batch)
        self._error = error
        self.is_over = len(batch) < _BATCH
        ready()
