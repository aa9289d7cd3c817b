"""Keys are scalars: no expression goes into one, whether it is the table's or an index's."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.tables import MakeTable

KEY = {"pk": {"S": "car"}, "sk": {"N": "1"}}
SCALARS = "Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: "
PLACES = {"sk": "Key: sk", "gsi": "IndexKey: gsi", "lsi": "IndexKey: lsi"}


@pytest.fixture
def table(make_table: MakeTable) -> str:
    made: str = make_table("pk:S", "sk:N", gsi={"Global": "gsi:S"}, lsi={"Local": "lsi:S"}).name
    return made


def message(client: Any, operation: str, **request: Any) -> str:
    with pytest.raises(ClientError) as caught:
        getattr(client, operation)(**request)
    error: dict[str, Any] = caught.value.response
    reasons = [reason for reason in error.get("CancellationReasons", ()) if reason["Code"] != "None"]
    text: str = reasons[0]["Message"] if reasons else error["Error"]["Message"]
    return text


@pytest.mark.parametrize("attribute", PLACES)
def test_no_read_goes_into_a_key(client: Any, table: str, attribute: str) -> None:
    part = {"ProjectionExpression": f"{attribute}[0]"}
    get = {"TableName": table, "Key": KEY, **part}
    of_car = {
        "TableName": table,
        "KeyConditionExpression": "pk = :pk",
        "ExpressionAttributeValues": {":pk": KEY["pk"]},
    }
    texts = {
        message(client, "get_item", **get),
        message(client, "scan", TableName=table, **part),
        message(client, "scan", TableName=table, FilterExpression=f"attribute_exists({attribute}.a)"),
        message(client, "query", **of_car, **part),
        message(client, "batch_get_item", RequestItems={table: {"Keys": [KEY], **part}}),
        message(client, "transact_get_items", TransactItems=[{"Get": get}]),
    }

    assert {SCALARS + PLACES[attribute]} == texts


@pytest.mark.parametrize("attribute", ["gsi", "lsi"])
def test_a_querys_filter_does_not_go_into_an_index_key(client: Any, table: str, attribute: str) -> None:
    request = {
        "TableName": table,
        "KeyConditionExpression": "pk = :pk",
        "ExpressionAttributeValues": {":pk": KEY["pk"]},
        "FilterExpression": f"attribute_exists({attribute}.a)",
    }

    assert SCALARS + PLACES[attribute] == message(client, "query", **request)


@pytest.mark.parametrize("attribute", PLACES)
def test_no_write_goes_into_a_key(client: Any, table: str, attribute: str) -> None:
    at = {"TableName": table, "Key": KEY}
    when = {"ConditionExpression": f"attribute_exists({attribute}.a)"}
    check = {"TableName": table, "Key": KEY, **when}
    texts = {
        message(client, "put_item", TableName=table, Item=KEY, **when),
        message(client, "delete_item", **at, **when),
        message(client, "update_item", **at, UpdateExpression=f"SET copied = {attribute}.a"),
        message(client, "transact_write_items", TransactItems=[{"ConditionCheck": check}]),
    }

    assert {SCALARS + PLACES[attribute]} == texts


def test_an_index_key_is_not_made_empty_by_an_update(client: Any, table: str) -> None:
    text = message(
        client,
        "update_item",
        TableName=table,
        Key=KEY,
        UpdateExpression="SET gsi = :empty",
        ExpressionAttributeValues={":empty": {"S": ""}},
    )

    assert (
        "One or more parameter values are not valid. The update expression attempted to update a secondary index key "
        "to a value that is not supported. The AttributeValue for a key attribute cannot contain an empty string value."
    ) == text
