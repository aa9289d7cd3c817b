"""Writes of a trigger to foldb's tables inside `once` count once, however often a change is delivered."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import boto3
import pytest

import foldb
from foldb import Change, once
from foldb.streams.idempotent import MAX_WRITES, Writes, marker_table
from tests.support.tables import table_request
from tests.unit.streams.workers.working import Folder

COUNT = """
import os, random
from pathlib import Path
import boto3
from foldb import Change, once, trigger

totals = boto3.resource("dynamodb").Table("Totals")

def dies_once(trigger, change):
    # After it has written and before it has said so: that the change is delivered again cannot be known from outside.
    died = Path(os.environ["OUT"] + f".{trigger}.{change.sequence_number}")
    if not died.exists():
        died.touch()
        os._exit(1)

@trigger("Orders", backoff="0s..0s")
def counted_once(change: Change) -> None:
    with once(change) as writes:
        writes.update(TableName="Totals", Key={"name": "once"}, UpdateExpression="ADD n :n",
                      ExpressionAttributeValues={":n": change.new["n"]})
    if change.new["n"] % 4 == 0:
        dies_once("counted_once", change)

@trigger("Orders", backoff="0s..0s")
def counted(change: Change) -> None:
    totals.update_item(Key={"name": "often"}, UpdateExpression="ADD n :n",
                       ExpressionAttributeValues={":n": change.new["n"]})
    if change.new["n"] % 4 == 0:
        dies_once("counted", change)
"""


@pytest.mark.guarantee("G43")
def test_a_trigger_killed_after_its_write_writes_once(folder: Folder) -> None:
    """Without `once` the same trigger counts a repeated delivery again, so the test would detect it."""
    folder.write("app.py", COUNT)
    with foldb.serve(triggers=folder.path) as server:
        resource = boto3.resource("dynamodb", **server.boto3)
        resource.create_table(**table_request("Totals", "name:S"))
        orders = resource.create_table(**table_request("Orders", "id:S"))
        for n in range(12):
            orders.put_item(Item={"id": f"o-{n % 5}", "n": n})
        server.wait_for_triggers(60)
        totals = {item["name"]: item["n"] for item in resource.Table("Totals").scan()["Items"]}
        resource.meta.client.close()

    assert totals["once"] == sum(range(12))
    assert totals["often"] >= sum(range(12)) + 4 + 8


@pytest.fixture
def dynamodb_with_tables(dynamodb: Any) -> Any:
    for name in ("a", "b"):
        dynamodb.resource.create_table(**table_request(f"table-{name}", "id:S"))
    return dynamodb


def change(number: int, key: Any = "k", position: str = "") -> Change:
    return Change(
        "INSERT",
        {"id": key},
        table="Orders",
        sequence_number=number,
        position=position,
        subscription="orders",
    )


def test_a_block_writes_all_or_nothing(dynamodb_with_tables: Any) -> None:
    resource = dynamodb_with_tables.resource

    def one_is_invalid() -> None:
        with once(change(1), resource=resource) as writes:
            writes.put(TableName="table-a", Item={"id": "x"})
            writes.check(TableName="table-b", Key={"id": "y"}, ConditionExpression="attribute_exists(id)")

    def the_block_raises() -> None:
        with once(change(1), resource=resource) as writes:
            writes.put(TableName="table-a", Item={"id": "x"})
            raise ZeroDivisionError

    with pytest.raises(resource.meta.client.exceptions.TransactionCanceledException):
        one_is_invalid()
    with pytest.raises(ZeroDivisionError):
        the_block_raises()

    assert resource.Table("table-a").scan()["Count"] == 0
    assert resource.Table(marker_table("orders")).scan()["Count"] == 0


def add_one(counted: Change, resource: Any) -> None:
    """Count a change, like a trigger."""
    with once(counted, resource=resource) as writes:
        writes.update(
            TableName="table-a",
            Key={"id": "n"},
            UpdateExpression="ADD n :one",
            ExpressionAttributeValues={":one": 1},
        )


@pytest.mark.guarantee("G43")
def test_each_change_of_an_item_counts_once(dynamodb_with_tables: Any) -> None:
    resource = dynamodb_with_tables.resource

    for number, key in ((5, "k"), (5, "k"), (7, "k"), (5, "k"), (7, "k"), (5, "other")):
        add_one(change(number, key), resource)

    assert resource.Table("table-a").get_item(Key={"id": "n"})["Item"]["n"] == 3


def test_a_replay_counts_once_again(dynamodb_with_tables: Any) -> None:
    """A replay is a subscription of its own, made to rebuild an emptied table."""
    resource = dynamodb_with_tables.resource

    for subscription in ("orders", "orders.replay-1", "orders", "orders.replay-1"):
        add_one(replace(change(5), subscription=subscription), resource)

    assert resource.Table("table-a").get_item(Key={"id": "n"})["Item"]["n"] == 2


def test_each_partition_has_its_own_order(dynamodb_with_tables: Any) -> None:
    """A recreated table may have an item in another partition, where sequence numbers are lower."""
    resource = dynamodb_with_tables.resource

    for number, position in ((7, "1:7.0"), (5, "2:5.0"), (7, "1:7.0"), (6, "2:6.0"), (5, "2:5.0")):
        add_one(change(number, position=position), resource)

    assert resource.Table("table-a").get_item(Key={"id": "n"})["Item"]["n"] == 3


def test_markers_of_a_single_partition_keep_their_names(dynamodb_with_tables: Any) -> None:
    """Databases have markers with these names: other names would count every change again."""
    resource = dynamodb_with_tables.resource
    with once(change(5, position="5.0"), resource=resource) as writes:
        writes.put(TableName="table-a", Item={"id": "x"})

    [mark] = resource.Table(marker_table("orders")).scan()["Items"]
    assert mark == {"key": "7d0a8159b8c16c9117487adc2362856d", "number": 5}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            Decimal("12345678901234567890123456789000000001"),
            Decimal("12345678901234567890123456789000000002"),
        ),
        (Decimal(1), "1"),
        (b"a", "a"),
    ],
)
def test_different_keys_have_different_markers(dynamodb_with_tables: Any, one: Any, other: Any) -> None:
    """A number has up to 38 digits, more than Python's default precision."""
    resource = dynamodb_with_tables.resource

    for key in (one, other):
        with once(change(5, key), resource=resource) as writes:
            writes.put(TableName="table-a", Item={"id": repr(key)})

    assert resource.Table("table-a").scan()["Count"] == 2


def test_equal_numbers_have_one_marker(dynamodb_with_tables: Any) -> None:
    resource = dynamodb_with_tables.resource

    for key in (Decimal("1E+2"), Decimal("100.00")):
        with once(change(5, key), resource=resource) as writes:
            writes.put(TableName="table-a", Item={"id": repr(key)})

    assert resource.Table("table-a").scan()["Count"] == 1


def test_a_change_has_one_block_of_writes(dynamodb_with_tables: Any) -> None:
    """A second block would find the marker of the first, and write nothing."""
    resource = dynamodb_with_tables.resource
    given = change(5)

    def write(item: str, **condition: str) -> None:
        with once(given, resource=resource) as writes:
            writes.put(TableName="table-a", Item={"id": item}, **condition)

    with pytest.raises(resource.meta.client.exceptions.TransactionCanceledException):
        write("not written", ConditionExpression="attribute_exists(id)")
    write("first")
    with pytest.raises(ValueError, match="one block"):
        write("second")

    assert [item["id"] for item in resource.Table("table-a").scan()["Items"]] == ["first"]
    assert given == change(5)


def test_a_missing_table_is_an_error(dynamodb_with_tables: Any) -> None:
    resource = dynamodb_with_tables.resource

    for _ in range(2):
        with (
            pytest.raises(resource.meta.client.exceptions.ResourceNotFoundException),
            once(change(1), resource=resource) as writes,
        ):
            writes.put(TableName="missing", Item={"id": "x"})


def test_a_block_without_writes_costs_nothing(dynamodb_with_tables: Any) -> None:
    with once(change(1), resource=dynamodb_with_tables.resource):
        pass

    assert marker_table("orders") not in dynamodb_with_tables.client.list_tables()["TableNames"]


def test_a_block_may_have_99_writes() -> None:
    writes = Writes()
    for _ in range(MAX_WRITES):
        writes.put(TableName="table-a", Item={"id": "x"})

    with pytest.raises(ValueError, match="99 writes"):
        writes.put(TableName="table-a", Item={"id": "x"})
