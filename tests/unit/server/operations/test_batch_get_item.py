"""BatchGetItem, through boto3."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.tables import MakeTable

pytestmark = pytest.mark.divided


def key(text: object) -> dict[str, Any]:
    return {"pk": {"S": str(text)}}


@pytest.fixture
def name(make_table: MakeTable, client: Any) -> str:
    table: str = make_table("pk:S").name
    for n in range(5):
        client.put_item(TableName=table, Item={**key(n), "n": {"N": str(n)}})
    return table


def test_each_table_has_its_own_projection_and_consistency(
    client: Any, name: str, make_table: MakeTable
) -> None:
    other = make_table("pk:S").name
    client.put_item(TableName=other, Item=key("a"))
    answer = client.batch_get_item(
        RequestItems={
            name: {"Keys": [key(1), key("none"), key(2)], "ProjectionExpression": "n"},
            other: {"Keys": [key("a")], "ConsistentRead": True},
        },
        ReturnConsumedCapacity="TOTAL",
    )

    assert {name: [{"n": {"N": "1"}}, {"n": {"N": "2"}}], other: [key("a")]} == answer["Responses"]
    assert {} == answer["UnprocessedKeys"]
    assert [
        {"TableName": name, "CapacityUnits": 1.5},
        {"TableName": other, "CapacityUnits": 1.0},
    ] == answer["ConsumedCapacity"]


@pytest.mark.spec("X11")
def test_keys_past_16_mb_are_returned_as_unprocessed(client: Any, make_table: MakeTable) -> None:
    table = make_table("pk:S").name
    for n in range(45):
        client.put_item(TableName=table, Item={**key(n), "text": {"S": "x" * 390_000}})
    request = {
        table: {"Keys": [key(n) for n in range(45)], "ProjectionExpression": "pk", "ConsistentRead": True}
    }
    found: list[str] = []
    rounds = 0
    while request:
        answer = client.batch_get_item(RequestItems=request)
        found.extend(item["pk"]["S"] for item in answer["Responses"][table])
        request, rounds = answer["UnprocessedKeys"], rounds + 1

    assert [str(n) for n in range(45)] == found
    assert 2 == rounds


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ([key(1), key(1)], "Provided list of item keys contains duplicates"),
        ([{"sk": {"S": "1"}}], "The provided key element does not match the schema"),
        ([{"pk": {"N": "1"}}], "The provided key element does not match the schema"),
        ([{"pk": {"S": ""}}], "cannot contain an empty string value. Key: pk"),
        ([key(n) for n in range(101)], "Member must have length less than or equal to 100"),
    ],
)
def test_invalid_batch_requests_are_refused(
    client: Any, name: str, keys: list[dict[str, Any]], text: str
) -> None:
    with pytest.raises(ClientError) as caught:
        client.batch_get_item(RequestItems={name: {"Keys": keys}})

    assert text in caught.value.response["Error"]["Message"]


def test_a_hundred_keys_are_the_most_of_all_tables_together(
    client: Any, name: str, make_table: MakeTable
) -> None:
    other = make_table("pk:S").name
    keys = [key(n) for n in range(51)]
    with pytest.raises(ClientError, match="Too many items requested for the BatchGetItem call"):
        client.batch_get_item(RequestItems={name: {"Keys": keys}, other: {"Keys": keys}})
