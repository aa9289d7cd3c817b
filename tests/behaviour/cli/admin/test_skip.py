"""`foldb log skip`: a log at which the fold stopped is served again, without the command that stopped it."""

import json
from collections.abc import Collection
from pathlib import Path

import pytest
from typer.testing import Result

import foldb
from foldb.log.commands import Put, Record
from foldb.log.local import LocalLog
from foldb.materializer import refold
from foldb.materializer.fold.fold_record import Void, fold
from foldb.materializer.fold.outcomes import Outcome
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.refold import FoldError
from tests.behaviour.cli.conftest import Foldb, at, lines
from tests.support.raw import ask
from tests.support.tables import table_request


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a database of two items, each put in an entry of its own."""
    folder = tmp_path / "data"
    with foldb.serve(folder, fsync="never") as server:
        cli = at(server.endpoint_url)
        cli("table", "create", "Cars", "pk:S")
        for name in ("first", "second"):
            assert 0 == put(cli, name).exit_code
    return folder


@pytest.fixture
def broken(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Plant a bug with which the fold stops at a put, and return the position of the put."""

    def raise_at_third(state: PartitionState, record: Record, void: Collection[Void] = ()) -> list[Outcome]:
        if puts(record, b"third") and record.offset not in {offset for offset, _ in void}:
            raise KeyError("a bug")
        return fold(state, record, void)

    monkeypatch.setattr(refold, "fold", raise_at_third)
    with pytest.raises(FoldError), foldb.serve(folder) as server:
        assert 8 == put(at(server.endpoint_url), "third").exit_code
    return f"{where_is(folder, b'third')}.0"


def put(cli: Foldb, name: str) -> Result:
    return cli("item", "put", "Cars", json.dumps({"pk": name}))


def where_is(folder: Path, name: bytes) -> int:
    """Return the offset of the entry that puts an item."""
    for record in LocalLog.open_reader(folder).read(0):
        if puts(record, name):
            return record.offset
    raise AssertionError("nobody put it")


def puts(record: Record, name: bytes) -> bool:
    return any(isinstance(command, Put) and name in command.item for command in record.entry.commands)


def keys(cli: Foldb) -> list[str]:
    return sorted(item["pk"] for item in lines(cli("scan", "Cars")))


def test_a_log_with_an_unfoldable_command_is_served_once_it_is_void(folder: Path, broken: str) -> None:
    with pytest.raises(FoldError):
        foldb.serve(folder)

    [plan] = lines(at(folder)("log", "skip", broken, "--dry-run"))
    assert ("declare void", ["Put"], 1) == (plan["change"], plan["commands"], plan["count"])
    with pytest.raises(FoldError):
        foldb.serve(folder)
    skipped = at(folder)("log", "skip", broken, "--yes")

    assert {"void": broken, "commands": ["Put"]}.items() <= lines(skipped)[0].items()
    assert ["first", "second"] == keys(at(folder))
    assert 0 == put(at(folder), "fourth").exit_code
    assert 0 == at(folder)("verify").exit_code


def test_a_release_without_the_bug_passes_over_it_too(folder: Path) -> None:
    """The content of a table must not depend on whether a node could fold the command."""
    assert 0 == at(folder)("log", "skip", str(where_is(folder, b"second")), "--force", "--yes").exit_code

    assert ["first"] == keys(at(folder))
    assert 0 == at(folder)("verify").exit_code  # although the log records a digest from before


def test_a_command_that_folds_cannot_be_declared_void(folder: Path) -> None:
    refused = at(folder)("log", "skip", str(where_is(folder, b"second")), "--yes")

    assert 2 == refused.exit_code
    assert "the log folds to its end" in refused.stderr
    assert ["first", "second"] == keys(at(folder))


def test_another_place_than_where_the_fold_stops_is_refused(folder: Path, broken: str) -> None:
    for position in ("3", "3.0"):
        refused = at(folder)("log", "skip", position, "--yes")
        assert 2 == refused.exit_code
        assert f"the log stops at @{broken.partition('.')[0]}: @{position} does not stop it" in refused.stderr


def test_it_is_asked_before_and_nothing_is_done_without_a_yes(folder: Path) -> None:
    before = LocalLog.open_reader(folder).end(0)
    refused = at(folder)("log", "skip", "3", "--force", stdin="n\n")

    assert 130 == refused.exit_code
    assert "Declare @3 (" in refused.stderr
    assert before == LocalLog.open_reader(folder).end(0)


@pytest.mark.parametrize(
    ("position", "code", "says"),
    [
        ("0", 2, "Genesis cannot be void"),
        ("99999", 3, "there is no entry @99999"),
        ("3.7", 3, "none with the index 7"),
        ("1:3", 2, "is not a position of this log"),
        ("soon", 2, "`soon` is not a position"),
    ],
)
def test_a_missing_command_cannot_be_declared_void(folder: Path, position: str, code: int, says: str) -> None:
    result = at(folder)("log", "skip", position, "--yes")

    assert code == result.exit_code
    assert says in result.stderr


def test_a_folder_that_is_served_is_refused(folder: Path) -> None:
    with foldb.serve(folder):
        result = at(folder)("log", "skip", "3", "--force", "--yes")

    assert 8 == result.exit_code
    assert "another process" in result.stderr


def test_log_cat_passes_over_a_snapshot_of_void_records(folder: Path) -> None:
    """The record was folded into the snapshot, and was declared void after that."""
    cli = at(folder)
    at_first = where_is(folder, b"first")
    assert 0 == cli("snapshot", "make").exit_code
    assert 0 == cli("log", "skip", str(at_first), "--force", "--yes").exit_code
    assert 0 == put(cli, "third").exit_code
    last = str(where_is(folder, b"third"))

    rows = lines(cli("log", "cat", "--from", last))

    for path in (folder / "snapshots").glob("*.snapshot"):
        path.unlink()
    assert lines(cli("log", "cat", "--from", last)) == rows
    assert "applied" == rows[0]["outcome"]


def test_a_command_that_sent_messages_cannot_be_void(tmp_path: Path) -> None:
    """Without it the partition would number its later messages again, and the receivers would ignore some of them."""
    with foldb.serve(tmp_path, fsync="never", partitions=2) as server:
        request = table_request("Cars", "pk:S", gsi={"by-kind": "kind:S"})
        assert ask(server.endpoint_url, "CreateTable", request).status == 200
        items = [{"pk": {"S": f"{n}"}, "kind": {"S": "k"}} for n in range(8)]
        answers = [ask(server.endpoint_url, "PutItem", {"TableName": "Cars", "Item": each}) for each in items]
    positions = [each.headers["x-foldb-position"] for each in answers]

    skipped = [at(tmp_path)("log", "skip", each, "--force", "--yes") for each in positions]

    refused = [each for each in skipped if each.exit_code == 2]
    assert all("other partitions have folded messages that depend on" in each.stderr for each in refused)
    partitions = {position.partition(":")[0] for position in positions}
    assert partitions == {"1", "2"}
    [sender] = {
        position.partition(":")[0]
        for position, each in zip(positions, skipped, strict=True)
        if each in refused
    }
    assert len(refused) == sum(position.startswith(f"{sender}:") for position in positions)
    with foldb.serve(tmp_path, fsync="never") as server:
        cli = at(server.endpoint_url)
        assert len(refused) == len(keys(cli)) == len(lines(cli("scan", "Cars", "--index", "by-kind")))
        assert 0 == cli("verify").exit_code
