"""A bound on memory: all items are in it, so a database can outgrow its machine.

Past the bound whatever could make it grow further is refused, with an error that SDKs show to their callers once they
have retried; reads go on, and deletes make room. It is looked at once a second, by adding up what the tables hold:
close enough for a bound that somebody sets with room to spare.
"""

from collections.abc import Callable

from ..log.commands import Command, Position, Put, Transact, Update
from ..materializer.fold.outcomes import Failed, Outcome
from ..materializer.fold.state import PartitionState
from ..materializer.partition import Partition
from ..materializer.worker import Cancellable, Scheduler
from ..model.errors import RequestError, RequestLimitExceededError

# What an item takes besides its own bytes: objects, its key, its place in dict or list. Measured; see README.
ITEM_OVERHEAD = 250
_EVERY_SECONDS = 1.0


def bytes_in(state: PartitionState) -> int:
    """About how much memory the items and index entries of a state take."""
    total = 0
    for table in state.tables.values():
        for store in (table.items, *(index.store for index in table.indexes.values())):
            total += store.size + ITEM_OVERHEAD * store.count
    return total


class BoundedPartition:
    """A partition that takes no more items once its state takes `bound` bytes; 0 is no bound, and costs nothing.

    Attributes:
        full: Whether it takes no more.
    """

    def __init__(
        self,
        partition: Partition,
        state: PartitionState,
        bound: int,
        scheduler: Scheduler,
        position: Callable[[], Position],
    ) -> None:
        self._partition = partition
        self._state = state
        self._bound = bound
        self._scheduler = scheduler
        self._position = position
        self._timer: Cancellable | None = None
        self.full = False
        # What a bound does not concern goes straight through.
        self.get = partition.get
        self.get_all = partition.get_all
        self.query = partition.query
        self.scan = partition.scan
        if bound:
            self.look()
        else:
            self.submit = partition.submit  # type: ignore[method-assign]

    def look(self) -> None:
        """See how much there is now, and again in a second."""
        self.full = bytes_in(self._state) >= self._bound
        self._timer = self._scheduler.call_later(_EVERY_SECONDS, self.look)

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def submit(self, command: Command, size: int, done: Callable[[Outcome, Position], None]) -> None:
        """Pass the command on, unless it could add to a state that is full."""
        if self.full and isinstance(command, (Put, Update, Transact)):
            done(Failed(self._refusal()), self._position())
        else:
            self._partition.submit(command, size, done)

    def _refusal(self) -> RequestError:
        return RequestLimitExceededError(
            f"The database takes about {bytes_in(self._state)} bytes of memory, and {self._bound} is its limit: "
            "delete items, or start it with a larger --memory-limit"
        )
