"""BatchWriteItem, through boto3."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.tables import MakeTable

pytestmark = pytest.mark.divided


def key(text: object) -> dict[str, Any]:
    return {"pk": {"S": str(text)}}


def put(text: object, **attributes: Any) -> dict[str, Any]:
    return {"PutRequest": {"Item": {**key(text), **attributes}}}


def delete(text: object) -> dict[str, Any]:
    return {"DeleteRequest": {"Key": key(text)}}


@pytest.fixture
def name(make_table: MakeTable) -> str:
    table: str = make_table("pk:S").name
    return table


def test_a_batch_writes_to_several_tables(client: Any, name: str, make_table: MakeTable) -> None:
    other = make_table("pk:S").name
    client.put_item(TableName=other, Item=key("old"))
    answer = client.batch_write_item(
        RequestItems={name: [put("a"), put("b", d={"S": "x" * 2000})], other: [delete("old"), put("new")]},
        ReturnConsumedCapacity="TOTAL",
    )

    assert {} == answer["UnprocessedItems"]
    assert [
        {"TableName": name, "CapacityUnits": 3.0},
        {"TableName": other, "CapacityUnits": 2.0},
    ] == answer["ConsumedCapacity"]
    assert 2 == client.scan(TableName=name)["Count"]
    assert [key("new")] == client.scan(TableName=other)["Items"]


@pytest.mark.parametrize("item", [{"x": {"S": "1"}}, {"pk": {"N": "1"}}, {"pk": {"L": []}}])
def test_one_bad_request_keeps_all_from_being_done(client: Any, name: str, item: dict[str, Any]) -> None:
    """
    Of a key that is missing or of another type a batch says less than PutItem does, as DynamoDB's does.
    """
    with pytest.raises(ClientError, match="The provided key element does not match the schema"):
        client.batch_write_item(RequestItems={name: [put("a"), {"PutRequest": {"Item": item}}]})

    assert 0 == client.scan(TableName=name)["Count"]


@pytest.mark.spec("X11")
@pytest.mark.parametrize(
    ("requests", "text"),
    [
        ([put("a"), put("")], "cannot contain an empty string value. Key: pk"),
        ([put("a"), delete("")], "cannot contain an empty string value. Key: pk"),
        ([put("a"), put("a")], "Provided list of item keys contains duplicates"),
        ([put("a"), delete("a")], "Provided list of item keys contains duplicates"),
        ([delete("a"), delete("a")], "Provided list of item keys contains duplicates"),
        ([{}], "Supplied WriteRequest must contain exactly one of PutRequest and DeleteRequest"),
        ([put("a") | delete("a")], "Supplied WriteRequest must contain exactly one of"),
        ([put(n) for n in range(26)], "Member must have length less than or equal to 25"),
    ],
)
def test_invalid_batch_requests_are_refused(
    client: Any, name: str, requests: list[dict[str, Any]], text: str
) -> None:
    with pytest.raises(ClientError) as caught:
        client.batch_write_item(RequestItems={name: requests})

    assert text in caught.value.response["Error"]["Message"]


def test_a_batch_has_at_most_25_requests_over_all_tables(
    client: Any, name: str, make_table: MakeTable
) -> None:
    other = make_table("pk:S").name
    with pytest.raises(ClientError, match="Too many items requested for the BatchWriteItem call"):
        client.batch_write_item(
            RequestItems={name: [put(n) for n in range(13)], other: [put(n) for n in range(13)]}
        )


def test_collection_sizes_are_returned_for_local_indexes(
    client: Any, name: str, make_table: MakeTable
) -> None:
    local = make_table("pk:S", "sk:S", lsi={"Years": "year:N"}).name
    items = [put("a", sk={"S": str(n)}) for n in range(2)]
    answer = client.batch_write_item(
        RequestItems={local: items, name: [put("a")]}, ReturnItemCollectionMetrics="SIZE"
    )

    one = {"ItemCollectionKey": key("a"), "SizeEstimateRangeGB": [0.0, 1.0]}
    assert {local: [one, one]} == answer["ItemCollectionMetrics"]
