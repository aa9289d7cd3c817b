"""The log read by the command line: cat, tail, stats, verify."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import foldb
from foldb.log.commands import Digest, Entry, Record
from foldb.log.local import LocalLog
from foldb.materializer.fold.dump import digest
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.refold import fold_record, refold
from tests.behaviour.cli.conftest import Foldb, at, lines
from tests.support.served import foldb as run
from tests.support.served import served
from tests.unit.materializer.generate_golden import GOLDEN


@pytest.fixture
def story(cli: Foldb) -> Foldb:
    """Write a put, a refused put, an update and a delete of one item, and a refused transaction."""
    item = '{"id": 1, "text": "' + "x" * 1500 + '"}'
    cli("table", "create", "Notes", "id:N")
    cli("item", "put", "Notes", item)
    cli("item", "put", "Notes", '{"id": 1}', "--if", "attribute_not_exists(id)")
    cli("item", "update", "Notes", "1", "--set", "n = 1")
    cli("item", "delete", "Notes", "1")
    put = '{"put": {"table": "Notes", "item": {"id": 2}}}'
    check = '{"check": {"table": "Notes", "key": {"id": 3}, "if": "n = 1"}}'
    cli("tx", "-", stdin=f"[{put}, {check}]")
    return cli


def test_log_cat_prints_each_request_with_its_outcome(story: Foldb) -> None:
    reported = lines(story("log", "cat"))

    assert [
        ("0.0", "Genesis", "done"),
        ("1.0", "DefineTable", "done"),
        ("2.0", "Put", "applied"),
        ("3.0", "Put", "refused"),
        ("4.0", "Update", "applied"),
        ("5.0", "Delete", "applied"),
        ("6.0", "Put", "refused"),
        ("6.0", "Check", "refused"),
    ] == [(row["position"], row["command"], row["outcome"]) for row in reported]
    put, refused, update, delete = reported[2:6]
    assert (None, 1) == (put["old"], put["new"]["id"])
    assert ("Notes", {"id": 1}, "api") == (put["table"], put["key"], put["source"])
    assert {"key"} == {row["principal"] for row in reported[1:]}
    assert "principal" not in reported[0]
    assert ("SET n = :_1", {":_1": 1}) == (update["update"], update["values"])
    assert (1, None) == (delete["old"]["n"], delete["new"])
    numbers = [row["sequence_number"] for row in (put, update, delete)]
    assert sorted(numbers) == numbers
    assert "ConditionalCheckFailedException: The conditional request failed" == refused["error"]


def test_log_cat_prints_reasons_digests_and_restores(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "004", tmp_path / "log")

    rows = lines(at(tmp_path / "log")("log", "cat"))

    [load, progress] = [
        next(row for row in rows if row["command"] == command and row["outcome"] == "done")
        for command in ("Load", "RestoreProgress")
    ]
    undone = next(row for row in rows if row["command"] == "Put" and "digest" in row)
    assert ("Restored", 3, "restore", "drill") == (
        load["table"],
        load["count"],
        load["source"],
        load["reason"],
    )
    assert ("Restored", "restore") == (progress["table"], progress["source"])
    assert isinstance(progress["done"], bool)
    assert isinstance(progress["cursor"], str)
    assert "undo" == undone["source"]
    assert undone["reason"] in {"wrong price", "é", ""}
    assert {"CreateBackup", "ForkTable"} <= {row.get("operation") for row in rows}


@pytest.mark.spec("S44", "S54")
def test_a_refused_write_has_its_units_in_the_log(story: Foldb) -> None:
    """1.5 KB in the way cost 2 units; each action of a transaction costs twice a write, refused too."""
    refused = [row for row in lines(story("log", "cat", "--table", "Notes")) if row["outcome"] == "refused"]

    assert [2, 2, 2] == [row["units"] for row in refused]


def test_cat_and_tail_show_the_part_that_was_asked_for(story: Foldb) -> None:
    assert ["3.0", "4.0"] == [
        row["position"] for row in lines(story("log", "cat", "--from", "3", "--to", "@4"))
    ]
    assert ["5.0", "6.0", "6.0"] == [row["position"] for row in lines(story("log", "tail", "-n", "3"))]
    assert 2 == story("log", "cat", "--from", "yesterday").exit_code


@pytest.fixture
def folds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the offsets of the records that the command line folds."""
    offsets: list[int] = []

    def counting(state: PartitionState, record: Record, void: Any) -> Any:
        offsets.append(record.offset)
        return fold_record(state, record, void)

    monkeypatch.setattr("foldb.cli.lib.log_history.fold_record", counting)
    return offsets


def test_cat_from_a_position_starts_at_a_snapshot(story: Foldb, folds: list[int]) -> None:
    """At the newest before it, and at no later one; the rows are those of a fold from the beginning."""
    whole = lines(story("log", "cat"))
    story("snapshot", "make")  # of 0 to 6
    for n in range(4):
        story("item", "put", "Notes", f'{{"id": {n}}}')
    story("item", "update", "Notes", "0", "--set", "n = 1")
    story("snapshot", "make")  # of 0 to 11
    story("item", "update", "Notes", "0", "--set", "n = 2")
    everything = lines(story("log", "cat"))
    assert whole == everything[: len(whole)]

    for begin, first in ((4, 0), (6, 0), (7, 7), (10, 7), (11, 7), (12, 12)):
        folds.clear()
        rows = lines(story("log", "cat", "--from", str(begin)))
        assert [row for row in everything if float(row["position"]) >= begin] == rows
        assert list(range(first, 13)) == folds


def test_cat_from_a_position_of_one_partition_reads_no_other(folder: Path, folds: list[int]) -> None:
    with served(folder, "--partitions", "2") as url:
        cli = at(url)
        assert 0 == cli("table", "create", "Notes", "id:N").exit_code
        for n in range(8):
            cli("item", "put", "Notes", f'{{"id": {n}}}')
        everything = lines(cli("log", "cat"))
        assert 0 == cli("snapshot", "make").exit_code
        cli("item", "put", "Notes", '{"id": 1, "n": 1}')
        last = lines(cli("log", "tail", "-n", "1"))[0]["position"]
        partition, _, place = last.partition(":")
        folds.clear()
        [row] = lines(cli("log", "cat", "--from", last))

    assert ("Notes", {"id": 1}) == (row["table"], row["key"])
    assert [int(place.partition(".")[0])] == folds
    assert len(everything) > 1
    assert partition in ("1", "2")


def test_cat_does_without_a_snapshot_that_is_damaged(
    story: Foldb, folder: Path, folds: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    everything = lines(story("log", "cat"))
    story("snapshot", "make")
    story("item", "put", "Notes", '{"id": 9}')
    [path] = (folder / "snapshots").glob("*.snapshot")
    path.write_bytes(path.read_bytes()[:-1])
    folds.clear()

    rows = lines(story("log", "cat", "--from", "7"))

    assert [{"id": 9}] == [row["key"] for row in rows]
    assert list(range(8)) == folds
    assert "skipping snapshot" in caplog.text
    assert 8 == len(everything)


def test_log_stats_count_the_records_of_a_log(story: Foldb, folder: Path) -> None:
    [stats] = lines(story("log", "stats", str(folder)))

    assert (7, 7) == (stats["entries"], stats["kinds"]["Genesis"] + sum(stats["kinds"].values()) - 2)
    assert {"done": 2, "applied": 3, "refused": 3} == stats["outcomes"]
    assert {"Notes": 0} == stats["tables"]
    assert sum(path.stat().st_size for path in folder.glob("*.avro")) >= stats["bytes"] > 0


@pytest.mark.spec("H2")
def test_verify_compares_the_log_with_the_server(story: Foldb) -> None:
    result = story("verify")

    assert "7 records · 1 digest compared · no difference\n" == result.stderr
    assert story("verify").stdout == result.stdout


@contextmanager
def rewritten(path: Path) -> Iterator[bytearray]:
    data = bytearray(path.read_bytes())
    yield data
    path.write_bytes(data)


def a_flipped_bit(data: bytearray) -> None:
    data[data.index(b"xxxx") + 700] ^= 1


def a_missing_block(data: bytearray) -> None:
    """Remove a block of 1,500 x, with everything before the next sync marker, which is the file's last 16 bytes."""
    marker = bytes(data[-16:])
    end = data.index(marker, data.index(b"xxxx")) + 16
    start = data.rindex(marker, 0, data.index(b"xxxx")) + 16
    del data[start:end]


@pytest.mark.spec("H2")
@pytest.mark.parametrize("damage", [a_flipped_bit, a_missing_block])
def test_verify_names_the_place_of_damage(folder: Path, damage: Callable[[bytearray], None]) -> None:
    with foldb.serve(folder, fsync="never") as server:
        cli = at(server.endpoint_url)
        cli("table", "create", "Notes", "id:N")
        for n in range(5):
            cli("item", "put", "Notes", f'{{"id": {n}, "text": "' + "x" * 1500 + '"}')
    [segment] = folder.glob("*.avro")
    with rewritten(segment) as data:
        damage(data)

    result = at(folder)("verify", str(folder))

    assert 9 == result.exit_code, result.output
    assert "at byte" in result.stderr


@pytest.mark.spec("H2")
@pytest.mark.parametrize("lie", [False, True])
def test_verify_finds_a_changed_meaning(folder: Path, lie: bool) -> None:
    """The log records a digest of itself. A release that folds the same records otherwise is found by it."""
    with foldb.serve(folder, fsync="never") as server:
        at(server.endpoint_url)("sample", "load", "music")
    log = LocalLog(
        folder, clock=lambda: 0, deliver=lambda call: call(), random_bytes=bytes, on_fatal=lambda error: None
    )
    state = PartitionState()
    refold(state, log.read(0))
    reported: list[Any] = []
    claimed = "0" * 64 if lie else digest(state)
    log.append(0, Entry(b"o" * 16, 0, [Digest(state.next_offset - 1, claimed)]), reported.append)
    log.close()

    result = at(folder)("verify", str(folder))

    assert (9 if lie else 0) == result.exit_code, result.output
    if lie:
        assert result.stderr.startswith(
            f"foldb: position {state.next_offset - 1}: the log records the digest 0000"
        )
    else:
        assert "2 digests compared · no difference" in result.stderr


def test_a_folder_without_a_log_is_said_so(tmp_path: Path) -> None:
    result = at(tmp_path)("log", "stats")

    assert (8, f"foldb: there is no log in {tmp_path}: give a folder that `foldb serve` has served\n") == (
        result.exit_code,
        result.stderr,
    )


def test_log_cat_prints_the_life_of_a_subscription() -> None:
    """Of a log that holds all kinds of commands; a sequence number is text, as in a stream."""
    said = run("log", "cat", GOLDEN / "003").stdout
    rows = [json.loads(line) for line in said.splitlines()]

    created = next(row for row in rows if row.get("operation") == "Create" and row["outcome"] == "done")
    checkpoint = next(row for row in rows if row["command"] == "Checkpoint")
    assert "DefineSubscription" == created["command"]
    assert (["T"], "R") == (created["request"]["TableNames"], created["subscription"])
    assert {"subscription", "epoch", "checkpoints", "handled", "dead", "outcome"} <= checkpoint.keys()
    assert all(number.isdigit() for number in checkpoint["checkpoints"].values())
