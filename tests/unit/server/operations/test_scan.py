"""Scan, through boto3."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.tables import MakeTable

pytestmark = pytest.mark.divided

COUNT = 40


@pytest.fixture(scope="module")
def name(make_module_table: MakeTable, client: Any) -> str:
    """Forty items; every other one is in the sparse index."""
    table: str = make_module_table("pk:S", "sk:N", gsi={"Colours": "colour:S"}).name
    for n in range(COUNT):
        item = {"pk": {"S": str(n % 10)}, "sk": {"N": str(n)}}
        client.put_item(TableName=table, Item=item | ({"colour": {"S": "red"}} if n % 2 else {}))
    return table


def all_pages(client: Any, **parameters: Any) -> list[int]:
    found: list[int] = []
    start: dict[str, Any] = {}
    while True:
        page = client.scan(**parameters, **start)
        found.extend(int(item["sk"]["N"]) for item in page["Items"])
        if "LastEvaluatedKey" not in page:
            return found
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}


@pytest.mark.parametrize("limit", [1, 7, COUNT, COUNT + 1])
@pytest.mark.parametrize("index", [None, "Colours"])
def test_pages_are_disjoint_and_complete(client: Any, name: str, limit: int, index: str | None) -> None:
    place = {} if index is None else {"IndexName": index}
    found = all_pages(client, TableName=name, Limit=limit, **place)

    assert list(range(COUNT) if index is None else range(1, COUNT, 2)) == sorted(found)


@pytest.mark.parametrize("segments", [1, 3, 64])
@pytest.mark.spec("S75")
def test_segments_are_disjoint_and_complete(client: Any, name: str, segments: int) -> None:
    whole = all_pages(client, TableName=name)
    parts = [all_pages(client, TableName=name, Segment=n, TotalSegments=segments) for n in range(segments)]

    assert whole == [key for part in parts for key in part]


def test_there_may_be_a_million_segments(client: Any, name: str) -> None:
    found = all_pages(client, TableName=name, Segment=999_999, TotalSegments=1_000_000)

    assert len(found) < COUNT


def test_a_start_must_lie_in_its_segment(client: Any, name: str) -> None:
    last = client.scan(TableName=name, Limit=COUNT - 1)["LastEvaluatedKey"]
    with pytest.raises(ClientError, match="Please use ExclusiveStartKey with correct Segment"):
        client.scan(TableName=name, Segment=0, TotalSegments=1000, ExclusiveStartKey=last)


def test_a_filter_is_charged_for_the_items_it_drops(client: Any, name: str) -> None:
    answer = client.scan(
        TableName=name,
        FilterExpression="attribute_exists(nothing)",
        ReturnConsumedCapacity="TOTAL",
    )

    assert (0, COUNT, []) == (answer["Count"], answer["ScannedCount"], answer["Items"])
    assert 0.5 == answer["ConsumedCapacity"]["CapacityUnits"]


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"Segment": 1}, "The TotalSegments parameter is required but was not present"),
        ({"TotalSegments": 1}, "The Segment parameter is required but was not present"),
        ({"Segment": 4, "TotalSegments": 4}, "Segment: 4 is not less than TotalSegments: 4"),
        ({"Select": "SPECIFIC_ATTRIBUTES"}, "Must specify the AttributesToGet or ProjectionExpression"),
        ({"ExclusiveStartKey": {"pk": {"S": "1"}}}, "The provided starting key is invalid"),
        ({"IndexName": "Colours", "ConsistentRead": True}, "Consistent reads are not supported on global"),
    ],
)
def test_invalid_scans_are_refused(client: Any, name: str, parameters: dict[str, Any], text: str) -> None:
    with pytest.raises(ClientError) as caught:
        client.scan(TableName=name, **parameters)

    assert text in caught.value.response["Error"]["Message"]
