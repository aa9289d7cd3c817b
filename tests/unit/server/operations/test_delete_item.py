"""DeleteItem, through boto3."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.tables import MakeTable

KEY = {"pk": {"S": "car"}}
CAR = {**KEY, "colour": {"S": "red"}}


@pytest.fixture
def name(make_table: MakeTable, client: Any) -> str:
    table: str = make_table("pk:S").name
    client.put_item(TableName=table, Item=CAR)
    return table


def test_a_delete_gives_back_the_item_it_removed(client: Any, name: str) -> None:
    first = client.delete_item(TableName=name, Key=KEY, ReturnValues="ALL_OLD")
    second = client.delete_item(TableName=name, Key=KEY, ReturnValues="ALL_OLD")

    assert CAR == first["Attributes"]
    assert "Attributes" not in second
    assert "Item" not in client.get_item(TableName=name, Key=KEY)


def test_a_refused_delete_leaves_the_item_and_shows_it(client: Any, name: str) -> None:
    with pytest.raises(ClientError, match="ConditionalCheckFailed") as caught:
        client.delete_item(
            TableName=name,
            Key=KEY,
            ConditionExpression="colour = :c",
            ExpressionAttributeValues={":c": {"S": "blue"}},
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )

    assert CAR == caught.value.response["Item"]
    assert CAR == client.get_item(TableName=name, Key=KEY)["Item"]


@pytest.mark.parametrize("returns", ["ALL_NEW", "UPDATED_OLD", "UPDATED_NEW"])
def test_a_delete_can_return_the_old_item_or_nothing(client: Any, name: str, returns: str) -> None:
    with pytest.raises(ClientError, match="ReturnValues can only be ALL_OLD or NONE"):
        client.delete_item(TableName=name, Key=KEY, ReturnValues=returns)


def test_a_delete_of_nothing_costs_a_unit(client: Any, name: str) -> None:
    answer = client.delete_item(TableName=name, Key={"pk": {"S": "none"}}, ReturnConsumedCapacity="INDEXES")

    assert {
        "TableName": name,
        "CapacityUnits": 1.0,
        "Table": {"CapacityUnits": 1.0},
    } == answer["ConsumedCapacity"]
