"""Tells when the fold is past all that was acknowledged before a read arrived, on a log that others append to.

    reads arrive ──► where does the log end? ──► fold it up to there ──► serve them
                       │
                       └── those that arrive meanwhile share the next question

The answer to a question that was asked after a read had arrived covers whatever anybody was told before it. Strict
means that the question is an entry of its own, appended and folded: that is true even if a part of the log's servers is
cut off from the others without knowing it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from ...log.commands import Barrier
from ...model.errors import LogError, RequestError, ServiceUnavailableError
from ..fold.outcomes import Failed, Outcome
from ..partition import Place
from ..worker import Cancellable, Scheduler
from .worker import ReplicatedWorker

Told: TypeAlias = Callable[[RequestError | None], None]

_BARRIER_BYTES = 8


@dataclass(slots=True, eq=False)
class _Round:
    """Those who share a question; `asked` is when it was, by the clock."""

    asked: int
    waiting: list[Told]
    timer: Cancellable | None = field(default=None)


class ReadIndex:
    """See the module.

    Args:
        worker: Its log is asked, and it folds it.
        clock: Milliseconds since 1970.
        scheduler: The loop.
        deadline: Seconds after which a question is taken for unanswered.
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
        self._coming: list[Told] = []
        self._asking: _Round | None = None
        self._fresh_at = -1

    def wait(self, told: Told) -> None:
        """Call `told` when the fold is past what was acknowledged before this call; with an error if it takes long."""
        self._coming.append(told)
        if self._asking is None:
            self._ask()

    def is_fresh(self, within_ms: int) -> bool:
        """Whether the state was the latest at some moment not longer ago than that.

        It asks again in time, so that a partition that is read from stays fresh.
        """
        age = self._clock() - self._fresh_at
        if age > within_ms // 2 and self._asking is None:
            self.wait(_ignore)
        return self._fresh_at >= 0 and age <= within_ms

    def _ask(self) -> None:
        waiting, self._coming = self._coming, []
        this = self._asking = _Round(self._clock(), waiting)
        this.timer = self._scheduler.call_later(self._deadline, self._end, this, ServiceUnavailableError())
        if self._strict:
            self._worker.submit(
                Barrier(), _BARRIER_BYTES, lambda outcome, _: self._appended(this, outcome, _)
            )
        else:
            self._worker.ask_end(lambda end: self._told(this, end))

    def _appended(self, this: _Round, outcome: Outcome, _: Place) -> None:
        self._next_round(this)
        self._end(this, outcome.error if isinstance(outcome, Failed) else None)

    def _told(self, this: _Round, end: int | LogError) -> None:
        self._next_round(this)
        if isinstance(end, LogError):
            self._end(this, ServiceUnavailableError())
        else:
            self._worker.when_folded(end, lambda: self._end(this, None))

    def _next_round(self, this: _Round) -> None:
        if self._asking is this:
            self._asking = None
            if self._coming:
                self._ask()

    def _end(self, this: _Round, error: RequestError | None) -> None:
        assert this.timer is not None
        this.timer.cancel()
        if error is None:
            self._fresh_at = max(self._fresh_at, this.asked)
        waiting, this.waiting = this.waiting, []
        for told in waiting:
            told(error)
        self._next_round(this)


def _ignore(error: RequestError | None) -> None:
    """Nobody waits: it is to be fresh for those who come."""
