"""A long poll is answered at its timeout, at any moment."""

from typing import Any

from foldb.materializer.feed_requests import ReadChanges
from foldb.streams.feed.long_poll import LongPoll, LongPolls
from tests.unit.materializer.fake_loop import FakeLoop, Timer


def test_a_poll_that_expires_during_a_notification_is_answered() -> None:
    """A change of another table has scheduled a read, which finds nothing, when the timer goes off."""
    loop = FakeLoop()
    answered: list[Any] = []

    def read(request: ReadChanges, done: Any, wait: LongPoll | None) -> None:
        if not request.wait_ms or not waits.add(request, done, wait):
            done(None, None)

    waits = LongPolls(loop, read)
    read(ReadChanges(1, 0, wait_ms=5000), lambda *_: answered.append("in time"), None)
    [wait] = waits._polls
    assert isinstance(wait.timer, Timer)

    waits.notify()
    loop.turn()  # schedules the read
    wait.timer.call()
    loop.settle()

    assert ["in time"] == answered
