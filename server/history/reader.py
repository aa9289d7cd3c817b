"""The interface of the histories of this node's partitions."""

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Protocol, TypeAlias

from ...log.commands import Position
from ...materializer.fold.fold_record import Void
from ...materializer.history.history import PartitionCut
from ...materializer.history.requests import PastAnswer, PastRead
from ...model.errors import RequestError, ServiceUnavailableError

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


class LazyReader:
    """A `PastReader` that is imported and made with the first read of the past."""

    def __init__(self, make: Callable[[], PastReader]) -> None:
        self._make = make
        self._is_closed = False

    @cached_property
    def made(self) -> PastReader:
        """The reader."""
        return self._make()

    def read(
        self, partition_id: int, cut: PartitionCut, read: PastRead, done: OnRead, void: Sequence[Void] = ()
    ) -> None:
        """Read the state of a partition at a cut."""
        if self._is_closed:
            done(ServiceUnavailableError(), Position(partition_id, -1))
            return
        self.made.read(partition_id, cut, read, done, void)

    def host(self, partition_ids: Collection[int]) -> None:
        """Pass the partitions to the reader, if there is one: a new one finds the present partitions and logs."""
        if "made" in self.__dict__:
            self.made.host(partition_ids)

    async def close(self) -> None:
        """Stop the reader, if there is one, and make none from now on."""
        self._is_closed = True
        if "made" in self.__dict__:
            await self.made.close()
