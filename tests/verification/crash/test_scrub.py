"""Bits of files flip under a server: a scrub finds and reports the damage, and repairs snapshots and changes."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foldb.log.local.filesystem import SystemFilesystem
from foldb.materializer.snapshots import Snapshots
from tests.support.raw import ask
from tests.support.served import Process, foldb
from tests.support.subscribed import operate
from tests.support.subscribed import until as until_within
from tests.support.tables import table_request
from tests.unit.log.damage import flip
from tests.unit.server.test_metrics import read

STREAM = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
OPTIONS = ("--segment-bytes", "20000", "--scrub-every")
KEYS = [f"{n:03}" for n in range(100)]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of several segments, with a snapshot of most of its log."""
    folder = tmp_path_factory.mktemp("written") / "data"
    with Process(folder, *OPTIONS, "0") as server:
        made = table_request("Cars", "pk:S", StreamSpecification=STREAM)
        assert ask(server.url, "CreateTable", made).status == 200
        for key in KEYS:
            item = {"pk": {"S": key}, "text": {"S": "x" * 900}}
            assert ask(server.url, "PutItem", {"TableName": "Cars", "Item": item}).status == 200
        server.terminate()
    assert foldb("--db", str(folder), "snapshot", "make").returncode == 0
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    return shutil.copytree(written, tmp_path / "data")


def readable(snapshots: Snapshots, offset: int) -> bool:
    """Return whether a snapshot is still there and whole. A scrub may remove it at any time."""
    return snapshots.fault(offset) is None and snapshots.path(offset).exists()


def until(condition: Callable[[], Any]) -> None:
    """Wait until the condition holds. A scrub has a low priority, so it may take long."""
    until_within(condition, 180)


def damaged(url: str) -> dict[str, float]:
    """Return the metric of damaged files, by kind."""
    samples = read(url)
    return {
        kind: samples[f"foldb_scrub_damaged_files{{kind={kind}}}"] for kind in ("log", "snapshot", "changes")
    }


def scrubbed(url: str) -> float:
    return read(url)["foldb_scrub_finished_seconds{}"]


def test_a_scrub_finds_nothing_in_a_database_that_is_whole(folder: Path) -> None:
    """The database is written to at the same time."""
    with Process(folder, *OPTIONS, "50ms") as server:
        for n in range(60):
            item = {"pk": {"S": f"later {n}"}, "text": {"S": "x" * 900}}
            assert ask(server.url, "PutItem", {"TableName": "Cars", "Item": item}).status == 200
        begun = scrubbed(server.url)
        until(lambda: scrubbed(server.url) > begun)
        assert {"log": 0, "snapshot": 0, "changes": 0} == damaged(server.url)
        assert [] == operate(server.url, "Status")["Damaged"]
        assert read(server.url)["foldb_scrub_bytes_total{}"] > 100_000
        server.terminate()
    assert "damaged" not in server.said
    assert "was not finished" not in server.said


@pytest.mark.guarantee("G11")
def test_a_damaged_segment_of_the_log_is_reported(folder: Path) -> None:
    """A start from a snapshot does not read it. The server continues, and reports it in log, metrics and status."""
    second = sorted(folder.glob("*.avro"))[1]
    flip(second, second.stat().st_size // 2)
    with Process(folder, *OPTIONS, "50ms") as server:
        until(lambda: damaged(server.url)["log"] == 1)
        [reported] = operate(server.url, "Status")["Damaged"]
        assert second.name in reported
        assert second.name in foldb("--db", server.url, "status").stdout

        item = {"pk": {"S": "later"}}
        assert ask(server.url, "PutItem", {"TableName": "Cars", "Item": item}).status == 200
        assert {"log": 1, "snapshot": 0, "changes": 0} == damaged(server.url)
        server.terminate()
    # Each scrub reports it, and there may have been several.
    [reported] = {line for line in server.said.splitlines() if line.startswith("CRITICAL")}
    assert "the log is damaged, and the server continues" in reported
    assert f"{second.name} at byte" in reported
    assert "`foldb log restore`" in reported


@pytest.mark.guarantee("G11")
def test_a_damaged_snapshot_is_replaced(folder: Path) -> None:
    [path] = (folder / "snapshots").glob("*.snapshot")
    snapshots = Snapshots(folder, SystemFilesystem())
    with Process(folder, *OPTIONS, "200ms") as server:
        flip(path, path.stat().st_size // 2)
        until(lambda: any(readable(snapshots, offset) for offset in snapshots.offsets()))
        begun = scrubbed(server.url)
        until(lambda: scrubbed(server.url) > begun)
        until(lambda: damaged(server.url)["snapshot"] == 0)
        server.terminate()
    assert f"the snapshot snapshots/{path.name} is damaged" in server.said


@pytest.mark.guarantee("G11")
@pytest.mark.parametrize("region", ["header", "block"])
def test_damaged_changes_are_made_again(region: str, folder: Path) -> None:
    """The damage is in the header, which no reader reads, or in a block that no reader has read yet."""
    [path] = (folder / "changes" / "0").glob("1-*.avro")
    good = path.read_bytes()
    with Process(folder, *OPTIONS, "200ms") as server:
        flip(path, 1000 if region == "header" else len(good) // 2)
        until(lambda: repaired(server.url) == 1)
        begun = scrubbed(server.url)
        until(lambda: scrubbed(server.url) > begun)
        until(lambda: damaged(server.url)["changes"] == 0)
        assert 1 == repaired(server.url)
        [page] = [operate(server.url, "Changes", TableNames=["Cars"])["Changes"]]
        assert KEYS == [change["keys"]["pk"]["S"] for change in page]
        server.terminate()
    assert good[:1001] == path.read_bytes()[:1001]
    assert "the changes in changes/0/" in server.said
    assert f"{path} was rebuilt from the log" in server.said


def repaired(url: str) -> Any:
    return read(url)["foldb_feed_repaired_segments_total{partition=0}"]
