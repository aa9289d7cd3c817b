"""Snapshots of a log with several partitions: each partition has its own, and starts from it independently."""

import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import foldb
from foldb.cli.lib.client import Client
from foldb.log.local import LocalLog
from foldb.log.local.filesystem import SystemFilesystem
from foldb.materializer.fold.dump import digest
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.owner.relays import Relays
from foldb.materializer.refold import refold_log
from foldb.materializer.snapshots import Snapshots, newest_positions, snapshots_of_each
from tests.support.served import served
from tests.support.tables import table_request

PARTITIONS = 3
NUMBERS = range(PARTITIONS + 1)

Connect = Callable[[str], Any]


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory, connect: Connect) -> Path:
    """A database of several partitions that was stopped with messages in flight."""
    folder = tmp_path_factory.mktemp("left")
    with foldb.serve(folder, partitions=PARTITIONS) as server, pytest.MonkeyPatch.context() as patch:
        client = connect(server.endpoint_url).meta.client
        client.create_table(**table_request("Things", "pk:S", gsi={"by-kind": "kind:S"}))
        patch.setattr(Relays, "send", lambda _: None)
        make(folder)
        put(client, 0, 40)
        make(folder)
        put(client, 40, 60)
    return folder


@pytest.fixture
def folder(left: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    return Path(shutil.copytree(left, tmp_path / "data"))


def put(client: Any, start: int, stop: int) -> None:
    for n in range(start, stop):
        client.put_item(TableName="Things", Item={"pk": f"thing {n:02}", "kind": "one"})


def make(folder: Path) -> None:
    for snapshots in snapshots_of_each(folder, SystemFilesystem(), len(NUMBERS)):
        snapshots.make(LocalLog.open_reader(folder))


def started(folder: Path, number: int) -> tuple[int, PartitionState]:
    """Return the offset from which a partition's start continues, and the resulting state."""
    log = LocalLog.open_reader(folder)
    start = Snapshots(folder, SystemFilesystem(), number, len(NUMBERS)).load_newest(log)
    offset = start.state.next_offset
    refold_log(start.state, log, number)
    return offset, start.state


def refolded(folder: Path) -> Iterator[PartitionState]:
    log = LocalLog.open_reader(folder)
    for number in NUMBERS:
        state = PartitionState()
        refold_log(state, log, number)
        yield state


def test_each_partition_starts_from_its_own_snapshot_and_its_own_tail(folder: Path) -> None:
    starts = [started(folder, number) for number in NUMBERS]

    assert all(offset > 0 for offset, _ in starts)
    assert [digest(state) for state in refolded(folder)] == [digest(state) for _, state in starts]


def test_a_snapshot_holds_unacknowledged_messages(folder: Path) -> None:
    """The count excludes messages of the tail: these were sent before the snapshot."""
    log = LocalLog.open_reader(folder)
    states = [
        each.load_newest(log).state for each in snapshots_of_each(folder, SystemFilesystem(), len(NUMBERS))
    ]

    assert sum(len(outbox.unacknowledged) for state in states for outbox in state.outboxes.values()) > 0


def test_a_start_from_snapshots_sends_pending_messages(folder: Path, connect: Connect) -> None:
    with served(folder) as url:
        client, admin = connect(url).meta.client, Client(url)
        admin.admin("Wait", {"Position": admin.admin("Status")["Position"]})
        admin.close()

        assert 60 == client.scan(TableName="Things", IndexName="by-kind")["Count"]


def test_the_snapshot_of_one_partition_is_not_taken_for_anothers(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    theirs, ours = (Snapshots(folder, SystemFilesystem(), number, len(NUMBERS)) for number in (1, 2))
    offset = theirs.offsets()[0]
    for old in ours.offsets():
        ours.path(old).unlink()
    theirs.path(offset).rename(ours.path(offset))
    with caplog.at_level(logging.WARNING):
        start = ours.load_newest(LocalLog.open_reader(folder))

    assert start.head is None
    assert "its name states another position than its head, 1:" in caplog.text


def test_the_newest_position_of_each_partition_is_returned(folder: Path) -> None:
    assert [*NUMBERS] == [
        position.partition for position in newest_positions(folder, SystemFilesystem(), len(NUMBERS))
    ]
    assert [] == newest_positions(folder, SystemFilesystem(), 1)
