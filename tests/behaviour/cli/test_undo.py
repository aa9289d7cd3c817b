"""`foldb undo`: a command, a transaction or a writer is undone by ordinary writes."""

import asyncio
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pytest
from typer.testing import CliRunner, Result

import foldb
from foldb.cli.lib.client import Client
from foldb.cli.lib.errors import RequestFailedError
from foldb.cli.main import app
from foldb.materializer.fold.outcomes import Outcome
from foldb.materializer.history.requests import ReadVersions
from foldb.server.api.admin import undo as undo_operation
from foldb.server.api.admin.history import read_partition
from tests.support.subscribed import until
from tests.support.tables import table_request

TABLES = ("Orders", "Stock")


class Shop:
    """A served database with two tables, and its writers. Without --keys a principal is any access key id."""

    def __init__(self, server: Any, folder: Path, *, is_new: bool = True) -> None:
        self.server = server
        self.folder = folder
        self.client = self.writer("alice")
        for name in TABLES if is_new else ():
            self.client.create_table(**table_request(name, "pk:S"))

    def writer(self, principal: str) -> Any:
        arguments = self.server.boto3 | {"aws_access_key_id": principal}
        return boto3.client("dynamodb", **arguments)

    def put(self, key: str, n: int, principal: str = "alice", table: str = "Orders") -> str:
        item = {"pk": {"S": key}, "n": {"N": str(n)}}
        return _position(self.writer(principal).put_item(TableName=table, Item=item))

    def items(self, table: str = "Orders") -> dict[str, int]:
        found = self.client.scan(TableName=table, ConsistentRead=True)["Items"]
        return {item["pk"]["S"]: int(item["n"]["N"]) for item in found}

    def run(self, *arguments: str) -> Result:
        return CliRunner(env={"FOLDB_DB": self.server.endpoint_url}).invoke(
            app, arguments, prog_name="foldb", catch_exceptions=False
        )

    def undo(self, *arguments: str) -> list[dict[str, Any]]:
        result = self.run("undo", *arguments, "--yes")
        assert result.exit_code == 0, result.output
        return [json.loads(line) for line in result.stdout.splitlines()]


def _position(answer: dict[str, Any]) -> str:
    text: str = answer["ResponseMetadata"]["HTTPHeaders"]["x-foldb-position"]
    return text


@pytest.fixture(params=[1, 3], ids=["one partition", "three"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    with foldb.serve(tmp_path / "data", fsync="never", partitions=request.param) as server:
        yield Shop(server, tmp_path / "data")


def test_a_put_an_update_and_a_delete_are_undone(shop: Shop) -> None:
    first = shop.put("new", 1)
    shop.put("old", 2)
    second = shop.put("old", 3)
    shop.put("gone", 4)
    third = _position(shop.client.delete_item(TableName="Orders", Key={"pk": {"S": "gone"}}))

    rows = [shop.undo(position)[0] for position in (first, second, third)]

    assert {"old": 2, "gone": 4} == shop.items()
    assert ["remove", "put", "put"] == [row["change"] for row in rows]
    assert {"pk": "old", "n": 3} == rows[1]["present"]
    assert {"pk": "old", "n": 2} == rows[1]["restored"]
    assert "alice" == rows[0]["principal"]


def test_an_undo_can_be_undone(shop: Shop) -> None:
    shop.put("a", 1)
    position = shop.put("a", 2)
    shop.undo(position)
    [last] = [row for row in _history(shop) if row.get("source") == "undo" and row["command"] == "Put"][-1:]
    shop.undo(_versions(shop, "a")[0]["Position"])

    assert {"a": 2} == shop.items()
    assert f"undo of {position}" == last["reason"]


def _history(shop: Shop) -> list[dict[str, Any]]:
    result = shop.run("log", "cat", str(shop.folder))
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def _versions(shop: Shop, key: str) -> list[dict[str, Any]]:
    """Return the versions of an item. Over partitions, log time may be some milliseconds ahead of the clock."""
    node = shop.server._serving.node
    until(lambda: all(state.log_time < node.clock() for state in node.partitions.states()))
    client = Client(shop.server.endpoint_url)
    answer = client.admin("ItemHistory", {"TableName": "Orders", "Key": {"pk": {"S": key}}})
    client.close()
    versions: list[dict[str, Any]] = answer["Versions"]
    return versions


def _transaction(shop: Shop, keys: str, n: int) -> str:
    actions = [
        {"Put": {"TableName": table, "Item": {"pk": {"S": key}, "n": {"N": str(n)}}}}
        for key in keys
        for table in TABLES
    ]
    return _position(shop.client.transact_write_items(TransactItems=actions))


def _has_table(shop: Shop, name: str) -> bool:
    return name in shop.client.list_tables()["TableNames"]


def _undo_after(
    change: Callable[[], object], shop: Shop, position: str, monkeypatch: pytest.MonkeyPatch
) -> Result:
    """Undo a transaction, with a change by another client between the plan of the server and its transaction."""
    submit = undo_operation._submit

    async def change_before(*arguments: Any) -> Outcome:
        await asyncio.to_thread(change)
        return await submit(*arguments)

    monkeypatch.setattr(undo_operation, "_submit", change_before)
    return shop.run("undo", position, "--yes")


@pytest.mark.parametrize("named", ["transaction", "version"])
def test_a_transaction_is_undone_as_a_whole(shop: Shop, named: str) -> None:
    """Its position is that of its Transact, or of the record that wrote one of its versions."""
    shop.put("a", 1)
    _transaction(shop, "abcd", 7)
    newest = _versions(shop, "b")[0]
    position = newest["Transaction"]["Position"] if named == "transaction" else newest["Position"]

    rows = shop.undo(position, "--why", "ticket 7")

    assert ({"a": 1}, {}) == (shop.items(), shop.items("Stock"))
    assert 8 == len(rows)
    reasons = {row.get("reason") for row in _history(shop) if row.get("source") == "undo"}
    assert {f"undo of {position}: ticket 7"} == reasons


def test_a_key_that_changed_since_is_a_conflict(shop: Shop) -> None:
    _transaction(shop, "abc", 7)
    position = _versions(shop, "b")[0]["Transaction"]["Position"]
    shop.put("b", 8, "bob")

    refused = shop.run("undo", position, "--yes")
    assert 4 == refused.exit_code
    assert "nothing was done, because 1 item changed since. Give --skip-conflicts" in refused.stderr
    [conflict] = [row for row in map(json.loads, refused.stdout.splitlines()) if row["change"] == "conflict"]
    assert ("bob", {"pk": "b"}) == (conflict["principal"], conflict["key"])
    assert {"a": 7, "b": 8, "c": 7} == shop.items()

    shop.undo(position, "--skip-conflicts")
    assert ({"b": 8}, {}) == (shop.items(), shop.items("Stock"))


def test_a_plan_that_changed_is_refused(shop: Shop) -> None:
    position = shop.put("a", 1)
    client = Client(shop.server.endpoint_url)
    plan = client.admin("Undo", {"Position": position, "DryRun": True})
    assert {"a": 1} == shop.items()
    assert "Applied" not in plan
    shop.put("a", 2)
    with pytest.raises(RequestFailedError, match="have changed since it was planned"):
        client.admin("Undo", {"Position": position, "Plan": plan["Plan"], "SkipConflicts": True})
    with pytest.raises(RequestFailedError, match="SkipConflicts reverts the others"):
        client.admin("Undo", {"Position": position})
    client.close()
    assert {"a": 2} == shop.items()


@pytest.mark.parametrize("removes", [False, True])
def test_a_key_that_changes_during_the_undo_is_kept(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, removes: bool
) -> None:
    """Another client writes it between the plan of the server and its transaction, which is refused as a whole."""
    if not removes:
        shop.put("a", 1)
        shop.put("b", 1)
    _transaction(shop, "ab", 7)
    position = _versions(shop, "a")[0]["Transaction"]["Position"]
    result = _undo_after(partial(shop.put, "b", 8, "bob"), shop, position, monkeypatch)

    assert 10 == result.exit_code
    assert 4 == result.stderr.count("not undone: ")
    assert {"a": 7, "b": 8} == shop.items()


def test_a_table_that_is_deleted_while_an_undo_is_planned_is_left_out(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    _transaction(shop, "ab", 7)
    position = _versions(shop, "a")[0]["Transaction"]["Position"]

    async def delete_before(database: Any, partition_id: int, cut: Any, request: Any, kind: Any) -> Any:
        if isinstance(request, ReadVersions) and await asyncio.to_thread(_has_table, shop, "Stock"):
            await asyncio.to_thread(shop.client.delete_table, TableName="Stock")
        return await read_partition(database, partition_id, cut, request, kind)

    monkeypatch.setattr(undo_operation, "read_partition", delete_before)
    rows = shop.undo(position)

    assert {("Orders", "a"), ("Orders", "b")} == {(row["table"], row["key"]["pk"]) for row in rows}
    assert {} == shop.items()


def test_a_table_that_is_deleted_after_the_plan_of_an_undo_is_not_undone(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    _transaction(shop, "ab", 7)
    position = _versions(shop, "a")[0]["Transaction"]["Position"]
    result = _undo_after(partial(shop.client.delete_table, TableName="Stock"), shop, position, monkeypatch)

    assert 10 == result.exit_code
    assert 4 == result.stderr.count("not undone: ")
    assert {"a": 7, "b": 7} == shop.items()


def test_a_writer_is_undone_to_the_last_write_of_another(shop: Shop) -> None:
    shop.put("before", 1, "mallory")
    shop.put("mine", 1)
    begin = shop.put("last", 1)
    for key in ("before", "mine", "new", "contested"):
        shop.put(key, 66, "mallory")
        shop.put(key, 67, "mallory")
    shop.put("shared", 68, "mallory")
    shop.put("shared", 2, "bob")
    shop.put("shared", 69, "mallory")
    shop.put("contested", 3, "bob")
    shop.put("honest", 4, "bob")

    at_begin = _time(shop, begin)
    rows = shop.undo("--by", "mallory", "--from", at_begin)

    changes = {(row["change"], row["key"]["pk"]) for row in rows}
    assert {
        ("put", "before"), ("put", "mine"), ("remove", "new"), ("put", "shared"), ("conflict", "contested"),
    } == changes  # fmt: skip
    expected = {"before": 1, "mine": 1, "last": 1, "shared": 2, "contested": 3, "honest": 4}
    assert expected == shop.items()


def _time(shop: Shop, position: str) -> str:
    """Return the log time of a position. The next write has a later one."""
    [row] = [row for row in _history(shop) if row["position"] == position]
    text: str = row["time"]
    while True:  # log time is in milliseconds, and several writes may share one
        last = shop.put("clock", 0, table="Stock")
        if next(row for row in _history(shop) if row["position"] == last)["time"] > text:
            return text


def test_more_than_a_hundred_items_are_several_transactions(shop: Shop) -> None:
    begin = _time(shop, shop.put("first", 1))
    writer = shop.writer("mallory")
    for start in range(0, 130, 25):
        keys = range(start, min(start + 25, 130))
        requests = [{"PutRequest": {"Item": {"pk": {"S": f"k{n}"}, "n": {"N": "9"}}}} for n in keys]
        writer.batch_write_item(RequestItems={"Orders": requests})

    asked = shop.run("undo", "Orders", "--by", "mallory", "--from", begin, "--no-input")
    assert "remove 130 items? These are 2 transactions: others see the states between" in asked.stderr
    shop.undo("Orders", "--by", "mallory", "--from", begin)
    assert {"first": 1} == shop.items()


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ((), 2, "give a POSITION, or --by PRINCIPAL"),
        (("--by", "bob"), 2, "--by needs --from CUT"),
        (("--from", "-1h"), 2, "give a POSITION, or --by PRINCIPAL"),
        (("noon",), 7, "`noon` is not the position of a command"),
        (("7",), 7, "is not the position of a command, such as"),
        (("--by", "bob", "--from", "noon"), 2, "`noon` is not a cut"),
        (("--by", "bob", "--from", "-0"), 3, "there is no item to undo"),
    ],
)
def test_a_request_without_an_undo_says_why(
    tmp_path: Path, arguments: tuple[str, ...], code: int, says: str
) -> None:
    with foldb.serve() as server:
        result = Shop(server, tmp_path).run("undo", *arguments, "--yes")

    assert code == result.exit_code
    assert says in result.stderr


def test_an_undo_after_a_trim_finds_the_version_of_the_foundation(tmp_path: Path) -> None:
    """The command that wrote the version before was trimmed, with its principal."""
    data = tmp_path / "data"
    with foldb.serve(data, fsync="never", segment_bytes=20_000, stream_retention_ms=1) as server:
        shop = Shop(server, data)
        shop.put("kept", 1)
        for n in range(60):
            shop.client.put_item(TableName="Stock", Item={"pk": {"S": f"s{n}"}, "x": {"S": "x" * 900}})
        begin = shop.run("log", "head", "-o", "json")
    trimmed = CliRunner(env={"FOLDB_DB": str(data)}).invoke(
        app, ["log", "trim", "--before", "50", "--yes"], prog_name="foldb", catch_exceptions=False
    )
    assert trimmed.exit_code == 0, trimmed.output
    with foldb.serve(data, fsync="never") as server:
        again = Shop(server, data, is_new=False)
        position = again.put("kept", 2)
        again.undo(position)
        assert {"kept": 1} == again.items()
        again.put("kept", 3, "mallory")
        again.undo("--by", "mallory", "--from", json.loads(begin.stdout)[0]["position"], "Orders")
        assert {"kept": 1} == again.items()
