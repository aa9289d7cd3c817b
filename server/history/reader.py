"""The interface of the histories of this node's partitions."""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol, TypeAlias

from ...log.commands import Position
from ...materializer.fold.fold_record import Void
from ...materializer.history.history import PartitionCut
from ...materializer.history.requests import PastAnswer, PastRead
from ...model.errors import RequestError

OnRead: TypeAlias = Callable[[PastAnswer | RequestError | None, Position], None]
"""Called on the loop with the answer and the position of the state; None if the cut is not folded yet."""


class PastReader(Protocol):
    """Reads the past of partitions."""

    def read(
        self, partition_id: int, cut: PartitionCut, read: PastRead, done: OnRead, void: Sequence[Void] = ()
    ) -> None:
        """Read the state of a partition at a cut; call `done` exactly once.

        `void` are the commands that the partition has skipped so far. No state that has them is returned.
        """
        ...

    def host(self, partition_ids: Collection[int]) -> None:
        """Stop following the other partitions, and look at the logs of these now: a trim may have removed records."""
        ...

    async def close(self) -> None:
        """Stop. Reads under way are answered with an error."""
        ...
