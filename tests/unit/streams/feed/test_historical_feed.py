"""Historical feeds: trimmed changes are replayed from the log, and read like a feed."""

import asyncio
import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foldb.log.local.filesystem import SystemFilesystem
from foldb.log.local.reader import LogReader
from foldb.materializer.feed_requests import Changes, ReadChanges
from foldb.materializer.snapshots import Snapshots
from foldb.model.errors import InternalServerError, RequestError
from foldb.model.sequence_numbers import sequence_number
from foldb.server.app import Serving
from foldb.server.settings import Settings
from foldb.streams.feed.historical_feed import (
    MAX_REPLAYS,
    HistoricalFeed,
    HistoricalFeeds,
    OnProgress,
    in_process,
    in_thread,
)
from foldb.streams.feed.replay_worker import ReplayTask
from foldb.streams.feed.serial_executor import InlineExecutor
from tests.support.raw import ask
from tests.support.tables import table_request
from tests.unit.streams.feed.life import Held


async def all_of(history: HistoricalFeed, after: int = 0, **more: Any) -> list[Changes]:
    """Return all pages of a historical feed."""
    pages: list[Changes] = []
    while not pages or not pages[-1].is_end:
        told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        request = ReadChanges(history._task.table, after, **more)
        history.read(request, lambda answer, _, told=told: told.set_result(answer))
        page = await asyncio.wait_for(told, 60)
        assert not isinstance(page, RequestError)
        pages.append(page)
        after = page.next
    history.close()
    return pages


async def put(url: str, key: str, value: int) -> None:
    item = {"pk": {"S": key}, "n": {"N": str(value)}}
    answer = await asyncio.to_thread(ask, url, "PutItem", {"TableName": "Past", "Item": item})
    assert answer.status == 200, answer.body


@pytest.mark.parametrize("place", ["memory", "folder with a snapshot"])
def test_trimmed_changes_and_old_items_come_from_the_log(place: str, tmp_path: Path) -> None:
    folder = None if place == "memory" else tmp_path / "data"

    async def live() -> None:
        serving = Serving(Settings(port=0, path=folder), asyncio.get_running_loop())
        await serving.start()
        node = serving.node
        try:
            await asyncio.to_thread(ask, serving.url, "CreateTable", table_request("Past", "pk:S"))
            for n in range(5):
                await put(serving.url, "abc"[n % 3], n)
            middle = sequence_number(node.state.next_offset, 0, 0) - 1
            if place.endswith("snapshot"):
                assert folder is not None
                Snapshots(folder, SystemFilesystem()).make(LogReader(folder, SystemFilesystem()))
            for n in range(5, 8):
                await put(serving.url, "abc"[n % 3], n)
            table = node.state.names["Past"]
            end = sequence_number(node.state.next_offset, 0, 0) - 1

            whole = await all_of(node.histories.changes(0, table, 0, end), limit=3)
            late = await all_of(node.histories.changes(0, table, middle, end))
            items = await all_of(node.histories.items(0, table, middle), limit=2)

            changes = [change for page in whole for change in page.changes]
            assert [b"a", b"b", b"c", b"a", b"b", b"c", b"a", b"b"] == [change.pk for change in changes]
            assert changes[3].old == changes[0].new
            assert end == whole[-1].next == late[-1].next
            assert changes[5:] == [change for page in late for change in page.changes]

            found = [change for page in items for change in page.changes]
            assert [1, 2, 3] == [change.sequence_number for change in found]
            assert all(change.is_read and change.old is None for change in found)
            at_middle = {change.pk: change.new for change in changes[:5]}
            assert at_middle == {change.pk: change.new for change in found}
            assert middle == items[-1].next
        finally:
            await serving.stop()

    asyncio.run(live())
    if folder is not None:
        assert [] == list((folder / "changes" / "past").iterdir())


def answer_of(history: HistoricalFeed) -> Any:
    """Return the answer to a read from the beginning, None while it waits."""
    answers: list[Any] = []
    history.read(ReadChanges(1, 0), lambda answer, _: answers.append(answer))
    return answers[0] if answers else None


def test_a_replay_that_cannot_start_fails_and_frees_its_slot(tmp_path: Path) -> None:
    begun: list[ReplayTask] = []

    def make(task: ReplayTask, folder: Path, on_progress: OnProgress) -> Callable[[], None]:
        begun.append(task)
        if len(begun) <= MAX_REPLAYS:
            raise BlockingIOError(errno.EAGAIN, "no room for another process")
        return lambda: None

    histories = HistoricalFeeds(make, lambda: tmp_path, b"l" * 16, InlineExecutor())
    made = [histories.changes(0, 1, 0, 10**26 + n) for n in range(MAX_REPLAYS + 1)]

    assert [True] * MAX_REPLAYS == [isinstance(answer_of(each), InternalServerError) for each in made[:-1]]
    assert answer_of(made[-1]) is None
    assert MAX_REPLAYS + 1 == len(begun)
    histories.close()
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("where", ["thread", "process"])
def test_a_replay_fails_if_no_thread_can_start(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def deliver(_: Callable[[], None]) -> None:
        raise AssertionError("there is nobody who could tell")

    log: Any = None
    maker = in_thread(log, deliver) if where == "thread" else in_process(deliver, database=tmp_path)
    histories = HistoricalFeeds(maker, lambda: tmp_path, b"l" * 16, InlineExecutor())
    monkeypatch.setattr(threading.Thread, "start", start)

    assert isinstance(answer_of(histories.items(0, 1, 10**26)), InternalServerError)


def test_a_replay_fails_on_a_full_disk(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    histories = HistoricalFeeds(
        lambda *_: lambda: None, lambda: tmp_path / "file" / "past", b"l" * 16, InlineExecutor()
    )

    assert isinstance(answer_of(histories.items(0, 1, 10**26)), InternalServerError)


def test_a_queued_replay_uses_no_disk_space(tmp_path: Path) -> None:
    histories = HistoricalFeeds(lambda *_: lambda: None, lambda: tmp_path, b"l" * 16, InlineExecutor())
    for n in range(9):
        histories.changes(0, 1, 0, 10**26 + n)

    assert MAX_REPLAYS == len(list(tmp_path.iterdir()))
    histories.close()


def test_a_replay_closed_before_its_start_is_not_started(tmp_path: Path) -> None:
    reading = Held()
    made: list[ReplayTask] = []

    def make(task: ReplayTask, folder: Path, on_progress: OnProgress) -> Callable[[], None]:
        made.append(task)
        return lambda: None

    history = HistoricalFeeds(make, lambda: tmp_path, b"l" * 16, reading).changes(0, 1, 0, 10**26)
    history.close()
    reading.run()

    assert [] == made
    assert [] == list(tmp_path.iterdir())
