"""What the feed does not keep comes from the log, and is read as the feed is."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from foldb.log.local.disk import SystemDisk
from foldb.log.local.reader import LogReader
from foldb.materializer.feed import Changes, ReadChanges
from foldb.materializer.fold.outcomes import sequence_number
from foldb.materializer.snapshots import Snapshots
from foldb.model.errors import RequestError
from foldb.server.app import Serving
from foldb.server.settings import Settings
from foldb.streams.feed.history import History
from foldb.streams.feed.scratch import scratch
from tests.raw import ask
from tests.tables import table_request


async def all_of(history: History, after: int = 0, **more: Any) -> list[Changes]:
    """Its pages."""
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
def test_changes_and_items_of_the_past_are_read_from_the_log(place: str, tmp_path: Path) -> None:
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
                Snapshots(folder, SystemDisk()).make(LogReader(folder, SystemDisk()))
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


def test_what_a_killed_process_has_left_is_removed_and_what_is_used_is_not(tmp_path: Path) -> None:
    used, remove = scratch(tmp_path)
    left = tmp_path / "foldb-changes-left"
    left.mkdir()
    (left / "1-0.avro").write_bytes(b"x")
    for folder in (used, left):
        os.utime(folder, (0, 0))

    other, remove_other = scratch(tmp_path)

    assert {used, other} == set(tmp_path.iterdir())
    remove()
    remove_other()
    assert [] == list(tmp_path.iterdir())
