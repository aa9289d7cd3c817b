"""ItemHistory and TableDifferences of a served database: beside reads at positions, in pages, and their errors."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

import foldb
from foldb.cli.lib.client import Client
from foldb.cli.lib.differences import Pages
from foldb.cli.lib.errors import RequestFailedError
from foldb.embedded import Server
from tests.support.tables import table_request

KEYS = [{"pk": {"S": str(number)}} for number in range(4)]
TABLES = ("Cars", "Bikes")


class Run:
    """Random writes to two tables, and the position of each successful one.

    Attributes:
        written: By table and key: the position and the item after each write that changed it; None if it was removed.
        refused: By table and key: the number of refused writes.
    """

    def __init__(self, dynamodb: Any, seed: int) -> None:
        self.written: dict[tuple[str, str], list[bytes | Any]] = {}
        self.refused: dict[tuple[str, str], int] = {}
        self.transactions = 0
        self._dynamodb = dynamodb
        self._dice = random.Random(seed)
        for name in TABLES:
            dynamodb.create_table(**table_request(name, "pk:S"))
        for _ in range(60):
            self._step()

    def _step(self) -> None:
        dice = self._dice
        names = [
            (dice.choice(TABLES), key["pk"]["S"]) for key in dice.sample(KEYS, dice.choice([1, 1, 1, 3]))
        ]
        items = [{"pk": {"S": pk}, "n": {"N": str(dice.randrange(10**6))}} for _, pk in names]
        when = dice.choice([{}, {}, {"ConditionExpression": "attribute_exists(pk)"}])
        puts = [
            {"TableName": table, "Item": item, **when} for (table, _), item in zip(names, items, strict=True)
        ]
        try:
            if len(names) > 1:
                self._dynamodb.transact_write_items(TransactItems=[{"Put": put} for put in puts])
                self.transactions += 1
            elif dice.random() < 0.2:
                self._dynamodb.delete_item(TableName=names[0][0], Key={"pk": {"S": names[0][1]}}, **when)
                items = [None]  # type: ignore[list-item]
            else:
                self._dynamodb.put_item(**puts[0])
        except ClientError:
            for name in names:
                self.refused[name] = self.refused.get(name, 0) + 1
            return
        for name, item in zip(names, items, strict=True):
            before = self.written.setdefault(name, [])
            if item is not None or (before and before[-1] is not None):
                before.append(item)


@pytest.fixture(params=["memory-1", "memory-4", "folder-4"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    kind, _, partitions = request.param.partition("-")
    path = None if kind == "memory" else tmp_path / "data"
    with foldb.serve(path, partitions=int(partitions), fsync="never") as server:
        yield server


@pytest.fixture
def admin(server: Server) -> Iterator[Client]:
    client = Client(server.endpoint_url)
    yield client
    client.close()


@pytest.mark.spec("H5")
def test_histories_are_those_of_the_writes_and_of_past_reads(server: Server, admin: Client) -> None:
    dynamodb = boto3.client("dynamodb", **server.boto3)
    run = Run(dynamodb, seed=5)
    assert run.transactions
    assert run.refused

    for (table, pk), items in run.written.items():
        key = {"pk": {"S": pk}}
        pages = Pages(admin, "ItemHistory", {"TableName": table, "Key": key})
        versions = list(pages.entries("Versions"))
        applied = [version for version in versions if version["Kind"] != "refused"]
        assert items[::-1] == [version.get("Item") for version in applied]
        assert run.refused.get((table, pk), 0) == len(versions) - len(applied)
        older = None
        for version in reversed(applied):
            partition, colon, place = version["Position"].rpartition(":")
            offset = place.partition(".")[0]
            now = dynamodb.get_item(TableName=f"{table}@{version['Position']}", Key=key)
            assert version.get("Item") == now.get("Item")
            before = dynamodb.get_item(TableName=f"{table}@{partition}{colon}{int(offset) - 1}", Key=key)
            assert older == before.get("Item")
            older = version.get("Item")
    dynamodb.close()


@pytest.mark.spec("H6")
def test_differences_are_resumed_and_equal_to_two_scans(server: Server, admin: Client) -> None:
    dynamodb = boto3.client("dynamodb", **server.boto3)
    Run(dynamodb, seed=6)
    history = admin.admin("ItemHistory", {"TableName": "Cars", "Key": KEYS[0]})["Versions"]

    for since in (history[-1]["Time"], history[len(history) // 2]["Position"]):
        for other in ({}, {"OtherTable": "Bikes"}):
            body: dict[str, Any] = {"TableName": "Cars", "From": since, **other, "Limit": 2}
            found: list[Any] = []
            while True:
                page = admin.admin("TableDifferences", body)
                assert len(page["Differences"]) <= 2
                found += page["Differences"]
                if "Next" not in page:
                    break
                body |= {name: page[name] for name in ("From", "To", "Next")}
            old, new = (
                {item["pk"]["S"]: item for item in dynamodb.scan(TableName=f"{table}@{cut}")["Items"]}
                for table, cut in (("Cars", page["From"]), (other.get("OtherTable", "Cars"), page["To"]))
            )
            expected = {pk: (old.get(pk), new.get(pk)) for pk in old | new if old.get(pk) != new.get(pk)}
            assert expected == {each["Key"]["pk"]["S"]: (each.get("Old"), each.get("New")) for each in found}
            assert len(expected) == len(found)
    dynamodb.close()


@pytest.mark.parametrize(
    ("operation", "body", "text"),
    [
        ("ItemHistory", {"Key": KEYS[0]}, "TableName must be a string"),
        ("ItemHistory", {"TableName": "Cars"}, "ItemHistory takes the Key of an item"),
        ("ItemHistory", {"TableName": "Cars", "Key": {"n": {"N": "1"}}}, "does not match the schema"),
        (
            "ItemHistory",
            {"TableName": "Cars", "Key": KEYS[0], "Next": "1.0"},
            "Next must be that of the page",
        ),
        ("ItemHistory", {"TableName": "Cars", "Key": KEYS[0], "Limit": 0}, "Limit must be an integer from 1"),
        ("TableDifferences", {"TableName": "Cars"}, "From must be a string"),
        ("TableDifferences", {"TableName": "Cars", "From": "soon"}, "`soon` is not a cut"),
        (
            "TableDifferences",
            {"TableName": "Cars", "From": "-0", "Next": "1"},
            "Next must be that of the page",
        ),
        ("TableDifferences", {"TableName": "Boats", "From": "-0"}, "Boats did not exist at"),
        ("TableDifferences", {"TableName": "Cars", "From": "2999-01-01T00:00Z"}, "is in the future"),
        (
            "TableDifferences",
            {"TableName": "Cars", "From": "-0", "OtherTable": "Keyed"},
            "have different keys",
        ),
    ],
)
def test_a_request_that_cannot_be_is_refused(operation: str, body: dict[str, Any], text: str) -> None:
    with foldb.serve() as server:
        dynamodb = boto3.client("dynamodb", **server.boto3)
        dynamodb.create_table(**table_request("Cars", "pk:S"))
        dynamodb.create_table(**table_request("Keyed", "pk:N"))
        admin = Client(server.endpoint_url)
        with pytest.raises(RequestFailedError, match=text):
            admin.admin(operation, body)
        admin.close()
        dynamodb.close()
