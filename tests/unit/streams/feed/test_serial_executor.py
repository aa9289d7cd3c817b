"""The thread of an executor ends before the loop that its outcomes are delivered to."""

import threading
from collections.abc import Callable

from foldb.streams.feed.serial_executor import ThreadExecutor


def test_a_job_after_the_close_runs_without_a_thread() -> None:
    delivered: list[Callable[[], None]] = []
    outcomes: list[object] = []
    executor = ThreadExecutor("jobs of the test", delivered.append)
    executor.submit(threading.get_ident, outcomes.append)
    executor.close()
    [deliver] = delivered
    deliver()

    executor.submit(threading.get_ident, outcomes.append)

    assert [deliver] == delivered
    first, second = outcomes
    assert first != second == threading.get_ident()
