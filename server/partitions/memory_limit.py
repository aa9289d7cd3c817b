"""The memory limit: all items are in memory, so a database can outgrow its machine.

Past the limit, requests that could add data are refused, with an error that SDKs retry and then raise. Reads continue,
and deletes free memory. Once a second the server adds up the tables of all partitions in this process, and the dropped
tables that are not freed yet. That is exact enough for a limit with some reserve. Messages between partitions are not
refused: the sending partition has already committed them.
"""

from collections.abc import Callable, Iterable

from ...log.commands import Command, Load, Position, Put, Transact, Update
from ...materializer.fold.outcomes import Failed
from ...materializer.fold.storage import Store
from ...materializer.history.requests import PartitionWithHistory
from ...materializer.partition import OnOutcome
from ...materializer.recent_images import RecentImages
from ...materializer.worker import Cancellable, Scheduler
from ...model.errors import RequestError, RequestLimitExceededError
from .partition_chain import DelegatingPartition

# Bytes per item in addition to its own bytes: objects, its key, its slot in dict or list. Measured; see README.
ITEM_OVERHEAD = 250
_EVERY_SECONDS = 1.0


def bytes_in(stores: Iterable[Store | RecentImages]) -> int:
    """Return the approximate size of these stores and images in memory."""
    return sum(store.size + ITEM_OVERHEAD * store.count for store in stores)


class MemoryLimit:
    """Compares the memory in use with the limit, once a second.

    Attributes:
        bound: The limit in bytes; 0 disables it.
        full: Whether the memory in use has reached the limit.
    """

    def __init__(self, bound: int, used: Callable[[], int], scheduler: Scheduler) -> None:
        self.bound = bound
        self.full = False
        self._used = used
        self._scheduler = scheduler
        self._timer: Cancellable | None = None

    def start(self) -> None:
        """Measure now, and every second."""
        if self.bound:
            self.full = self._used() >= self.bound
            self._timer = self._scheduler.call_later(_EVERY_SECONDS, self.start)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def refusal(self) -> RequestError:
        return RequestLimitExceededError(
            f"The database takes about {self._used()} bytes of memory, and {self.bound} is its limit: "
            "delete items, or start it with a larger --memory-limit"
        )


class BoundedPartition(DelegatingPartition):
    """A partition that refuses writes while memory is full."""

    def __init__(
        self, partition: PartitionWithHistory, memory: MemoryLimit, position: Callable[[], Position]
    ) -> None:
        super().__init__(partition)
        self._memory = memory
        self._position = position
        self.get_isolated = partition.get_isolated
        self.feed = partition.feed
        self.as_of = partition.as_of

    def submit(self, command: Command, size: int, done: OnOutcome) -> None:
        """Submit a command, unless memory is full and the command could add data."""
        if self._memory.full and isinstance(command, (Load, Put, Transact, Update)):
            done(Failed(self._memory.refusal()), self._position())
        else:
            self._partition.submit(command, size, done)
