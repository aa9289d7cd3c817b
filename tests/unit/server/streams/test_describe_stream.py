"""DescribeStream: the description of a stream, and the shards of all partitions."""

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.tables import table_request
from tests.unit.server.streams.clocked import HOUR_MS, Clock, clocked
from tests.unit.server.streams.conftest import Connect, enabled
from tests.unit.server.streams.reading import iterator, number, read, shards

pytestmark = pytest.mark.divided

Json = dict[str, Any]


def test_a_stream_is_described(streams: Any, make_streamed: Callable[..., Any]) -> None:
    table = make_streamed("pk:S", "sk:N", view="NEW_IMAGE")
    arn = table.latest_stream_arn

    stream = streams.describe_stream(StreamArn=arn)["StreamDescription"]

    assert (arn, "ENABLED", "NEW_IMAGE", table.name) == tuple(
        stream[name] for name in ("StreamArn", "StreamStatus", "StreamViewType", "TableName")
    )
    assert f"{table.table_arn}/stream/{stream['StreamLabel']}" == arn
    assert table.key_schema == stream["KeySchema"]
    label = stream["CreationRequestDateTime"].strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
    assert label == stream["StreamLabel"] == table.latest_stream_label


def test_every_partition_has_an_open_shard_from_the_start(
    streams: Any, make_streamed: Callable[..., Any], request: pytest.FixtureRequest
) -> None:
    arn = make_streamed().latest_stream_arn

    found = shards(streams, arn)

    assert len(found) == (8 if "8 partitions" in request.node.name else 1)
    for shard in found:
        assert 28 <= len(shard["ShardId"]) <= 65
        assert 21 <= len(shard["SequenceNumberRange"]["StartingSequenceNumber"]) <= 40
        assert "EndingSequenceNumber" not in shard["SequenceNumberRange"]
        assert "ParentShardId" not in shard


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_shards_come_in_pages(limit: int, streams: Any, make_streamed: Callable[..., Any]) -> None:
    arn = make_streamed().latest_stream_arn
    every = shards(streams, arn)

    assert every == shards(streams, arn, limit)
    ids = [shard["ShardId"] for shard in every]
    assert sorted(ids) == ids
    behind = streams.describe_stream(StreamArn=arn, ExclusiveStartShardId=ids[-1])["StreamDescription"]
    assert ([], False) == (behind["Shards"], "LastEvaluatedShardId" in behind)


@pytest.mark.parametrize("partitions", [1, 8])
def test_shards_roll_with_age_and_each_has_its_parent(
    partitions: int, connect: Connect, connect_streams: Connect
) -> None:
    """Only by log time, and only where something changes: nothing happens in an idle database."""
    clock = Clock()
    with clocked(None, clock, shard_age_ms=HOUR_MS, partitions=partitions) as endpoint:
        client, streams = connect(endpoint).meta.client, connect_streams(endpoint)
        client.create_table(**table_request("Cars", "pk:S", StreamSpecification=enabled()))
        for _ in range(4):
            for n in range(40):
                client.update_item(
                    TableName="Cars",
                    Key={"pk": str(n)},
                    UpdateExpression="ADD n :one",
                    ExpressionAttributeValues={":one": 1},
                )
            clock.move(HOUR_MS)
        arn = client.describe_table(TableName="Cars")["Table"]["LatestStreamArn"]
        found = shards(streams, arn)
        children = {
            shard["ShardId"]: streams.describe_stream(
                StreamArn=arn, ShardFilter={"Type": "CHILD_SHARDS", "ShardId": shard["ShardId"]}
            )["StreamDescription"]["Shards"]
            for shard in found
        }
        read_of = {
            shard["ShardId"]: read(streams, iterator(streams, arn, shard["ShardId"])) for shard in found
        }

    assert 4 * partitions == len(found)
    parents = {shard.get("ParentShardId") for shard in found}
    for shard in found:
        numbers, (records, at) = shard["SequenceNumberRange"], read_of[shard["ShardId"]]
        is_closed = "EndingSequenceNumber" in numbers
        assert is_closed == (shard["ShardId"] in parents) == (at is None)
        assert int(numbers["StartingSequenceNumber"]) <= number(records[0])
        following = [other for other in found if other.get("ParentShardId") == shard["ShardId"]]
        assert following == children[shard["ShardId"]]
        if is_closed:
            (child,) = following
            begins = int(child["SequenceNumberRange"]["StartingSequenceNumber"])
            assert number(records[-1]) <= int(numbers["EndingSequenceNumber"]) < begins
    assert 4 * 40 == sum(len(records) for records, _ in read_of.values())


def test_an_unknown_shard_has_no_children(connect: Connect, connect_streams: Connect) -> None:
    clock = Clock()
    with clocked(None, clock, shard_age_ms=HOUR_MS) as endpoint:
        client, streams = connect(endpoint).meta.client, connect_streams(endpoint)
        arns, firsts = [], []
        for name in ("Cars", "More"):
            client.create_table(**table_request(name, "pk:S", StreamSpecification=enabled()))
            arns.append(client.describe_table(TableName=name)["Table"]["LatestStreamArn"])
            firsts.append(shards(streams, arns[-1])[0]["ShardId"])
            clock.move(HOUR_MS + 1)
            client.put_item(TableName=name, Item={"pk": "a"})

        def children(parent: str) -> list[Json]:
            child_shards = {"Type": "CHILD_SHARDS", "ShardId": parent}
            described = streams.describe_stream(StreamArn=arns[1], ShardFilter=child_shards)
            return list(described["StreamDescription"]["Shards"])

        assert [firsts[1]] == [each["ParentShardId"] for each in children(firsts[1])]
        for other in (firsts[0], f"shardId-{'9' * 20}-00000000", f"shardId-{'9' * 20}"):
            assert [] == children(other)


def test_a_stream_takes_as_long_as_its_table(
    connect: Connect, connect_streams: Connect, tmp_path: Path
) -> None:
    """Where tables take their time, as DynamoDB's do, streams are ENABLING and DISABLING for so long."""
    clock = Clock()

    def status(endpoint: str, arn: str) -> str:
        stream = connect_streams(endpoint).describe_stream(StreamArn=arn)["StreamDescription"]
        return str(stream["StreamStatus"])

    with clocked(tmp_path, clock) as endpoint:
        made = connect(endpoint).meta.client.create_table(
            **table_request("Cars", "pk:S", StreamSpecification=enabled())
        )
        cars = made["TableDescription"]["LatestStreamArn"]
        assert "ENABLED" == status(endpoint, cars)
    with clocked(tmp_path, clock, table_delay_ms=60_000) as endpoint:
        client = connect(endpoint).meta.client
        made = client.create_table(**table_request("More", "pk:S", StreamSpecification=enabled()))
        more = made["TableDescription"]["LatestStreamArn"]
        client.update_table(TableName="Cars", StreamSpecification={"StreamEnabled": False})
        assert ["DISABLING", "ENABLING"] == [status(endpoint, arn) for arn in (cars, more)]
        clock.move(61_000)
        assert ["DISABLED", "ENABLED"] == [status(endpoint, arn) for arn in (cars, more)]


def test_a_disabled_stream_stays_and_a_new_one_has_a_new_label(
    client: Any, streams: Any, make_streamed: Callable[..., Any]
) -> None:
    table = make_streamed()
    old = table.latest_stream_arn
    table.put_item(Item={"pk": "a"})
    client.update_table(TableName=table.name, StreamSpecification={"StreamEnabled": False})
    client.update_table(TableName=table.name, StreamSpecification=enabled("KEYS_ONLY"))
    table.put_item(Item={"pk": "b"})
    table.load()
    new = table.latest_stream_arn

    described = [streams.describe_stream(StreamArn=arn)["StreamDescription"] for arn in (old, new)]
    reported = [
        [
            record["dynamodb"]["Keys"]["pk"]["S"]
            for shard in shards(streams, arn)
            for record in read(streams, iterator(streams, arn, shard["ShardId"]))[0]
        ]
        for arn in (old, new)
    ]

    assert old != new
    assert [("DISABLED", "NEW_AND_OLD_IMAGES"), ("ENABLED", "KEYS_ONLY")] == [
        (each["StreamStatus"], each["StreamViewType"]) for each in described
    ]
    assert all("EndingSequenceNumber" in shard["SequenceNumberRange"] for shard in described[0]["Shards"])
    assert [["a"], ["b"]] == reported


def test_a_stream_outlives_its_table(client: Any, streams: Any) -> None:
    name = f"t-{uuid.uuid4().hex[:12]}"
    made = client.create_table(**table_request(name, "pk:S", StreamSpecification=enabled()))
    arn = made["TableDescription"]["LatestStreamArn"]
    client.put_item(TableName=name, Item={"pk": {"S": "a"}})
    client.delete_table(TableName=name)

    assert "DISABLED" == streams.describe_stream(StreamArn=arn)["StreamDescription"]["StreamStatus"]
    found = shards(streams, arn)
    assert 1 == sum(len(read(streams, iterator(streams, arn, shard["ShardId"]))[0]) for shard in found)


NOWHERE = "arn:aws:dynamodb:us-east-1:000000000000:table/nowhere/stream/2026-11-21T10:00:00.123"


@pytest.mark.parametrize(
    ("wrong", "code", "message"),
    [
        ({"StreamArn": "fake-stream"}, "ValidationException", "Invalid StreamArn"),
        ({"StreamArn": "x" * 50}, "ValidationException", "Invalid StreamArn"),
        (
            {"StreamArn": NOWHERE},
            "ResourceNotFoundException",
            f"Requested resource not found: Stream: {NOWHERE} not found",
        ),
        (
            {"StreamArn": NOWHERE, "Limit": 101},
            "ValidationException",
            "1 validation error detected: Value '101' at 'limit' failed to satisfy constraint: "
            "Member must have value less than or equal to 100",
        ),
        (
            {"StreamArn": NOWHERE, "ShardFilter": {"Type": "PARENTS"}},
            "ValidationException",
            "1 validation error detected: Value 'PARENTS' at 'shardFilter.type' failed to satisfy constraint: "
            "Member must satisfy enum value set: [CHILD_SHARDS]",
        ),
    ],
)
def test_errors_have_dynamodbs_messages(wrong: Json, code: str, message: str, streams: Any) -> None:
    with pytest.raises(ClientError) as caught:
        streams.describe_stream(**wrong)

    assert {"Code": code, "Message": message} == caught.value.response["Error"]
