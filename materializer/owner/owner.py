"""What the owner of a partition does besides folding it.

    messages for other partitions             Relay, RelayAck         relays.py
    what is to happen because time passed     Settle, Backfill, Expire   timers.py
    a transaction undecided for too long      Abandon

All of it is looked up in the state, whenever something was folded, and none of it decides anything: that is the
fold's. So an owner can begin and end at any moment, and two at once, of whom one does not know yet that it is none any
more, do everything twice to the same effect. Where nothing happens, nothing is proposed: an idle log stays idle.
"""

from collections.abc import Callable, Sequence
from typing import Final

from ...log.commands import Abandon, Context, Entry
from ..fold.state import PartitionState
from ..fold.transactions.coordinator import ABANDON_AFTER_MS
from ..partition import Partition
from ..worker import Cancellable, Scheduler, Worker
from .relays import Relays
from .timers import Proposing, Timers

_ABANDON_BYTES: Final = 64
_ABANDON_AGAIN_SECONDS: Final = 1.0
_OWNER: Final = Context(request_id="")


class Owner:
    """Acts for one partition, from `start` to `close`.

    Args:
        worker: The partition's, on this node.
        partitions: All partitions, by number, as they are reached from here; entries may be replaced.
        clock: Milliseconds since 1970.
        scheduler: The loop.
        raises_level, table_delay: See Timers.
        sweep_interval: See Timers.
        lag_ms: See Relays.
    """

    def __init__(
        self,
        worker: Worker,
        partitions: Sequence[Partition],
        *,
        clock: Callable[[], int],
        scheduler: Scheduler,
        raises_level: bool = True,
        table_delay: float = 0.0,
        sweep_interval: float | None = 60.0,
        lag_ms: int = 0,
    ) -> None:
        self._worker = worker
        self._state = worker.state
        self._timers = Timers(
            worker,
            worker.state,
            clock=clock,
            scheduler=scheduler,
            raises_level=raises_level,
            table_delay=table_delay,
            sweep_interval=sweep_interval,
        )
        self._relays = Relays(
            worker, worker.state, partitions, clock=clock, scheduler=scheduler, lag_ms=lag_ms
        )
        self._abandons = Abandons(worker, worker.state, clock=clock, scheduler=scheduler)

    def start(self) -> None:
        """Begin with the state as it is."""
        self._worker.on_folded = self.folded
        self._timers.start()
        self._relays.look()
        self._abandons.look()

    def folded(self, entry: Entry) -> None:
        """See what the entry has left to do."""
        self._timers.folded(entry)
        if self._state.partitions > 1:
            self._relays.look()
            self._abandons.look()

    def close(self) -> None:
        """Do nothing more; what is under way comes to its end by itself."""
        if self._worker.on_folded == self.folded:
            self._worker.on_folded = None
        self._timers.close()
        self._relays.close()
        self._abandons.close()


class Abandons:
    """Proposes to give up transactions that are undecided when their time is over. Log time judges, not this clock."""

    def __init__(
        self, partition: Proposing, state: PartitionState, *, clock: Callable[[], int], scheduler: Scheduler
    ) -> None:
        self._partition = partition
        self._state = state
        self._clock = clock
        self._scheduler = scheduler
        self._timer: Cancellable | None = None
        self._closed = False

    def look(self) -> None:
        """Set the timer for the oldest, if there is none."""
        if self._timer is not None or self._closed:
            return
        oldest = next(self._state.transactions.undecided(), None)
        if oldest is not None:
            self._later(self._left(oldest[1]))

    def close(self) -> None:
        """Propose nothing more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _later(self, seconds: float) -> None:
        self._timer = self._scheduler.call_later(seconds, self._propose)

    def _left(self, begun: int) -> float:
        """Seconds until a transaction's time is over."""
        return max(0, begun + ABANDON_AFTER_MS - self._clock()) / 1000

    def _propose(self) -> None:
        self._timer = None
        undecided = list(self._state.transactions.undecided())
        for number, begun in undecided:
            if self._left(begun) == 0:
                self._partition.submit(Abandon(number, _OWNER), _ABANDON_BYTES, _ignore)
        if undecided and not self._closed:
            self._later(max(_ABANDON_AGAIN_SECONDS, self._left(undecided[0][1])))


def _ignore(*_: object) -> None:
    """What became of it is in the state."""
