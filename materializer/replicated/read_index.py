"""Waits until the fold includes all writes that were acknowledged before a read, on a shared log.

    reads arrive ──► where does the log end? ──► fold it up to there ──► serve them
                       │
                       └── reads that arrive in the meantime share the next question

The end of the log, asked after a read arrived, covers every write acknowledged before it. In strict mode the
question is an entry, appended and folded: the answer is then right even if a part of the log's servers is cut off
from the others and has not noticed.
"""

from collections.abc import Callable
from dataclasses import field
from typing import TypeAlias

from ...log.commands import Barrier
from ...model.errors import LogError, RequestError, ServiceUnavailableError
from ...model.lazy_dataclass import dataclass
from ..fold.outcomes import Failed, Outcome
from ..partition import OnReached, ResultPosition
from ..worker import Cancellable, Scheduler
from .worker import ReplicatedWorker

OnCurrent: TypeAlias = OnReached

_BARRIER_BYTES = 8


@dataclass(slots=True, eq=False)
class _Round:
    """The reads that share a question; `asked_ms` is the clock at the question."""

    asked_ms: int
    waiting: list[OnCurrent]
    timer: Cancellable | None = field(default=None)


class ReadIndex:
    """See the module.

    Args:
        worker: Folds the log, and asks for its end.
        deadline: Seconds after which a question has failed.
        strict: Whether to append the question.
    """

    def __init__(
        self,
        worker: ReplicatedWorker,
        *,
        clock: Callable[[], int],
        scheduler: Scheduler,
        deadline: float,
        strict: bool,
    ) -> None:
        self._worker = worker
        self._clock = clock
        self._scheduler = scheduler
        self._deadline = deadline
        self._strict = strict
        self._queued: list[OnCurrent] = []
        self._round: _Round | None = None
        self._fresh_at = -1

    def wait(self, callback: OnCurrent) -> None:
        """Call `callback` when the fold includes all writes acknowledged so far, or with an error."""
        self._queued.append(callback)
        if self._round is None:
            self._start_round()

    def is_fresh(self, within_ms: int) -> bool:
        """Whether the state was current at some moment within the last `within_ms`.

        Ask again in time, so that a partition with readers stays fresh.
        """
        age = self._clock() - self._fresh_at
        if age > within_ms // 2 and self._round is None:
            self.wait(_ignore)
        return self._fresh_at >= 0 and age <= within_ms

    def _start_round(self) -> None:
        waiting, self._queued = self._queued, []
        this = self._round = _Round(self._clock(), waiting)
        this.timer = self._scheduler.call_later(self._deadline, self._end, this, ServiceUnavailableError())
        if self._strict:
            self._worker.submit(
                Barrier(), _BARRIER_BYTES, lambda outcome, _: self._appended(this, outcome, _)
            )
        else:
            self._worker.ask_end(lambda end: self._end_found(this, end))

    def _appended(self, this: _Round, outcome: Outcome, _: ResultPosition) -> None:
        self._next_round(this)
        self._end(this, outcome.error if isinstance(outcome, Failed) else None)

    def _end_found(self, this: _Round, end: int | LogError) -> None:
        self._next_round(this)
        if isinstance(end, LogError):
            self._end(this, ServiceUnavailableError())
        else:
            self._worker.when_folded(end, lambda: self._end(this, None))

    def _next_round(self, this: _Round) -> None:
        if self._round is this:
            self._round = None
            if self._queued:
                self._start_round()

    def _end(self, this: _Round, error: RequestError | None) -> None:
        assert this.timer is not None
        this.timer.cancel()
        if error is None:
            self._fresh_at = max(self._fresh_at, this.asked_ms)
        waiting, this.waiting = this.waiting, []
        for callback in waiting:
            callback(error)
        self._next_round(this)


def _ignore(error: RequestError | None) -> None:
    """No read waits: the question only keeps the state fresh."""
