"""PutItem, through boto3."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.tables import MakeTable

KEY = {"pk": {"S": "car"}}
RED = {**KEY, "colour": {"S": "red"}}
BLUE = {**KEY, "colour": {"S": "blue"}}


@pytest.fixture
def name(make_table: MakeTable) -> str:
    table: str = make_table("pk:S").name
    return table


def message(error: pytest.ExceptionInfo[ClientError]) -> str:
    text: str = error.value.response["Error"]["Message"]
    return text


def test_a_put_answers_nothing_unless_it_is_asked(client: Any, name: str) -> None:
    answer = client.put_item(TableName=name, Item=RED)

    assert {"ResponseMetadata"} == answer.keys()


def test_a_put_gives_back_the_item_that_it_replaced(client: Any, name: str) -> None:
    first = client.put_item(TableName=name, Item=RED, ReturnValues="ALL_OLD")
    second = client.put_item(TableName=name, Item=BLUE, ReturnValues="ALL_OLD")

    assert "Attributes" not in first
    assert RED == second["Attributes"]


def test_a_refused_put_changes_nothing_and_shows_the_stored_item(client: Any, name: str) -> None:
    client.put_item(TableName=name, Item=RED)
    with pytest.raises(ClientError, match="ConditionalCheckFailed") as caught:
        client.put_item(
            TableName=name,
            Item=BLUE,
            ConditionExpression="attribute_not_exists(pk)",
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )

    assert RED == caught.value.response["Item"]
    assert RED == client.get_item(TableName=name, Key=KEY)["Item"]


def test_a_legacy_condition_is_judged_too(client: Any, name: str) -> None:
    client.put_item(TableName=name, Item=RED)
    client.put_item(TableName=name, Item=BLUE, Expected={"colour": {"Value": {"S": "red"}}})
    with pytest.raises(ClientError, match="ConditionalCheckFailed"):
        client.put_item(TableName=name, Item=RED, Expected={"colour": {"Value": {"S": "red"}}})


def test_values_are_canonical_when_they_come_back(client: Any, name: str) -> None:
    item = {**KEY, "n": {"N": "+001.50E1"}, "s": {"NS": ["2", "1.0"]}, "b": {"B": b"\x00\xff"}}
    client.put_item(TableName=name, Item=item)

    assert {**KEY, "n": {"N": "15"}, "s": {"NS": ["1", "2"]}, "b": {"B": b"\x00\xff"}} == client.get_item(
        TableName=name, Key=KEY
    )["Item"]


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ({"x": {"S": "1"}}, "One or more parameter values were invalid: Missing the key pk in the item"),
        (
            {"pk": {"N": "1"}},
            "One or more parameter values were invalid: Type mismatch for key pk expected: S actual: N",
        ),
        (
            {"pk": {"S": ""}},
            "One or more parameter values are not valid. The AttributeValue for a key attribute cannot "
            "contain an empty string value. Key: pk",
        ),
    ],
)
def test_an_item_must_have_its_key(client: Any, name: str, item: dict[str, Any], text: str) -> None:
    with pytest.raises(ClientError) as caught:
        client.put_item(TableName=name, Item=item)

    assert text == message(caught)


def test_a_put_cannot_return_its_new_item(client: Any, name: str) -> None:
    with pytest.raises(ClientError) as caught:
        client.put_item(TableName=name, Item=RED, ReturnValues="ALL_NEW")

    assert "1 validation error detected: ReturnValues can only be ALL_OLD or NONE" == message(caught)


def test_checks_order_is_request_values_expressions_table(client: Any) -> None:
    """Each request has every later mistake too, and the error names only the first."""
    nowhere: dict[str, Any] = {"TableName": "no-such-table", "Item": {"x": {"N": "one"}}}
    wrong = {**nowhere, "ConditionExpression": "a =", "ReturnValues": "SOME"}
    texts = []
    for mended in (
        {},
        {"ReturnValues": "ALL_NEW"},
        {"Item": RED},
        {"ReturnValues": "NONE"},
        {"ConditionExpression": "a = a.b"},
    ):
        wrong |= mended
        with pytest.raises(ClientError) as caught:
            client.put_item(**wrong)
        texts.append(message(caught))

    assert "validation error detected" in texts[0]
    assert "cannot be converted to a numeric value" in texts[1]
    assert "ReturnValues" in texts[2]
    assert "1 validation error detected: Invalid ConditionExpression: Syntax error" in texts[3]
    assert "Requested resource not found" == texts[4]


def test_an_item_of_a_table_with_indexes_must_fit_them(client: Any, make_table: MakeTable) -> None:
    name = make_table("pk:S", gsi={"Colours": "colour:S"}).name
    with pytest.raises(ClientError) as caught:
        client.put_item(TableName=name, Item={**KEY, "colour": {"N": "1"}})

    assert "Type mismatch for Index Key colour Expected: S Actual: N IndexName: Colours" in message(caught)


def test_a_put_returns_consumed_capacity_per_index(client: Any, make_table: MakeTable) -> None:
    table = make_table("pk:S", "sk:S", gsi={"Colours": "colour:S"}, lsi={"Years": "year:N"})
    item = {**RED, "sk": {"S": "1"}, "year": {"N": "1999"}, "text": {"S": "x" * 1500}}
    answer = client.put_item(
        TableName=table.name, Item=item, ReturnConsumedCapacity="INDEXES", ReturnItemCollectionMetrics="SIZE"
    )

    assert {
        "TableName": table.name,
        "CapacityUnits": 6.0,
        "Table": {"CapacityUnits": 2.0},
        "LocalSecondaryIndexes": {"Years": {"CapacityUnits": 2.0}},
        "GlobalSecondaryIndexes": {"Colours": {"CapacityUnits": 2.0}},
    } == answer["ConsumedCapacity"]
    assert {
        "ItemCollectionKey": {"pk": {"S": "car"}},
        "SizeEstimateRangeGB": [0.0, 1.0],
    } == answer["ItemCollectionMetrics"]
