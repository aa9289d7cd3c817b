"""`foldb table purge`: all items are deleted by ordinary writes, and the table stays."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import foldb
from foldb.cli.lib.client import Client
from foldb.cli.lib.errors import CommandError, ExitCode
from tests.behaviour.cli.conftest import Foldb, at, lines


def fill(cli: Foldb, count: int, table: str = "Cars") -> None:
    items = "\n".join(f'{{"name": "car {n}", "size": {n}, "colour": "c{n % 3}"}}' for n in range(count))
    assert 0 == cli("item", "put", table, "-", stdin=items).exit_code


@pytest.fixture
def cars(cli: Foldb) -> Foldb:
    """Return the command line on a table whose key attributes are reserved words."""
    cli("table", "create", "Cars", "name:S", "size:N", "--gsi", "colours=colour:S", "--stream")
    fill(cli, 60)
    return cli


def test_streams_and_history_see_each_delete_of_a_purge(cars: Foldb) -> None:
    assert [{"table": "Cars", "deleted": 60}] == lines(cars("table", "purge", "Cars", "--yes"))

    assert [] == lines(cars("scan", "Cars")) + lines(cars("query", "Cars", "c1", "--index", "colours"))
    removed = lines(cars("stream", "tail", "--table", "Cars", "--on", "REMOVE"))
    assert {f"car {n}" for n in range(60)} == {each["old"]["name"] for each in removed}
    [newest] = lines(cars("item", "history", "Cars", "car 7", "7", "--limit", "1"))
    assert ("remove", "purge of Cars") == (newest["kind"], newest["reason"])
    before = int(removed[0]["position"].split(".")[0]) - 1
    assert 60 == lines(cars("count", "Cars", "--as-of", str(before)))[0]["count"]


def test_a_reason_of_the_user_follows_that_of_the_purge(cars: Foldb) -> None:
    cars("table", "purge", "Cars", "--yes", "--why", "ticket 7")

    [newest] = lines(cars("item", "history", "Cars", "car 7", "7", "--limit", "1"))
    assert "purge of Cars: ticket 7" == newest["reason"]


@pytest.mark.parametrize(("flag", "code"), [("--dry-run", ExitCode.DONE), ("--no-input", ExitCode.USAGE)])
def test_a_purge_without_consent_deletes_nothing(cars: Foldb, flag: str, code: ExitCode) -> None:
    purged = cars("table", "purge", "Cars", flag)

    assert code == purged.exit_code
    assert 60 == lines(cars("count", "Cars"))[0]["count"]
    if code is ExitCode.DONE:
        assert [{"change": "purge the table", "table": "Cars", "items": 60}] == lines(purged)


def test_an_interrupted_purge_is_continued_by_the_next(cars: Foldb, monkeypatch: pytest.MonkeyPatch) -> None:
    call, batches = Client.call, iter(range(99))

    def fails_at_the_second(self: Client, operation: str, body: Mapping[str, Any]) -> dict[str, Any]:
        if operation == "BatchWriteItem" and next(batches) == 1:
            raise CommandError("cannot reach the server", ExitCode.UNREACHABLE)
        return call(self, operation, body)

    with monkeypatch.context() as patch:
        patch.setattr(Client, "call", fails_at_the_second)
        first = cars("table", "purge", "Cars", "--yes")

    assert ExitCode.PARTLY == first.exit_code
    assert "25 items were deleted before it; to run it again is harmless" in first.stderr
    assert [{"table": "Cars", "deleted": 35}] == lines(cars("table", "purge", "Cars", "--yes"))


def test_a_purge_while_others_write_deletes_all_that_was_there(tmp_path: Path) -> None:
    with foldb.serve(tmp_path / "data", fsync="never", partitions=4) as server:
        cli = at(server.endpoint_url)
        cli("table", "create", "Cars", "name:S", "size:N")
        fill(cli, 300)
        ended = threading.Event()

        def write() -> int:
            client, count = Client(server.endpoint_url), 0
            while not ended.is_set():
                item = {"name": {"S": f"new {count}"}, "size": {"N": "1"}}
                client.call("PutItem", {"TableName": "Cars", "Item": item})
                count += 1
            client.close()
            return count

        writer = threading.Thread(target=write)
        writer.start()
        [purged] = lines(cli("table", "purge", "Cars", "--yes"))
        ended.set()
        writer.join()

        assert purged["deleted"] >= 300
        assert not [item for item in lines(cli("scan", "Cars", "--all")) if item["name"].startswith("car")]


def test_a_purge_of_no_table_names_the_next_step(cli: Foldb) -> None:
    refused = cli("table", "purge", "Nowhere", "--yes")

    assert ExitCode.NOT_FOUND == refused.exit_code
    assert "`foldb table list` lists the tables." in refused.stderr
