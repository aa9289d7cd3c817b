"""A long poll is answered at its timeout, at any moment, and by changes: soon, and less often under load."""

from itertools import pairwise
from typing import Any

from foldb.log.commands import Position, new_context
from foldb.materializer.feed_requests import Changes, OnFed, ReadChanges
from foldb.materializer.fold.outcomes import Change
from foldb.streams.feed.long_poll import LOADED_PAUSE_S, PAUSE_S, LongPoll, LongPolls
from tests.unit.materializer.fake_loop import FakeLoop, Timer

CHANGE = Change(1, b"a", b"", None, b"{}", 1, 0, new_context("r"))


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


class Following:
    """A reader that polls again after each answer. The test folds records with changes."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.pages: list[tuple[float, int]] = []  # when an answer came, and its number of changes
        self._changes = 0
        self._polls = LongPolls(self.loop, self._read)
        self._ask()

    def fold(self, records: int, changes: int, *, every_s: float) -> None:
        for _ in range(records):
            self._changes += changes
            self._polls.notify()
            self.loop.advance(every_s)

    def pauses(self) -> list[float]:
        """Return the time between one answer and the next, after the first two."""
        times = [at for at, _ in self.pages[2:]]
        return [round(after - before, 4) for before, after in pairwise(times)]

    def _ask(self) -> None:
        self._read(ReadChanges(1, 0, wait_ms=5000), self._answered, None)

    def _read(self, request: ReadChanges, done: OnFed, poll: LongPoll | None) -> None:
        if not self._changes and self._polls.add(request, done, poll):
            return
        page = [CHANGE] * self._changes
        self._changes = 0
        done(Changes(page, 0, 0, True, 0), Position(0, 0))

    def _answered(self, answer: Any, _: Any) -> None:
        self.pages.append((self.loop.time(), len(answer.changes)))
        self._ask()


def test_the_writes_of_one_client_are_delivered_every_few_ms() -> None:
    following = Following()

    following.fold(100, 1, every_s=0.001)

    assert {PAUSE_S} == set(following.pauses())


def test_rare_changes_are_delivered_at_once() -> None:
    following = Following()

    following.fold(20, 25, every_s=0.1)

    assert 20 == len(following.pages)
    assert {0.1} == set(following.pauses())


def test_the_pause_is_longer_while_many_clients_write() -> None:
    following = Following()

    following.fold(200, 10, every_s=0.001)
    loaded = following.pauses()
    following.pages.clear()
    following.fold(100, 1, every_s=0.001)

    assert {LOADED_PAUSE_S} == set(loaded)
    assert {PAUSE_S} == set(following.pauses())
