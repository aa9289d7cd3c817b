"""A snapshot is copied from another node in portions; a node that fails or lies costs one more attempt."""

import asyncio
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import foldb
from foldb.log.local import LocalLog
from foldb.log.local.filesystem import SystemFilesystem
from foldb.materializer.snapshots import FOLDER, Snapshots, newest_positions
from foldb.model.errors import ServiceUnavailableError
from foldb.server.cluster import snapshot_transfer as transfer_module
from foldb.server.cluster.snapshot_transfer import SnapshotTransfer
from tests.behaviour.cli.conftest import at

PORTION = 300
GOOD, BAD = ("127.0.0.1", 1), ("127.0.0.1", 2)


def partitions_of(folder: Path) -> Any:
    disk = SystemFilesystem()
    return SimpleNamespace(
        snapshots=lambda _: Snapshots(folder, disk),
        newest_snapshots=lambda: newest_positions(folder, disk, 1),
        log=LocalLog.open_reader(folder),
    )


def load(folder: Path) -> None:
    with foldb.serve(folder, fsync="never") as server:
        assert 0 == at(server.endpoint_url)("sample", "load", "music").exit_code


class Peers:
    """A node without a snapshot, and two nodes with the same one, of which the bad node is asked first."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(transfer_module, "PORTION_BYTES", PORTION)
        load(folder / "theirs")
        shutil.copytree(folder / "theirs", folder / "ours")
        self.made = Snapshots(folder / "theirs", SystemFilesystem()).make(
            LocalLog.open_reader(folder / "theirs")
        )
        self.theirs = SnapshotTransfer(partitions_of(folder / "theirs"), self.call, self.figures)
        self.ours = SnapshotTransfer(partitions_of(folder / "ours"), self.call, self.figures)
        self.folder = folder
        self.starts: list[tuple[Any, int]] = []
        self.fault = "none"

    def names(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "ours" / FOLDER).iterdir())

    async def figures(self) -> dict[Any, Any]:
        offered = {"snapshots": self.theirs.offsets()}
        return {GOOD: offered, BAD: offered, ("127.0.0.1", 3): None, ("127.0.0.1", 4): {"table": None}}

    async def call(self, address: Any, _: str, body: dict[str, Any]) -> Any:
        self.starts.append((address, body["start"]))
        answer = await self.theirs.serve(body)
        if address == BAD and body["start"] >= 2 * PORTION:
            match self.fault:
                case "it ends":
                    raise ServiceUnavailableError
                case "it sends nothing":
                    answer["data"] = b""
                case "it sends other bytes":
                    answer["data"] = bytes(len(answer["data"]))
        return answer


@pytest.fixture
def peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Peers:
    return Peers(tmp_path, monkeypatch)


def test_a_snapshot_is_copied_in_portions(peers: Peers) -> None:
    assert asyncio.run(peers.ours.fetch(0))

    assert [(BAD, start) for start in range(0, peers.made.bytes, PORTION)] == peers.starts
    assert peers.theirs.offsets() == peers.ours.offsets() == [(0, peers.made.head.offset)]


@pytest.mark.parametrize("fault", ["it ends", "it sends nothing", "it sends other bytes"])
def test_a_node_that_fails_is_replaced_by_another(peers: Peers, fault: str) -> None:
    peers.fault = fault

    assert asyncio.run(peers.ours.fetch(0))

    assert {BAD, GOOD} == {address for address, _ in peers.starts}
    assert [f"{peers.made.head.offset:020}.snapshot"] == peers.names()


def test_a_snapshot_of_another_log_is_not_kept(peers: Peers, tmp_path: Path) -> None:
    """The topic was deleted and created again, and another node has not been restarted since."""
    load(tmp_path / "again")
    again = SnapshotTransfer(partitions_of(tmp_path / "again"), peers.call, peers.figures)

    assert not asyncio.run(again.fetch(0))

    assert [] == again.offsets()
    assert [] == [*(tmp_path / "again" / FOLDER).iterdir()]
