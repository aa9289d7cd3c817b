"""A thread that does one thing after the other, and tells the loop what came of it."""

import queue
import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, TypeVar

T = TypeVar("T")

Deliver: TypeAlias = Callable[[Callable[[], None]], None]
"""Puts a callback on the owner's loop."""


class Work(Protocol):
    """Does what it is given, in order."""

    def do(self, job: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """Do `job`, and give what it returned or raised to `done`, on the loop."""
        ...

    def close(self) -> None:
        """Return when all is done."""
        ...


class AtOnce:
    """Does it before `do` returns: for a start, when nobody is served yet, and for tests."""

    def do(self, job: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """See Work."""
        done(outcome_of(job))

    def close(self) -> None:
        """See Work."""


class Thread:
    """Does it in a thread, which begins with the first job."""

    def __init__(self, name: str, deliver: Deliver) -> None:
        self._name = name
        self._deliver = deliver
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def do(self, job: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """See Work."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

        def work() -> None:
            outcome = outcome_of(job)
            self._deliver(lambda: done(outcome))

        self._jobs.put(work)

    def close(self) -> None:
        """See Work."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


def outcome_of(job: Callable[[], Any]) -> Any:
    """What a job returns or raises: its caller judges an exception."""
    try:
        return job()
    except Exception as error:
        return error
