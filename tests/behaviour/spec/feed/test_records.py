"""The members of a change: images, principal, request and transaction."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.behaviour.spec.feed.database import Database, images, read_stream
from tests.support.served import foldb
from tests.support.subscribed import until

RED = {"pk": {"S": "car"}, "colour": {"S": "red"}}
BLUE = {"pk": {"S": "car"}, "colour": {"S": "blue"}}
VIEWS = {
    "KEYS_ONLY": [(None, None)] * 3,
    "NEW_IMAGE": [(None, RED), (None, BLUE), (None, None)],
    "OLD_IMAGE": [(None, None), (RED, None), (BLUE, None)],
    "NEW_AND_OLD_IMAGES": [(None, RED), (RED, BLUE), (BLUE, None)],
}


def life(table: Any) -> None:
    """Put a red car, make it blue, and delete it."""
    table.put_item(Item={"pk": "car", "colour": "red"})
    table.put_item(Item={"pk": "car", "colour": "blue"})
    table.delete_item(Key={"pk": "car"})


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.spec("F1")
def test_a_stream_has_the_images_of_its_view_and_the_feed_both(database: Database, view: str) -> None:
    table = database.table(view=view)
    life(table)
    records = database.records(table, 3)
    changes = database.changes(table, 3)

    assert ["INSERT", "MODIFY", "REMOVE"] == [record["eventName"] for record in records]
    assert VIEWS[view] == images(records)
    assert [(None, RED), (RED, BLUE), (BLUE, None)] == [(each["old"], each["new"]) for each in changes]


@pytest.mark.spec("F1")
def test_a_record_has_every_member_of_dynamodb(database: Database, table: Any) -> None:
    table.put_item(Item={"pk": "car", "colour": "red"})
    [record] = database.records(table, 1)
    body = record["dynamodb"]

    assert {"eventID", "eventName", "eventVersion", "eventSource", "awsRegion", "dynamodb"} == set(record)
    assert ("aws:dynamodb", "us-east-1", "1.1") == (
        record["eventSource"],
        record["awsRegion"],
        record["eventVersion"],
    )
    assert 32 == len(record["eventID"])
    assert 21 <= len(body["SequenceNumber"]) <= 40
    assert {"pk": {"S": "car"}} == body["Keys"]
    # The sizes of the keys and of each image that is shown.
    assert len("pk" + "car") * 2 + len("colour" + "red") == body["SizeBytes"]
    assert 0 <= datetime.now(UTC).timestamp() - body["ApproximateCreationDateTime"].timestamp() < 60


@pytest.mark.spec("F4")
def test_a_write_without_effect_is_in_the_history_only(database: Database, table: Any) -> None:
    table.put_item(Item={"pk": "car", "n": 1, "tags": {"a", "b"}})
    table.put_item(Item={"pk": "car", "n": 1, "tags": {"b", "a"}})
    table.update_item(Key={"pk": "car"}, UpdateExpression="SET n = :n", ExpressionAttributeValues={":n": 1})
    table.delete_item(Key={"pk": "never there"})
    table.put_item(Item={"pk": "last"})
    records = database.records(table, 2)
    log = foldb("log", "cat", database.data, "--table", table.name, "-o", "jsonl").stdout
    commands = [json.loads(line)["command"] for line in log.splitlines()]

    assert ["car", "last"] == [record["dynamodb"]["Keys"]["pk"]["S"] for record in records]
    assert ["Put", "Put", "Update", "Delete", "Put"] == commands[-5:]


@pytest.mark.spec("F11")
def test_a_change_has_its_principal_and_request_id(database: Database, table: Any) -> None:
    answer = table.put_item(Item={"pk": "car"})
    [change] = database.changes(table, 1)

    assert answer["ResponseMetadata"]["RequestId"] == change["requestId"]
    assert ("key", "api", 0) == (change["principal"], change["source"], change["depth"])
    assert "userIdentity" not in database.records(table, 1)[0]


@pytest.mark.spec("F11")
def test_an_expired_item_has_the_identity_of_dynamodb(database: Database, table: Any) -> None:
    database.client.update_time_to_live(
        TableName=table.name, TimeToLiveSpecification={"AttributeName": "until", "Enabled": True}
    )
    table.put_item(Item={"pk": "expired", "until": int(time.time()) - 60})
    put, removed = database.records(table, 2)

    assert "userIdentity" not in put
    assert "REMOVE" == removed["eventName"]
    assert {"Type": "Service", "PrincipalId": "dynamodb.amazonaws.com"} == removed["userIdentity"]
    assert "ttl" == database.changes(table, 2)[1]["source"]


@pytest.mark.guarantee("G38")
@pytest.mark.spec("F10")
def test_changes_of_a_transaction_have_index_and_count(either: Database) -> None:
    one, two = either.table(), either.table()
    one.put_item(Item={"pk": "same"})
    puts = [(one, "a"), (two, "b"), (one, "same"), (one, "c"), (two, "d")]
    either.client.transact_write_items(
        TransactItems=[{"Put": {"TableName": table.name, "Item": {"pk": pk}}} for table, pk in puts]
    )
    changes = either.changes(one, 3) + either.changes(two, 2)
    of_transaction = {change["keys"]["pk"]["S"]: change["tx"] for change in changes if change["tx"]}

    assert 1 == len({tx["id"] for tx in of_transaction.values()})
    # A write without effect is no change of a transaction.
    assert {"a": (0, 4), "b": (1, 4), "c": (2, 4), "d": (3, 4)} == {
        pk: (tx["n"], tx["of"]) for pk, tx in of_transaction.items()
    }


@pytest.mark.guarantee("G38")
@pytest.mark.spec("F10")
def test_a_transaction_can_be_delivered_as_one_batch(database: Database) -> None:
    table = database.table()
    function = database.function(
        "def handle(changes: list[Change]):\n    note([c.keys['pk'] for c in changes if c.tx])"
    )
    database.subscribe(table, function.sink, Transactions="together", BatchSize=3)
    for n in range(5):
        puts = [{"Put": {"TableName": table.name, "Item": {"pk": f"{n}-{k}"}}} for k in range(7)]
        database.client.transact_write_items(TransactItems=puts)
        table.put_item(Item={"pk": f"{n} alone"})
    database.settle()
    batches = [set(batch) for (batch,) in function.notes()]

    for n in range(5):
        whole = {f"{n}-{k}" for k in range(7)}
        assert [whole] == [batch & whole for batch in batches if batch & whole]


def test_every_operation_that_writes_is_in_the_stream(database: Database, table: Any) -> None:
    """
    Every operation that writes items writes to the stream. A new operation that is not listed here fails this test.
    """
    from foldb.server.api.operations import OPERATIONS

    client, name = database.client, table.name
    key = {"pk": "k"}

    def put(pk: str) -> dict[str, Any]:
        return {"Statement": f"INSERT INTO \"{name}\" VALUE {{'pk': '{pk}'}}"}

    ways: dict[str, Callable[[], Any]] = {
        "PutItem": lambda: client.put_item(TableName=name, Item=key | {"n": 1}),
        "UpdateItem": lambda: client.update_item(
            TableName=name, Key=key, UpdateExpression="ADD n :n", ExpressionAttributeValues={":n": 1}
        ),
        "BatchWriteItem": lambda: client.batch_write_item(
            RequestItems={name: [{"PutRequest": {"Item": key | {"n": 7}}}]}
        ),
        "TransactWriteItems": lambda: client.transact_write_items(
            TransactItems=[{"Put": {"TableName": name, "Item": key | {"n": 8}}}]
        ),
        "DeleteItem": lambda: client.delete_item(TableName=name, Key=key),
        "ExecuteStatement": lambda: client.execute_statement(**put("one")),
        "BatchExecuteStatement": lambda: client.batch_execute_statement(Statements=[put("two")]),
        "ExecuteTransaction": lambda: client.execute_transaction(TransactStatements=[put("three")]),
    }
    for count, write in enumerate(ways.values(), start=1):
        write()
        until(lambda count=count: len(read_stream(database.streams, table.latest_stream_arn)) == count)  # type: ignore[misc]

    writing = {each for each in OPERATIONS if each.endswith(("WriteItem", "WriteItems", "Statement"))}
    assert set(ways) == writing | {"PutItem", "UpdateItem", "DeleteItem", "ExecuteTransaction"}
