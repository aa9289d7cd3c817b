"""Who waits at a feed is answered when his time is over, whatever happens at that moment."""

from typing import Any

from foldb.materializer.feed_requests import ReadChanges
from foldb.streams.feed.long_poll import LongPoll, LongPolls
from tests.unit.materializer.fake_loop import FakeLoop, Timer


def test_a_wait_whose_time_is_over_while_it_is_told_is_answered() -> None:
    """Another table has changed: who waits is about to look again when the timer goes off, and finds nothing."""
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
    loop.turn()  # he is told that there may be something
    wait.timer.call()
    loop.settle()

    assert ["in time"] == answered
