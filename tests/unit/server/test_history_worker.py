"""The turns in which the history process follows the log."""

import asyncio
import errno
import socket
from pathlib import Path
from typing import Any, cast

import pytest

from foldb.log.commands import Genesis
from foldb.model.errors import LogError
from foldb.server.history import worker
from foldb.server.history.worker import Histories, HistoryServer
from tests.unit.materializer.fake_loop import FakeLoop

PAGE = b"x" * (1 << 20)


class Behind:
    """A history with a log that never ends.

    A test sets `error`, which the next fold or close raises once, or ends the log.
    """

    def __init__(self, partition_id: int, folded: list[int]) -> None:
        self._partition_id = partition_id
        self._folded = folded
        self.error: Exception | None = None
        self.has_more = True
        self.is_abandoned = False

    def step(self) -> bool:
        self._folded.append(self._partition_id)
        self._fail_once()
        return self.has_more

    def close(self) -> None:
        self._fail_once()

    def abandon(self) -> None:
        self.is_abandoned = True

    def _fail_once(self) -> None:
        error, self.error = self.error, None
        if error is not None:
            raise error


class Following:
    """The histories of the partitions 1 to 3, which are behind the log."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, loop: Any = None) -> None:
        self.folded: list[int] = []
        self.each = {number: Behind(number, self.folded) for number in (1, 2, 3)}
        monkeypatch.setattr(worker, "open_history", lambda folder, log, number, snapshots: self.each[number])
        self.loop = FakeLoop()
        self.histories = Histories(None, Path("unused"), None, loop or cast(Any, self.loop))
        for number in self.each:
            self.histories.follow(number)
        self.folded.clear()


@pytest.fixture
def following(monkeypatch: pytest.MonkeyPatch) -> Following:
    return Following(monkeypatch)


def test_each_turn_folds_one_partition(following: Following) -> None:
    """A read of the past waits for one turn."""
    for turns in range(1, 5):
        following.loop.turn()
        assert turns == len(following.folded)

    assert [1, 2, 3, 1] == following.folded


def test_partitions_that_reads_wait_for_are_folded_in_turn_before_others(following: Following) -> None:
    following.histories.want(2, waits=True)
    following.histories.want(3, waits=True)
    for _ in range(4):
        following.loop.turn()
    following.histories.want(2, waits=False)
    for _ in range(2):
        following.loop.turn()
    following.histories.want(3, waits=False)
    for _ in range(3):
        following.loop.turn()

    assert [2, 3, 2, 3, 3, 3, 1, 2, 3] == following.folded


def test_a_read_that_nobody_repeats_delays_no_partition_for_ever(following: Following) -> None:
    """Its partition is wanted until it has nothing more to fold."""
    following.histories.want(2, waits=True)
    following.loop.turn()
    following.each[2].has_more = False
    for _ in range(3):
        following.loop.turn()

    assert [2, 2, 1, 3] == following.folded


def test_a_partition_that_cannot_be_folded_leaves_turns_to_others(following: Following) -> None:
    following.each[1].error = ValueError("damaged")
    with pytest.raises(ValueError, match="damaged"):
        following.loop.turn()
    for _ in range(3):
        following.loop.turn()

    assert [1, 2, 3, 2] == following.folded


@pytest.mark.parametrize(
    "error", [LogError("the broker is away"), OSError(errno.EIO, "Input/output error")], ids=["log", "disk"]
)
def test_a_partition_whose_log_cannot_be_read_is_reported_once_and_folded_later(
    error: Exception, following: Following, caplog: pytest.LogCaptureFixture
) -> None:
    for history in following.each.values():
        history.has_more = False
    following.loop.settle()
    following.folded.clear()
    for _ in range(2):
        following.each[1].error = error
        following.loop.advance(2)
    assert [
        f"cannot fold the history of partition 1: {error}; trying again every 2 seconds"
    ] == caplog.messages
    assert isinstance(error, OSError) == following.each[1].is_abandoned  # it is opened again

    following.folded.clear()
    following.loop.advance(2)
    assert 1 in following.folded


def test_a_history_whose_disk_fails_while_it_is_closed_is_released(
    following: Following, caplog: pytest.LogCaptureFixture
) -> None:
    following.each[2].error = OSError(errno.EIO, "Input/output error")
    following.histories.close()

    assert ["cannot save the history of partition 2: [Errno 5] Input/output error"] == caplog.messages
    assert [False, True, False] == [history.is_abandoned for history in following.each.values()]


def test_a_partition_that_is_not_kept_is_not_folded(following: Following) -> None:
    following.histories.keep([2])
    for _ in range(2):
        following.loop.turn()

    assert [2, 2] == following.folded


class Log:
    def genesis(self, _: int) -> Genesis:
        return Genesis(bytes(16), 0, 4, 0, 0, "", "modern")


async def test_nothing_is_folded_while_an_answer_waits_for_room_in_the_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A page is several times as long as the socket's buffer: each part of it would wait for a turn."""
    loop = asyncio.get_running_loop()
    following = Following(monkeypatch, loop)
    server = HistoryServer(Log(), following.histories, loop)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    await loop.create_unix_connection(lambda: server, sock=theirs)

    server.send([1, PAGE])
    for _ in range(3):  # the answer leaves at the end of the turn
        await asyncio.sleep(0)
    before = len(following.folded)
    for _ in range(10):
        await asyncio.sleep(0)
    during = len(following.folded)
    received = 0
    while received < len(PAGE):
        received += len(await loop.sock_recv(ours, 1 << 20))
    for _ in range(10):
        await asyncio.sleep(0)

    assert before == during
    assert during < len(following.folded)
    following.histories.close()
    server.abort()
    ours.close()
