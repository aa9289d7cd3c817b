"""UpdateItem, through boto3."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.tables import MakeTable

KEY = {"pk": {"S": "car"}}
ONE = {":one": {"N": "1"}}


@pytest.fixture
def name(make_table: MakeTable) -> str:
    table: str = make_table("pk:S").name
    return table


def test_an_update_makes_the_item_where_there_is_none(client: Any, name: str) -> None:
    client.update_item(
        TableName=name, Key=KEY, UpdateExpression="ADD doors :one", ExpressionAttributeValues=ONE
    )

    assert {**KEY, "doors": {"N": "1"}} == client.get_item(TableName=name, Key=KEY)["Item"]


@pytest.mark.parametrize(
    ("expression", "values", "made"),
    [
        ("SET x = pk, y = sk", {}, {"x": {"S": "car"}, "y": {"N": "1.5"}}),
        ("SET x = if_not_exists(pk, :v)", {":v": {"S": "none"}}, {"x": {"S": "car"}}),
        ("SET x = if_not_exists(absent, sk)", {}, {"x": {"N": "1.5"}}),
        ("SET x = sk + :v", {":v": {"N": "1"}}, {"x": {"N": "2.5"}}),
        ("SET x = pk REMOVE y ADD n :v", {":v": {"N": "1"}}, {"x": {"S": "car"}, "n": {"N": "1"}}),
    ],
)
def test_an_update_that_creates_an_item_reads_its_key(
    client: Any, make_table: MakeTable, expression: str, values: dict[str, Any], made: dict[str, Any]
) -> None:
    """So SET means the same where the item exists; the condition is about the item as it is, which does not."""
    name = make_table("pk:S", "sk:N").name
    key = {"pk": {"S": "car"}, "sk": {"N": "1.50"}}
    answer = client.update_item(
        TableName=name,
        Key=key,
        UpdateExpression=expression,
        ConditionExpression="attribute_not_exists(pk)",
        ReturnValues="UPDATED_NEW",
        **({"ExpressionAttributeValues": values} if values else {}),
    )

    assert made == answer["Attributes"]
    assert {"pk": {"S": "car"}, "sk": {"N": "1.5"}, **made} == client.get_item(TableName=name, Key=key)[
        "Item"
    ]


def test_an_update_that_creates_an_item_can_set_an_index_key(client: Any, make_table: MakeTable) -> None:
    name = make_table("pk:S", gsi={"by-g": "g:S"}).name
    client.update_item(TableName=name, Key=KEY, UpdateExpression="SET g = pk")

    found = client.query(
        TableName=name,
        IndexName="by-g",
        KeyConditionExpression="g = :g",
        ExpressionAttributeValues={":g": KEY["pk"]},
    )
    assert [{**KEY, "g": KEY["pk"]}] == found["Items"]


def test_not_contains_in_expected_needs_the_attribute(client: Any, name: str) -> None:
    """CONTAINS and NOT_CONTAINS both fail where there is none, unlike NE."""
    expected = {"absent": {"ComparisonOperator": "NOT_CONTAINS", "AttributeValueList": [{"S": "a"}]}}
    client.put_item(TableName=name, Item=KEY)

    with pytest.raises(client.exceptions.ConditionalCheckFailedException):
        client.update_item(
            TableName=name, Key=KEY, AttributeUpdates={"n": {"Value": ONE[":one"]}}, Expected=expected
        )
    client.put_item(TableName=name, Item={**KEY, "absent": {"S": "other"}}, Expected={})
    client.update_item(
        TableName=name, Key=KEY, AttributeUpdates={"n": {"Value": ONE[":one"]}}, Expected=expected
    )


def test_an_update_that_says_nothing_makes_the_bare_key(client: Any, name: str) -> None:
    client.update_item(TableName=name, Key=KEY)

    assert KEY == client.get_item(TableName=name, Key=KEY)["Item"]


@pytest.mark.parametrize(
    ("returns", "attributes"),
    [
        ("NONE", None),
        ("ALL_OLD", {**KEY, "a": {"N": "1"}, "b": {"N": "1"}}),
        ("ALL_NEW", {**KEY, "a": {"N": "2"}, "b": {"N": "1"}}),
        ("UPDATED_OLD", {"a": {"N": "1"}}),
        ("UPDATED_NEW", {"a": {"N": "2"}}),
    ],
)
def test_an_update_item_returns_its_return_values(
    client: Any, name: str, returns: str, attributes: dict[str, Any] | None
) -> None:
    client.put_item(TableName=name, Item={**KEY, "a": {"N": "1"}, "b": {"N": "1"}})
    answer = client.update_item(
        TableName=name,
        Key=KEY,
        UpdateExpression="SET a = a + :one",
        ExpressionAttributeValues=ONE,
        ReturnValues=returns,
    )

    assert attributes == answer.get("Attributes")


def test_a_refused_update_changes_nothing_and_shows_the_item(client: Any, name: str) -> None:
    client.put_item(TableName=name, Item=KEY)
    with pytest.raises(ClientError, match="ConditionalCheckFailed") as caught:
        client.update_item(
            TableName=name,
            Key=KEY,
            UpdateExpression="SET a = :one",
            ConditionExpression="attribute_exists(a)",
            ExpressionAttributeValues=ONE,
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )

    assert KEY == caught.value.response["Item"]
    assert KEY == client.get_item(TableName=name, Key=KEY)["Item"]


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        (
            {"UpdateExpression": "SET pk = :one", "ExpressionAttributeValues": ONE},
            "One or more parameter values were invalid: Cannot update attribute pk. "
            "This attribute is part of the key",
        ),
        (
            {"AttributeUpdates": {"pk": {"Value": {"S": "x"}}}},
            "One or more parameter values were invalid: Cannot update attribute pk. "
            "This attribute is part of the key",
        ),
        (
            {"UpdateExpression": "REMOVE pk.a"},
            "One or more parameter values were invalid: Cannot update attribute pk. "
            "This attribute is part of the key",
        ),
        (
            {"UpdateExpression": "SET a = pk[0]"},
            "Key attributes must be scalars; list random access '[]' and map lookup '.' are not allowed: Key: pk",
        ),
        (
            {"UpdateExpression": "SET a = a + :one", "ExpressionAttributeValues": ONE},
            "The provided expression refers to an attribute that does not exist in the item",
        ),
        (
            {"UpdateExpression": "SET a = :one", "ExpressionAttributeValues": ONE, "Expected": {}},
            "1 validation error detected: Can not use both expression and non-expression parameters "
            "in the same request: "
            "Non-expression parameters: {Expected} Expression parameters: {UpdateExpression}",
        ),
    ],
)
def test_invalid_updates_are_refused(client: Any, name: str, parameters: dict[str, Any], text: str) -> None:
    with pytest.raises(ClientError) as caught:
        client.update_item(TableName=name, Key=KEY, **parameters)

    assert text == caught.value.response["Error"]["Message"]


def test_the_legacy_parameters_do_the_same(client: Any, name: str) -> None:
    client.put_item(
        TableName=name, Item={**KEY, "n": {"N": "1"}, "s": {"SS": ["a", "b"]}, "gone": {"S": "x"}}
    )
    answer = client.update_item(
        TableName=name,
        Key=KEY,
        AttributeUpdates={
            "n": {"Action": "ADD", "Value": {"N": "2"}},
            "s": {"Action": "DELETE", "Value": {"SS": ["a"]}},
            "gone": {"Action": "DELETE"},
            "new": {"Value": {"S": "y"}},
        },
        Expected={"n": {"ComparisonOperator": "LT", "AttributeValueList": [{"N": "2"}]}},
        ReturnValues="ALL_NEW",
    )

    assert {**KEY, "n": {"N": "3"}, "s": {"SS": ["b"]}, "new": {"S": "y"}} == answer["Attributes"]
