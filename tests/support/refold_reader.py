"""A reader of the past that folds the log again for each read, before the call returns."""

from collections.abc import Collection, Sequence

from foldb.log.commands import Position
from foldb.log.log import Log
from foldb.materializer.fold.fold_record import Void
from foldb.materializer.history.history import NotFoldedError, PartitionCut
from foldb.materializer.history.reads import read_past
from foldb.materializer.history.requests import PastRead
from foldb.server.history.reader import OnRead
from tests.support.refold_history import RefoldHistory


class RefoldReader:
    """A `PastReader` for tests, on the caller's loop."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._histories: dict[int, RefoldHistory] = {}

    def read(
        self, partition_id: int, cut: PartitionCut, read: PastRead, done: OnRead, void: Sequence[Void] = ()
    ) -> None:
        """Read the state of a partition at a cut."""
        history = self._histories.setdefault(partition_id, RefoldHistory(self._log, partition_id))
        try:
            answer, position = read_past(history, cut, read, self._log.genesis(0).partitions)
        except NotFoldedError:
            done(None, Position(partition_id, -1))
        else:
            done(answer, position)

    def host(self, partition_ids: Collection[int]) -> None:
        """Do nothing: no history is kept."""

    async def close(self) -> None:
        """Do nothing: no read is under way."""
