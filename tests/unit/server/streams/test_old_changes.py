"""Changes that no feed keeps are read from the history: in memory, in a folder, and over partitions."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from foldb.server.api.dispatch import ADMIN_API
from foldb.server.app import Serving
from foldb.server.settings import Settings
from tests.support.raw import ask
from tests.support.tables import table_request


async def send(url: str, operation: str, **body: Any) -> Any:
    answer = await asyncio.to_thread(ask, url, operation, body)
    assert answer.status == 200, answer.body
    return answer.body


async def all_changes(url: str, limit: int) -> list[dict[str, Any]]:
    """Return the changes of the table from its beginning, page by page."""
    found: list[dict[str, Any]] = []
    request: dict[str, Any] = {"Start": {"At": "BEGINNING"}}
    while True:
        page = await send(url, f"{ADMIN_API}Changes", TableNames=["Old"], Limit=limit, **request)
        found += page["Changes"]
        if page["IsEnd"] and not page["Changes"]:
            return found
        request = {"Start": {"At": "BEGINNING"}, "After": page["Next"]}


@pytest.mark.parametrize("place", ["memory", "partitions in memory", "folder"])
def test_changes_from_before_the_stream_are_in_the_history(place: str, tmp_path: Path) -> None:
    folder = tmp_path / "data" if place == "folder" else None
    settings = Settings(port=0, path=folder, partitions=3 if place.startswith("partitions") else 1)

    async def live() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        serving = Serving(settings, asyncio.get_running_loop())
        await serving.start()
        try:
            url = serving.url
            await send(url, "CreateTable", **table_request("Old", "pk:S"))
            for n in range(8):
                if n == 6:
                    stream = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
                    await send(url, "UpdateTable", TableName="Old", StreamSpecification=stream)
                item = {"pk": {"S": "abc"[n % 3]}, "n": {"N": str(n)}}
                await send(url, "PutItem", TableName="Old", Item=item)
            return await all_changes(url, limit=3), await all_changes(url, limit=1000)
        finally:
            await serving.stop()

    pages, whole = asyncio.run(live())

    assert list(range(8)) == sorted(int(change["new"]["n"]["N"]) for change in whole)
    assert sorted(pages, key=str) == sorted(whole, key=str)
    for key in "abc":
        changes = [change for change in pages if change["keys"]["pk"]["S"] == key]
        assert [None, *(change["new"] for change in changes[:-1])] == [each.get("old") for each in changes]
