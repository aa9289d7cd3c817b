"""Executors that run jobs one after another, and return each outcome to the owner's event loop."""

import queue
import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, TypeVar

T = TypeVar("T")

Deliver: TypeAlias = Callable[[Callable[[], None]], None]
"""Schedules a callback on the owner's loop, from any thread."""


class SerialExecutor(Protocol):
    """Runs jobs in order."""

    def submit(self, job: Callable[[], T], on_done: Callable[[T | Exception], None]) -> None:
        """Run `job`, and call `on_done` with its result or exception, on the loop."""
        ...

    def close(self) -> None:
        """Wait until all jobs are done."""
        ...


class InlineExecutor:
    """Runs a job before `submit` returns: at a start, before requests are served, and in tests."""

    def submit(self, job: Callable[[], T], on_done: Callable[[T | Exception], None]) -> None:
        on_done(outcome_of(job))

    def close(self) -> None:
        """Do nothing: no job is pending."""


class ThreadExecutor:
    """Runs jobs in a thread, which starts with the first job.

    A job that is submitted after `close` is run at once: it closes the files of a job before it, and the loop may end
    before a thread could return its outcome.
    """

    def __init__(self, name: str, deliver: Deliver) -> None:
        self._name = name
        self._deliver = deliver
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def submit(self, job: Callable[[], T], on_done: Callable[[T | Exception], None]) -> None:
        """Queue the job; `on_done` is called on the loop."""
        if self._is_closed:
            on_done(outcome_of(job))
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

        def run() -> None:
            outcome = outcome_of(job)
            self._deliver(lambda: on_done(outcome))

        self._jobs.put(run)

    def close(self) -> None:
        """Wait until all jobs are done, and end the thread."""
        self._is_closed = True
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


def outcome_of(job: Callable[[], Any]) -> Any:
    """Return the result of a job, or the exception that it raised."""
    try:
        return job()
    except Exception as error:
        return error
