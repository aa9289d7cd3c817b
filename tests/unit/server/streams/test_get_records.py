"""GetRecords, through boto3: the contents of records, the pages, and the end of a shard."""

import re
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.unit.server.streams.clocked import Clock, clocked
from tests.unit.server.streams.conftest import Connect, enabled
from tests.unit.server.streams.reading import iterator, number, read, read_all, shards

pytestmark = pytest.mark.divided

IMAGES = {
    "KEYS_ONLY": set(),
    "NEW_IMAGE": {"NewImage"},
    "OLD_IMAGE": {"OldImage"},
    "NEW_AND_OLD_IMAGES": {"NewImage", "OldImage"},
}


def test_each_change_is_a_record(streams: Any, make_streamed: Callable[..., Any]) -> None:
    table = make_streamed("pk:S", "sk:N")
    before = datetime.now(UTC).replace(microsecond=0)
    table.put_item(Item={"pk": "a", "sk": 1, "colour": "red"})
    table.put_item(Item={"pk": "a", "sk": 1, "colour": "blue"})
    table.delete_item(Key={"pk": "a", "sk": 1})

    records = read_all(streams, table.latest_stream_arn)

    keys = {"pk": {"S": "a"}, "sk": {"N": "1"}}
    red, blue = keys | {"colour": {"S": "red"}}, keys | {"colour": {"S": "blue"}}
    expected = [
        ("INSERT", {"NewImage": red}),
        ("MODIFY", {"NewImage": blue, "OldImage": red}),
        ("REMOVE", {"OldImage": blue}),
    ]
    assert [name for name, _ in expected] == [record["eventName"] for record in records]
    for record, (_, images) in zip(records, expected, strict=True):
        assert re.fullmatch("[0-9a-f]{32}", record["eventID"])
        assert ("1.1", "aws:dynamodb", "us-east-1") == tuple(
            record[member] for member in ("eventVersion", "eventSource", "awsRegion")
        )
        change = record["dynamodb"]
        assert keys == change["Keys"]
        assert images == {name: change[name] for name in change if name.endswith("Image")}
        assert "NEW_AND_OLD_IMAGES" == change["StreamViewType"]
        assert re.fullmatch("[0-9]{21,40}", change["SequenceNumber"])
        assert before <= change["ApproximateCreationDateTime"] <= datetime.now(UTC)
        assert 0 == change["ApproximateCreationDateTime"].microsecond
    assert len({record["eventID"] for record in records}) == 3
    assert sorted(map(number, records)) == list(map(number, records))


def test_the_size_of_a_record_covers_its_images(streams: Any, make_streamed: Callable[..., Any]) -> None:
    table = make_streamed()
    table.put_item(Item={"pk": "abc", "text": "12345"})
    table.delete_item(Key={"pk": "abc"})

    sizes = [record["dynamodb"]["SizeBytes"] for record in read_all(streams, table.latest_stream_arn)]

    assert [5 + 5 + 9, 5 + 5 + 9] == sizes


@pytest.mark.parametrize("view", IMAGES)
def test_a_stream_shows_the_images_of_its_view_type(
    view: str, streams: Any, make_streamed: Callable[..., Any]
) -> None:
    table = make_streamed(view=view)
    table.put_item(Item={"pk": "a", "n": 1})
    table.put_item(Item={"pk": "a", "n": 2})
    table.delete_item(Key={"pk": "a"})

    records = read_all(streams, table.latest_stream_arn)

    there = [{"NewImage"}, {"NewImage", "OldImage"}, {"OldImage"}]
    shown = [{name for name in record["dynamodb"] if name.endswith("Image")} for record in records]
    assert [images & IMAGES[view] for images in there] == shown
    assert {view} == {record["dynamodb"]["StreamViewType"] for record in records}
    assert all({"pk": {"S": "a"}} == record["dynamodb"]["Keys"] for record in records)


def test_a_write_without_a_change_has_no_record(
    client: Any, streams: Any, make_streamed: Callable[..., Any]
) -> None:
    """A repeated put, an update to the same values, a delete of a missing item, a failed condition."""
    table = make_streamed()
    table.put_item(Item={"pk": "a", "n": 1, "s": {"x", "y"}})
    table.put_item(Item={"pk": "a", "n": 1, "s": {"y", "x"}})
    table.update_item(Key={"pk": "a"}, UpdateExpression="SET n = :n", ExpressionAttributeValues={":n": 1})
    table.delete_item(Key={"pk": "b"})
    with pytest.raises(ClientError, match="ConditionalCheckFailed"):
        table.delete_item(Key={"pk": "a"}, ConditionExpression="attribute_not_exists(pk)")

    assert ["INSERT"] == [record["eventName"] for record in read_all(streams, table.latest_stream_arn)]


def test_every_write_has_a_record(client: Any, streams: Any, make_streamed: Callable[..., Any]) -> None:
    table = make_streamed()
    name = table.name
    client.batch_write_item(RequestItems={name: [{"PutRequest": {"Item": {"pk": {"S": "batch"}}}}]})
    client.transact_write_items(
        TransactItems=[
            {"Put": {"TableName": name, "Item": {"pk": {"S": "one"}}}},
            {"Put": {"TableName": name, "Item": {"pk": {"S": "two"}}}},
        ]
    )
    table.update_item(
        Key={"pk": "update"}, UpdateExpression="SET n = :n", ExpressionAttributeValues={":n": 1}
    )

    records = read_all(streams, table.latest_stream_arn)

    assert ["batch", "one", "two", "update"] == sorted(
        record["dynamodb"]["Keys"]["pk"]["S"] for record in records
    )


def test_a_page_has_a_limit_and_the_next_one_goes_on(streams: Any, make_streamed: Callable[..., Any]) -> None:
    table = make_streamed("pk:S", "sk:N")
    for n in range(10):
        table.put_item(Item={"pk": "a", "sk": n})
    arn = table.latest_stream_arn
    pages = []
    for shard in shards(streams, arn):
        at = iterator(streams, arn, shard["ShardId"])
        while (page := streams.get_records(ShardIterator=at, Limit=4))["Records"]:
            pages.append([int(record["dynamodb"]["Keys"]["sk"]["N"]) for record in page["Records"]])
            at = page["NextShardIterator"]

    assert [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]] == pages


def test_a_page_holds_about_a_megabyte(streams: Any, make_streamed: Callable[..., Any]) -> None:
    table = make_streamed("pk:S", "sk:N")
    for n in range(5):
        table.put_item(Item={"pk": "a", "sk": n, "text": "x" * 380_000})
    arn = table.latest_stream_arn
    sizes = []
    for shard in shards(streams, arn):
        at = iterator(streams, arn, shard["ShardId"])
        while (page := streams.get_records(ShardIterator=at))["Records"]:
            sizes.append(len(page["Records"]))
            at = page["NextShardIterator"]

    assert 5 == sum(sizes)
    assert max(sizes) <= 3


def test_pages_that_overlap_have_their_records_and_checksum(
    endpoint: str, connect_streams: Connect, make_streamed: Callable[..., Any]
) -> None:
    """The second reader begins amid the records that are cached for the first, and its page is a long answer."""
    streams = connect_streams(endpoint)
    sums = list[tuple[int, int]]()

    def note(response_dict: dict[str, Any], **_: Any) -> None:
        sums.append((zlib.crc32(response_dict["body"]), int(response_dict["headers"]["x-amz-crc32"])))

    streams.meta.events.register("before-parse.dynamodbstreams.GetRecords", note)
    table = make_streamed("pk:S", "sk:N")
    with table.batch_writer() as batch:
        for n in range(400):
            batch.put_item(Item={"pk": "a", "sk": n, "text": "x" * 1000})
    arn = table.latest_stream_arn
    ((shard, records),) = (
        (shard, read(streams, iterator(streams, arn, shard["ShardId"]))[0])
        for shard in shards(streams, arn)
        if read(streams, iterator(streams, arn, shard["ShardId"]))[0]
    )
    at = iterator(
        streams, arn, shard["ShardId"], "AFTER_SEQUENCE_NUMBER", SequenceNumber=str(number(records[9]))
    )

    assert [*range(400)] == [int(record["dynamodb"]["Keys"]["sk"]["N"]) for record in records]
    assert records[10:] == read(streams, at)[0]
    assert all(found == sent for found, sent in sums)


def test_an_iterator_can_be_used_again_and_again(streams: Any, make_streamed: Callable[..., Any]) -> None:
    """It is a place, not a cursor of the server's: so is the one that follows it, and a later change comes behind."""
    table = make_streamed("pk:S", "sk:N")
    arn = table.latest_stream_arn
    table.put_item(Item={"pk": "a", "sk": 1})
    ((at, first, following),) = (
        (at, *read(streams, at))
        for at in (iterator(streams, arn, shard["ShardId"]) for shard in shards(streams, arn))
        if read(streams, at)[0]
    )
    assert first == read(streams, at)[0]
    table.put_item(Item={"pk": "a", "sk": 2})

    assert ["2"] == [record["dynamodb"]["Keys"]["sk"]["N"] for record in read(streams, following)[0]]
    assert 2 == len(read(streams, at)[0])


def test_a_shard_of_a_stream_that_was_disabled_ends(
    client: Any, streams: Any, make_streamed: Callable[..., Any]
) -> None:
    table = make_streamed()
    arn = table.latest_stream_arn
    table.put_item(Item={"pk": "a"})
    client.update_table(TableName=table.name, StreamSpecification={"StreamEnabled": False})
    table.put_item(Item={"pk": "b"})

    ends = [read(streams, iterator(streams, arn, shard["ShardId"])) for shard in shards(streams, arn)]

    assert ["a"] == [record["dynamodb"]["Keys"]["pk"]["S"] for records, _ in ends for record in records]
    assert {None} == {at for _, at in ends}


def test_a_record_shows_a_deletion_by_time_to_live(connect: Connect, connect_streams: Connect) -> None:
    clock = Clock()
    with clocked(None, clock) as endpoint:
        client, streams = connect(endpoint).meta.client, connect_streams(endpoint)
        client.create_table(
            TableName="Sessions",
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
            StreamSpecification=enabled(),
        )
        client.update_time_to_live(
            TableName="Sessions", TimeToLiveSpecification={"Enabled": True, "AttributeName": "until"}
        )
        client.put_item(TableName="Sessions", Item={"pk": "a", "until": clock() // 1000 + 60})
        client.put_item(TableName="Sessions", Item={"pk": "b"})
        client.delete_item(TableName="Sessions", Key={"pk": "b"})
        clock.move(120_000)
        arn = client.describe_table(TableName="Sessions")["Table"]["LatestStreamArn"]
        records: list[Any] = []
        while len(records) < 4:
            records = read_all(streams, arn)

    by_hand, by_time = (record for record in records if record["eventName"] == "REMOVE")
    assert "userIdentity" not in by_hand
    assert {"PrincipalId": "dynamodb.amazonaws.com", "Type": "Service"} == by_time["userIdentity"]


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"ShardIterator": "x"}, "ValidationException"),
        ({"ShardIterator": ""}, "ValidationException"),
        ({"ShardIterator": "x" * 2049}, "ValidationException"),
        ({}, "ValidationException"),
        ({"ShardIterator": "x", "Limit": 0}, "ValidationException"),
        ({"ShardIterator": "x", "Limit": 1001}, "ValidationException"),
    ],
)
def test_a_malformed_request_is_refused(request_: dict[str, Any], code: str, streams: Any) -> None:
    with pytest.raises(ClientError) as caught:
        streams.get_records(**request_)

    assert code == caught.value.response["Error"]["Code"]
