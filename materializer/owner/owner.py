"""The duties of a partition's owner, in addition to folding.

    messages for other partitions             Relay, RelayAck            relays.py
    commands that are due by the clock        Settle, Backfill, Expire   timers.py
    copies of items into restored tables      Load, RestoreProgress      restores.py
    exports and bulk operations               JobProgress, Put           jobs.py
    transactions undecided for too long       Abandon

The owner derives all of them from the state, after each folded entry, and decides none: the fold does. So an owner
can begin and end at any moment. A stale owner after failover is harmless: duplicate proposals have no effect. An
owner with nothing to do proposes nothing: an idle log stays idle.
"""

from collections.abc import Callable, Sequence
from typing import Final

from ...log.commands import Abandon, DefineTable, Entry, new_context
from ...model.lazy_dataclass import dataclass
from ..fold.state import PartitionState
from ..fold.transactions.coordinator import ABANDON_AFTER_MS
from ..history.requests import PartitionWithHistory
from ..portions import Traffic
from ..worker import Cancellable, Scheduler, Worker
from .job_files import JobFiles
from .jobs import Jobs
from .relays import Relays
from .restores import Restores
from .timers import Timers

_PROPOSAL_BYTES: Final = 64
_RETRY_MS: Final = 1_000
_OWNER: Final = new_context(request_id="")


@dataclass(frozen=True, slots=True)
class OwnerSettings:
    """The settings of an owner's duties.

    Attributes:
        raises_level, table_delay, sweep_interval: See Timers.
    """

    raises_level: bool = True
    table_delay: float = 0.0
    sweep_interval: float | None = 60.0


class Owner:
    """Acts for one partition, from `start` to `close`.

    Args:
        worker: The partition's worker on this node.
        partitions: All partitions, by id, as this node reaches them; the caller may replace elements.
        settings: The delays of its duties.
        files: The files of exports, imports and bulk operations; without them none runs.
        traffic: Counts the requests of clients, for which long steps become shorter.
    """

    def __init__(
        self,
        worker: Worker,
        partitions: Sequence[PartitionWithHistory],
        settings: OwnerSettings,
        *,
        clock: Callable[[], int],
        scheduler: Scheduler,
        files: JobFiles | None = None,
        traffic: Traffic | None = None,
    ) -> None:
        self._worker = worker
        self._state = worker.state
        self._stop_observing: Callable[[], None] | None = None
        self._restores = Restores(worker, worker.state, partitions, scheduler, files)
        self._jobs = Jobs(worker, worker.state, partitions, scheduler, files)
        self._timers = Timers(
            worker,
            worker.state,
            clock=clock,
            scheduler=scheduler,
            raises_level=settings.raises_level,
            table_delay=settings.table_delay,
            sweep_interval=settings.sweep_interval,
            restore=self._restores.begin,
            traffic=traffic,
        )
        self._relays = Relays(worker, worker.state, partitions, scheduler)
        self._aborts = TransactionAborts(worker, worker.state, clock=clock, scheduler=scheduler)

    def start(self) -> None:
        """Begin with the current state."""
        self._stop_observing = self._worker.after_answers.add(self.folded)
        self._timers.start()
        self._jobs.begin()
        self._relays.send()
        self._aborts.schedule()

    def folded(self, entry: Entry) -> None:
        """Schedule the work that the entry has caused."""
        self._timers.folded(entry)
        if self._state.jobs and any(type(command) is DefineTable for command in entry.commands):
            self._jobs.begin()
        if self._state.partitions > 1:
            self._relays.send()
            self._aborts.schedule()

    def close(self) -> None:
        """Stop; proposals in flight complete by themselves."""
        if self._stop_observing is not None:
            self._stop_observing()
        self._timers.close()
        self._restores.close()
        self._jobs.close()
        self._relays.close()
        self._aborts.close()


class TransactionAborts:
    """Proposes to abort transactions undecided for too long. The fold decides by log time.

    A clock that was set back stops log time, up to where the clock was before. So the wait is measured by the timer
    too, and if a proposal does not move log time, an entry names a later one.
    """

    def __init__(
        self, worker: Worker, state: PartitionState, *, clock: Callable[[], int], scheduler: Scheduler
    ) -> None:
        self._worker = worker
        self._state = state
        self._clock = clock
        self._scheduler = scheduler
        self._timer: Cancellable | None = None
        self._due_ms = 0  # the time at which the timer is due, if the clock is not set back
        self._proposed_at_ms: int | None = None  # log time before the last proposal
        self._closed = False

    def schedule(self) -> None:
        """Set the timer for the oldest undecided transaction, if none is set."""
        if self._timer is not None or self._closed:
            return
        oldest = next(self._state.transactions.undecided(), None)
        if oldest is not None:
            now_ms = max(self._clock(), self._state.log_time)
            self._later(now_ms, max(0, oldest[1] + ABANDON_AFTER_MS - now_ms))

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _later(self, now_ms: int, wait_ms: int) -> None:
        self._due_ms = now_ms + wait_ms
        self._timer = self._scheduler.call_later(wait_ms / 1000, self._propose)

    def _propose(self) -> None:
        self._timer = None
        now_ms = max(self._clock(), self._due_ms)
        undecided = list(self._state.transactions.undecided())
        due = [each for each in undecided if each[1] + ABANDON_AFTER_MS <= now_ms]
        if due and self._state.log_time == self._proposed_at_ms:
            self._worker.advance_time(due[-1][1] + ABANDON_AFTER_MS, _ignore)
        self._proposed_at_ms = self._state.log_time if due else None
        for transaction_number, _ in due:
            self._worker.submit(Abandon(transaction_number, _OWNER), _PROPOSAL_BYTES, _ignore)
        if undecided and not self._closed:
            left_ms = undecided[0][1] + ABANDON_AFTER_MS - now_ms
            self._later(now_ms, max(_RETRY_MS, left_ms))


def _ignore(*_: object) -> None:
    """The state holds the result."""
