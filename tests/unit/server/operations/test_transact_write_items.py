"""TransactWriteItems, through boto3."""

import uuid
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.tables import MakeTable

pytestmark = pytest.mark.divided

ABSENT = "attribute_not_exists(pk)"


def key(text: object) -> dict[str, Any]:
    return {"pk": {"S": str(text)}}


@pytest.fixture
def name(make_table: MakeTable) -> str:
    table: str = make_table("pk:S").name
    return table


@pytest.fixture
def four(client: Any, name: str) -> list[dict[str, Any]]:
    """A put, an update, a delete and a check, each of an item of its own."""
    for text in ("update", "delete", "check"):
        client.put_item(TableName=name, Item={**key(text), "n": {"N": "1"}})
    one = {":one": {"N": "1"}}
    return [
        {"Put": {"TableName": name, "Item": key("put"), "ConditionExpression": ABSENT}},
        {
            "Update": {
                "TableName": name,
                "Key": key("update"),
                "UpdateExpression": "ADD n :one",
                "ExpressionAttributeValues": one,
            }
        },
        {"Delete": {"TableName": name, "Key": key("delete")}},
        {
            "ConditionCheck": {
                "TableName": name,
                "Key": key("check"),
                "ConditionExpression": "n = :one",
                "ExpressionAttributeValues": one,
            }
        },
    ]


def reasons(error: pytest.ExceptionInfo[ClientError]) -> list[str]:
    return [reason["Code"] for reason in error.value.response["CancellationReasons"]]


def contents(client: Any, name: str) -> dict[str, str | None]:
    items = client.scan(TableName=name)["Items"]
    return {item["pk"]["S"]: item.get("n", {}).get("N") for item in items}


@pytest.mark.spec("S54", "S80", "S82")
def test_all_actions_go_through_at_twice_the_units(
    client: Any, name: str, four: list[dict[str, Any]]
) -> None:
    answer = client.transact_write_items(TransactItems=four, ReturnConsumedCapacity="TOTAL")

    assert {"put": None, "update": "2", "check": "1"} == contents(client, name)
    assert [{"TableName": name, "CapacityUnits": 8.0, "WriteCapacityUnits": 8.0}] == answer[
        "ConsumedCapacity"
    ]


@pytest.mark.parametrize("failing", range(4))
def test_one_failing_condition_keeps_all_from_being_done(
    client: Any, name: str, four: list[dict[str, Any]], failing: int
) -> None:
    (action,) = four[failing].values()
    action["ConditionExpression"] = "attribute_exists(nothing)"
    action.pop("ExpressionAttributeValues", None)
    if failing == 1:
        action["UpdateExpression"] = "REMOVE n"
    action["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    before = contents(client, name)
    with pytest.raises(ClientError, match="Transaction cancelled") as caught:
        client.transact_write_items(TransactItems=four)

    expected = ["None"] * 4
    expected[failing] = "ConditionalCheckFailed"
    reason = caught.value.response["CancellationReasons"][failing]
    assert expected == reasons(caught)
    assert (failing == 0) == ("Item" not in reason)
    assert before == contents(client, name)


def test_a_token_makes_a_repeat_harmless_and_costs_a_read(
    client: Any, name: str, four: list[dict[str, Any]]
) -> None:
    token = uuid.uuid4().hex
    for _ in range(2):
        answer = client.transact_write_items(
            TransactItems=four, ClientRequestToken=token, ReturnConsumedCapacity="TOTAL"
        )

    assert "2" == contents(client, name)["update"]
    assert [{"TableName": name, "CapacityUnits": 8.0, "ReadCapacityUnits": 8.0}] == answer["ConsumedCapacity"]


def test_a_token_is_valid_for_one_request_only(client: Any, four: list[dict[str, Any]]) -> None:
    token = uuid.uuid4().hex
    client.transact_write_items(TransactItems=four, ClientRequestToken=token)
    with pytest.raises(ClientError, match="IdempotentParameterMismatch"):
        client.transact_write_items(TransactItems=four[1:], ClientRequestToken=token)


@pytest.mark.parametrize(
    ("action", "text"),
    [
        ({"Put": {"Item": {"x": {"S": "1"}}}}, "Missing the key pk in the item"),
        ({"Put": {"Item": {"pk": {"N": "1"}}}}, "Type mismatch for key pk expected: S actual: N"),
        ({"Delete": {"Key": {}}}, "The provided key element does not match the schema"),
        ({"Delete": {"Key": {"pk": {"N": "1"}}}}, "The provided key element does not match the schema"),
        (
            {"Update": {"Key": key("a"), "UpdateExpression": "REMOVE pk"}},
            "Cannot update attribute pk. This attribute is part of the key",
        ),
        (
            {
                "Update": {
                    "Key": key("a"),
                    "UpdateExpression": "SET n = n + :n",
                    "ExpressionAttributeValues": {":n": {"N": "1"}},
                }
            },
            "The provided expression refers to an attribute that does not exist in the item",
        ),
    ],
)
def test_an_invalid_action_is_a_reason_at_its_index(
    client: Any, name: str, action: dict[str, Any], text: str
) -> None:
    for request in action.values():
        request["TableName"] = name
    with pytest.raises(ClientError, match="Transaction cancelled") as caught:
        client.transact_write_items(
            TransactItems=[{"Put": {"TableName": name, "Item": key("first")}}, action]
        )

    assert ["None", "ValidationError"] == reasons(caught)
    assert text in caught.value.response["CancellationReasons"][1]["Message"]
    assert {} == contents(client, name)


@pytest.mark.parametrize("kind", ["Update", "Delete", "ConditionCheck", "Put"])
def test_an_empty_key_is_an_error_of_the_request(client: Any, name: str, kind: str) -> None:
    """It precedes errors that cancel the transaction, such as a missing key in an earlier action."""
    request: dict[str, Any] = {"TableName": name, "Item" if kind == "Put" else "Key": key("")}
    request |= {
        "ConditionCheck": {"ConditionExpression": ABSENT},
        "Update": {"UpdateExpression": "REMOVE x"},
    }.get(kind, {})
    with pytest.raises(ClientError) as caught:
        client.transact_write_items(
            TransactItems=[{"Put": {"TableName": name, "Item": {"x": {"S": "1"}}}}, {kind: request}]
        )

    assert {
        "Code": "ValidationException",
        "Message": "One or more parameter values are not valid. The AttributeValue for a key attribute "
        "cannot contain an empty string value. Key: pk",
    } == caught.value.response["Error"]


def test_an_empty_index_key_in_a_put_is_an_error_of_the_request(client: Any, make_table: MakeTable) -> None:
    indexed = make_table("pk:S", gsi={"by-g": "g:S"}).name
    with pytest.raises(ClientError) as caught:
        client.transact_write_items(
            TransactItems=[{"Put": {"TableName": indexed, "Item": {**key("a"), "g": {"S": ""}}}}]
        )

    assert {
        "Code": "ValidationException",
        "Message": "One or more parameter values are not valid. A value specified for a secondary index key "
        "is not supported. The AttributeValue for a key attribute cannot contain an empty string value. "
        "IndexName: by-g, IndexKey: g",
    } == caught.value.response["Error"]


@pytest.mark.spec("X11")
def test_two_actions_on_one_item_are_refused(client: Any, name: str) -> None:
    actions = [
        {"Put": {"TableName": name, "Item": key("a")}},
        {"Delete": {"TableName": name, "Key": key("a")}},
    ]
    with pytest.raises(
        ClientError, match="Transaction request cannot include multiple operations on one item"
    ):
        client.transact_write_items(TransactItems=actions)


def test_an_item_of_a_transaction_is_one_action(client: Any, name: str, four: list[dict[str, Any]]) -> None:
    for item, text in (
        ({}, "TransactWriteRequest should contain Delete or Put or Update or ConditionCheck"),
        (four[0] | four[2], "TransactItems can only contain one of Check, Put, Update or Delete"),
    ):
        with pytest.raises(ClientError, match=text):
            client.transact_write_items(TransactItems=[item])


def test_more_than_4_mb_is_refused(client: Any, name: str) -> None:
    text = {"S": "x" * 400_000}
    actions = [{"Put": {"TableName": name, "Item": {**key(n), "text": text}}} for n in range(11)]
    with pytest.raises(ClientError, match="ValidationException"):
        client.transact_write_items(TransactItems=actions)


def test_updates_that_create_items_read_their_keys(client: Any, name: str) -> None:
    """Several keys, so that partitions take part."""
    client.transact_write_items(
        TransactItems=[
            {"Update": {"TableName": name, "Key": key(n), "UpdateExpression": "SET x = pk"}} for n in range(5)
        ]
    )

    made = [client.get_item(TableName=name, Key=key(n))["Item"]["x"] for n in range(5)]
    assert [{"S": str(n)} for n in range(5)] == made
