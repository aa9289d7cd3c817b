"""Which error of a request with several errors DynamoDB reports, through boto3."""

from typing import Any

import pytest

from tests.support.claims import invalid
from tests.support.tables import MakeTable

INVALID = "One or more parameter values were invalid: "
NESTED = (
    "Nesting Levels have exceeded supported limits: "
    "Attributes in the item have nested levels beyond supported limit"
)
TOO_LONG = "Attribute name is too large, must be less than 65536 bytes"
ABSENT = "absent"
KEY = {"pk": {"S": "a"}}


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"S": "leaf"}
    for _ in range(levels):
        value = {"M": {"n": value}}
    return value


def transact(client: Any, *actions: dict[str, Any]) -> str:
    with invalid() as refusal:
        client.transact_write_items(TransactItems=list(actions))
    return refusal.message


def put(**more: Any) -> dict[str, Any]:
    return {"Put": {"TableName": ABSENT, "Item": KEY | more}}


def delete(value: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"Delete": {"TableName": ABSENT, "Key": {"pk": value}, **more}}


@pytest.mark.spec("X9")
def test_depth_comes_before_an_empty_name_inside_a_value(client: Any) -> None:
    empty = {"M": {"": {"S": "x"}}}

    assert NESTED == transact(client, put(m=empty, d=nested(40)))
    assert transact(client, put(**{"": {"S": "x"}}, d=nested(100))) == "Empty attribute name"
    assert transact(client, put(m=empty, d={"L": [{"SS": []}]})) == "Empty attribute name"


@pytest.mark.spec("X9")
def test_an_expression_comes_before_a_very_deep_key(client: Any) -> None:
    syntax = {"ConditionExpression": "a = = b"}

    assert NESTED == transact(client, delete(nested(40), **syntax))
    assert transact(client, delete(nested(100), **syntax)).startswith(
        "Invalid ConditionExpression: Syntax error"
    )


@pytest.mark.spec("X9")
def test_return_values_come_before_a_very_deep_value(client: Any) -> None:
    condition = {"ConditionExpression": "d = :d", "ReturnValues": "UPDATED_NEW"}
    texts = []
    for levels in (40, 100):
        with invalid() as refusal:
            client.delete_item(
                TableName=ABSENT, Key=KEY, **condition, ExpressionAttributeValues={":d": nested(levels)}
            )
        texts.append(refusal.message)

    assert [f"1 validation error detected: {NESTED}", "ReturnValues can only be ALL_OLD or NONE"] == texts


@pytest.mark.spec("X9")
def test_the_tables_of_a_batch_read_have_one_dialect(client: Any, make_table: MakeTable) -> None:
    first, second = make_table("pk:S").name, make_table("pk:S").name
    requests = {
        first: {"Keys": [KEY], "ProjectionExpression": "a"},
        second: {"Keys": [KEY], "AttributesToGet": ["a"]},
    }

    with invalid("Can not use both expression and non-expression parameters in the same request"):
        client.batch_get_item(RequestItems=requests)


@pytest.mark.spec("X9")
@pytest.mark.parametrize(
    ("expression", "names"), [("SET #n = :v", "#n"), ("SET a.#n = :v", "#n")], ids=["name", "path"]
)
def test_a_name_of_64_kb_is_too_long(client: Any, expression: str, names: str) -> None:
    with invalid() as update:
        client.update_item(
            TableName=ABSENT,
            Key=KEY,
            UpdateExpression=expression,
            ExpressionAttributeNames={names: "n" * 65_536},
            ExpressionAttributeValues={":v": {"S": "x"}},
        )
    with invalid() as read:
        client.get_item(
            TableName=ABSENT,
            Key=KEY,
            ProjectionExpression="#n",
            ExpressionAttributeNames={"#n": "\N{EURO SIGN}" * 21_846},
        )

    assert [f"1 validation error detected: {TOO_LONG}", TOO_LONG] == [update.message, read.message]


@pytest.mark.spec("X9")
@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "At least one of ProvisionedThroughput, BillingMode, "),
        (
            {"BillingMode": "PROVISIONED"},
            INVALID + "ProvisionedThroughput must be specified when BillingMode is PROVISIONED",
        ),
        ({"GlobalSecondaryIndexUpdates": [{}]}, INVALID + "One of GlobalSecondaryIndexUpdate.Update, "),
        ({"GlobalSecondaryIndexUpdates": []}, INVALID + "List of GlobalSecondaryIndexUpdates is empty"),
        (
            {
                "GlobalSecondaryIndexUpdates": [
                    {action: {"IndexName": "abc"} for action in ("Update", "Delete")}
                ]
            },
            INVALID
            + "Only one global secondary index action is allowed per GlobalSecondaryIndexUpdate object",
        ),
        (
            {"TableClass": "x"},
            "Invalid table-class parameter provided. Please try again with a valid table-class value: "
            "[STANDARD, STANDARD_INFREQUENT_ACCESS].",
        ),
        (
            {"GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": "abc"}}] * 2},
            INVALID + "Only one global secondary index update per index is allowed simultaneously. ",
        ),
    ],
    ids=["nothing", "mode", "no action", "empty", "two actions", "class", "twice"],
)
def test_an_update_is_validated_before_its_table(client: Any, changes: dict[str, Any], text: str) -> None:
    with invalid(text):
        client.update_table(TableName=ABSENT, **changes)
    with pytest.raises(client.exceptions.ResourceNotFoundException):
        client.update_table(TableName=ABSENT, DeletionProtectionEnabled=True)


@pytest.mark.spec("X9")
def test_a_projection_is_checked_before_its_index_key(client: Any) -> None:
    index = {
        "IndexName": "abc",
        "KeySchema": [{"AttributeName": "undefined", "KeyType": "HASH"}],
        "Projection": {"ProjectionType": "INCLUDE"},
    }

    with invalid("ProjectionType is INCLUDE, but NonKeyAttributes is not specified"):
        client.create_table(
            TableName=ABSENT,
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
            GlobalSecondaryIndexes=[index],
        )


@pytest.mark.spec("X9")
def test_an_index_key_from_another_attribute_has_its_own_text(client: Any, make_table: MakeTable) -> None:
    name = make_table("pk:S", gsi={"Zed": "g:S", "Abc": "g:S"}).name
    client.put_item(TableName=name, Item=KEY | {"n": {"N": "1"}})
    update = {"TableName": name, "Key": KEY}

    for expression in ("SET g = n", "SET g = if_not_exists(x, n)"):
        with invalid("The update expression attempted to update the secondary index key to unsupported type"):
            client.update_item(**update, UpdateExpression=expression)
    for expression in ("SET g = :n", "ADD g :n"):
        with invalid(f"{INVALID}Type mismatch for Index Key g Expected: S Actual: N IndexName: Abc"):
            client.update_item(
                **update, UpdateExpression=expression, ExpressionAttributeValues={":n": {"N": "1"}}
            )


@pytest.mark.spec("X9")
def test_a_local_index_is_not_changed(client: Any, make_table: MakeTable) -> None:
    name = make_table("pk:S", "sk:S", lsi={"local": "l:S"}).name
    units = {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1}
    for update, verb in (
        ({"Delete": {"IndexName": "local"}}, "delete"),
        ({"Update": {"IndexName": "local", "ProvisionedThroughput": units}}, "update"),
    ):
        with invalid(f"Cannot {verb} an index that is not a GlobalSecondaryIndex: local"):
            client.update_table(TableName=name, GlobalSecondaryIndexUpdates=[update])
