"""`foldb snapshot`, with a server and without one, and a start from its snapshots."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

import foldb
from foldb.cli.lib.client import Client
from foldb.log.local.filesystem import SystemFilesystem
from foldb.materializer.snapshot import load_state, read_head, write_snapshot
from tests.behaviour.cli.conftest import at, lines
from tests.support.served import Process, killed, served
from tests.support.served import foldb as command


def admin(url: str, operation: str) -> dict[str, Any]:
    client = Client(url)
    try:
        return client.admin(operation)
    finally:
        client.close()


def files(folder: Path) -> list[Path]:
    return sorted((folder / "snapshots").glob("*.snapshot"), reverse=True)


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def started(folder: Path) -> tuple[str, int]:
    """Return the digest of a server of the folder, and the number of commands that it folded."""
    with killed(folder) as url:
        return admin(url, "Digest")["Digest"], admin(url, "Status")["Refolded"]


@pytest.mark.guarantee("G16")
@pytest.mark.spec("H10")
def test_a_start_from_snapshot_and_tail_is_a_start_from_the_whole_log(folder: Path) -> None:
    """Written, snapshotted, written on, killed. One snapshot is damaged, then all are gone: it only takes longer."""
    with killed(folder) as url:
        db = at(url)
        lines(db("table", "create", "Notes", "id:N"))
        [first] = lines(db("snapshot", "make"))
        lines(db("item", "put", "Notes", '{"id": 1}'))
        [second] = lines(db("snapshot", "make", "--db", str(folder)))
        lines(db("item", "put", "Notes", '{"id": 2}'))
        lines(db("item", "delete", "Notes", "1"))
        expected = admin(url, "Digest")["Digest"]
        assert str(second["position"]) == admin(url, "Status")["Snapshot"]
    assert int(first["position"]) + 1 == int(second["position"])
    whole = int(second["position"]) + 3

    assert (expected, 2) == started(folder)
    damage(files(folder)[0])
    assert (expected, 3) == started(folder)
    for path in files(folder):
        path.unlink()
    assert (expected, whole) == started(folder)
    (folder / "snapshots" / "lock").unlink()
    (folder / "snapshots").rmdir()
    assert (expected, whole) == started(folder)


def test_a_server_says_which_snapshot_it_passed_over(folder: Path) -> None:
    with served(folder) as url:
        at(url)("sample", "load", "devices")
        at(url)("snapshot", "make")
    damage(files(folder)[0])

    with Process(folder) as server:
        server.kill()

    assert f"skipping snapshot {files(folder)[0]}: it is damaged" in server.said


def test_snapshots_are_listed_with_their_faults(folder: Path) -> None:
    with served(folder) as url:
        at(url)("sample", "load", "music")
        assert [] == lines(at(url)("snapshot", "list"))
        [older] = lines(at(url)("snapshot", "make"))
        lines(at(url)("item", "delete", "Music", "Arturus Ardvarkian", "Carrot Song"))
        [newer] = lines(at(url)("snapshot", "make"))
    size = files(folder)[0].stat().st_size
    damage(files(folder)[1])

    first, second = lines(at(folder)("snapshot", "list"))

    assert (newer["position"], newer["digest"], newer["items"], size, "intact") == (
        first["position"],
        first["digest"],
        first["items"],
        first["bytes"],
        first["state"],
    )
    assert (older["position"], older["items"]) == (second["position"], second["items"])
    assert "it is damaged: its digest is not that of its bytes" == second["state"]
    assert "2 snapshots · the log ends at @" in at(folder)("snapshot", "list").stderr


def test_the_configured_number_of_snapshots_is_kept(folder: Path) -> None:
    with served(folder) as url:
        db = at(url)
        lines(db("table", "create", "Notes", "id:N"))
        for number in range(4):
            lines(db("item", "put", "Notes", json.dumps({"id": number})))
            lines(db("snapshot", "make", "--keep", "3"))

        assert 3 == len(files(folder))
        assert [False] == [row["new"] for row in lines(db("snapshot", "make", "--keep", "1"))]
        assert 1 == len(files(folder))
        assert 2 == db("snapshot", "make", "--keep", "0").exit_code


def test_verify_compares_each_snapshot_with_the_log(folder: Path) -> None:
    with served(folder) as url:
        at(url)("sample", "load", "music")
        at(url)("snapshot", "make")
        [verified] = lines(at(url)("verify"))
    compared = verified["compared"]
    assert compared >= 2, "the server's digest and the snapshot's"

    damage(files(folder)[0])
    result = at(folder)("verify")

    assert 9 == result.exit_code
    assert f"the log is intact, but snapshots are damaged: {files(folder)[0]}: it is damaged" in result.stderr
    assert '"differences":0' in result.stdout


def test_verify_finds_a_snapshot_that_differs_from_its_log(folder: Path) -> None:
    """Whole, of this log, at its position, and yet another state: only a refold can tell."""
    with served(folder) as url:
        at(url)("sample", "load", "music")
        at(url)("snapshot", "make")
    disk, [path] = SystemFilesystem(), files(folder)
    file = disk.open(path)
    snapshot = read_head(file)
    state = load_state(snapshot)
    state.next_id += 1
    file.truncate(0)
    write_snapshot(file, snapshot.head, state)
    file.close()

    result = at(folder)("verify")

    assert 9 == result.exit_code
    assert re.match(r"foldb: position \d+: the snapshot has the digest \w+\.\.\.", result.stderr)


def test_a_server_has_snapshots_made_as_it_goes(folder: Path) -> None:
    with served(folder, "--snapshot-every", "10") as url:
        at(url)("sample", "load", "devices", "--events", "40")
        deadline = time.monotonic() + 60
        while admin(url, "Status")["Snapshot"] is None:
            assert time.monotonic() < deadline, "there is still none"
        position = int(admin(url, "Status")["Position"])
        assert "intact" == lines(at(folder)("snapshot", "list"))[0]["state"]

    digest, refolded = started(folder)
    assert refolded <= position
    [verified] = lines(at(folder)("verify"))
    assert digest == verified["digest"]


def test_a_kill_while_a_snapshot_is_made_loses_nothing(folder: Path) -> None:
    """The maker outlives its server and may still be at work when the next one starts."""
    with served(folder) as url:
        lines(at(url)("table", "create", "Notes", "id:N"))
    for cycle in range(4):
        with killed(folder, "--snapshot-every", "20") as url:
            items = "".join(f'{{"id": {cycle * 1000 + number}}}\n' for number in range(100))
            lines(at(url)("item", "put", "Notes", "-", stdin=items))
            deadline = time.monotonic() + 60
            while not (folder / "snapshots" / "lock").exists():
                assert time.monotonic() < deadline, "no maker has begun"

    digest, _ = started(folder)

    with killed(folder) as url:
        assert 400 == admin(url, "Status")["Items"]
        [verified] = lines(at(url)("verify"))
        assert digest == verified["digest"]


def test_a_server_that_shall_make_none_makes_none(folder: Path) -> None:
    with served(folder, "--snapshot-every", "0") as url:
        at(url)("sample", "load", "devices", "--events", "40")

    assert not (folder / "snapshots").exists()


def test_two_makers_at_once_are_one_too_many(folder: Path) -> None:
    with served(folder) as url:
        at(url)("snapshot", "make")
    lock = SystemFilesystem().lock(folder / "snapshots" / "lock", b"pid 7\n")
    result = at(folder)("snapshot", "make")
    lock.close()

    assert 8 == result.exit_code
    assert "another process (pid 7) is making a snapshot" in result.stderr


@pytest.mark.parametrize("action", ["make", "list"])
def test_where_there_is_no_database_there_are_no_snapshots(action: str, tmp_path: Path) -> None:
    result = command("snapshot", action, "--db", tmp_path / "none")

    assert 8 == result.returncode
    assert "there is no database in" in result.stderr
    assert [] == list(tmp_path.iterdir())


def test_a_database_in_memory_has_none() -> None:
    with foldb.serve() as server:
        result = at(server.endpoint_url)("snapshot", "make")

    assert 2 == result.exit_code
    assert "has its log in memory" in result.stderr


def test_a_disk_that_takes_nothing_is_one_sentence(folder: Path) -> None:
    with served(folder) as url:
        at(url)("sample", "load", "music")
    (folder / "snapshots").write_bytes(b"")

    result = at(folder)("snapshot", "make")

    assert 8 == result.exit_code
    assert f"foldb: cannot take a snapshot in {folder}: Not a directory. " in result.stderr
    assert 1 == result.stderr.count("\n")
