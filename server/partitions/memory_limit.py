"""A bound on memory: all items are in it, so a database can outgrow its machine.

Past the bound, requests that could make it grow further are refused, with an error that SDKs show to their callers once
they have retried; reads go on, and deletes make room. Once a second the server adds up the tables of all partitions in
this process, and the dropped tables that are not free yet: close enough for a bound that is set with room to spare.
Messages between partitions are not refused: they were decided where they were sent.
"""

from collections.abc import Callable, Iterable

from ...log.commands import Command, Position, Put, Transact, Update
from ...materializer.feed_requests import FedPartition
from ...materializer.fold.outcomes import Failed, Outcome
from ...materializer.fold.storage import Store
from ...materializer.partition import ResultPosition
from ...materializer.worker import Cancellable, Scheduler
from ...model.errors import RequestError, RequestLimitExceededError
from .partition_chain import DelegatingPartition

# What an item takes besides its own bytes: objects, its key, its place in dict or list. Measured; see README.
ITEM_OVERHEAD = 250
_EVERY_SECONDS = 1.0


def bytes_in(stores: Iterable[Store]) -> int:
    """Return about how many bytes of memory these stores take."""
    return sum(store.size + ITEM_OVERHEAD * store.count for store in stores)


class MemoryLimit:
    """Compares the memory in use with the bound, once a second.

    Attributes:
        bound: In bytes; 0 is no bound.
        full: Whether the memory in use has reached the bound.
    """

    def __init__(self, bound: int, used: Callable[[], int], scheduler: Scheduler) -> None:
        self.bound = bound
        self.full = False
        self._used = used
        self._scheduler = scheduler
        self._timer: Cancellable | None = None

    def look(self) -> None:
        """See how much there is now, and again in a second."""
        if self.bound:
            self.full = self._used() >= self.bound
            self._timer = self._scheduler.call_later(_EVERY_SECONDS, self.look)

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def refusal(self) -> RequestError:
        """What is answered to whom there is no room for."""
        return RequestLimitExceededError(
            f"The database takes about {self._used()} bytes of memory, and {self.bound} is its limit: "
            "delete items, or start it with a larger --memory-limit"
        )


class BoundedPartition(DelegatingPartition):
    """A partition that takes no more items while memory is full."""

    def __init__(
        self, partition: FedPartition, memory: MemoryLimit, position: Callable[[], Position]
    ) -> None:
        super().__init__(partition)
        self._memory = memory
        self._position = position
        self.get_isolated = partition.get_isolated
        self.feed = partition.feed

    def submit(self, command: Command, size: int, done: Callable[[Outcome, ResultPosition], None]) -> None:
        """Pass the command on, unless it could add to what is full."""
        if self._memory.full and isinstance(command, (Put, Update, Transact)):
            done(Failed(self._memory.refusal()), self._position())
        else:
            self._partition.submit(command, size, done)
