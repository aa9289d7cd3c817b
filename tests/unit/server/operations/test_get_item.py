"""GetItem, through boto3."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.tables import MakeTable

KEY = {"pk": {"S": "car"}, "sk": {"N": "1"}}
CAR = {**KEY, "colour": {"S": "red"}, "doors": {"L": [{"S": "left"}, {"S": "right"}]}}


@pytest.fixture
def name(make_table: MakeTable, client: Any) -> str:
    table: str = make_table("pk:S", "sk:N").name
    client.put_item(TableName=table, Item=CAR)
    return table


def test_an_item_that_is_not_there_is_no_member_of_the_answer(client: Any, name: str) -> None:
    answer = client.get_item(TableName=name, Key={**KEY, "sk": {"N": "2"}})

    assert {"ResponseMetadata"} == answer.keys()


@pytest.mark.parametrize("number", ["1", "1.0", "001", "10E-1"])
def test_a_key_is_found_by_its_value_not_its_spelling(client: Any, name: str, number: str) -> None:
    assert CAR == client.get_item(TableName=name, Key={**KEY, "sk": {"N": number}})["Item"]


@pytest.mark.parametrize(
    "arn", ["arn:aws:dynamodb:us-east-1:000000000000:table/", "arn:aws:dynamodb:eu-west-1:1:table/"]
)
@pytest.mark.spec("X7")
def test_a_table_may_be_named_by_its_arn(client: Any, name: str, arn: str) -> None:
    assert CAR == client.get_item(TableName=arn + name, Key=KEY)["Item"]


def test_a_projection_leaves_the_key_out_unless_it_names_it(client: Any, name: str) -> None:
    part = client.get_item(TableName=name, Key=KEY, ProjectionExpression="doors[1], colour")["Item"]
    legacy = client.get_item(TableName=name, Key=KEY, AttributesToGet=["colour", "pk"])["Item"]

    assert {"doors": {"L": [{"S": "right"}]}, "colour": {"S": "red"}} == part
    assert {"pk": {"S": "car"}, "colour": {"S": "red"}} == legacy


@pytest.mark.parametrize(("consistent", "units"), [(True, 1.0), (False, 0.5)])
def test_consumed_capacity_is_returned_also_for_no_item(
    client: Any, name: str, consistent: bool, units: float
) -> None:
    for number in ("1", "2"):
        answer = client.get_item(
            TableName=name,
            Key={**KEY, "sk": {"N": number}},
            ConsistentRead=consistent,
            ReturnConsumedCapacity="TOTAL",
        )

        assert {"TableName": name, "CapacityUnits": units} == answer["ConsumedCapacity"]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ({"pk": {"S": "car"}}, "The provided key element does not match the schema"),
        ({**KEY, "more": {"S": "1"}}, "The provided key element does not match the schema"),
        ({**KEY, "sk": {"S": "1"}}, "The provided key element does not match the schema"),
        ({**KEY, "sk": {"N": "one"}}, "cannot be converted to a numeric value: one"),
    ],
)
def test_a_key_must_have_exactly_the_key_attributes(
    client: Any, name: str, key: dict[str, Any], text: str
) -> None:
    with pytest.raises(ClientError) as caught:
        client.get_item(TableName=name, Key=key)

    assert text in caught.value.response["Error"]["Message"]


def test_an_item_of_no_table_is_not_found(client: Any) -> None:
    with pytest.raises(ClientError, match="Requested resource not found"):
        client.get_item(TableName="no-such-table", Key=KEY)
