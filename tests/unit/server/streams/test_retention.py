"""For how long a stream can be read: 24 hours of log time, and iterators for a quarter of one."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.tables import table_request
from tests.unit.server.streams.clocked import HOUR_MS, Clock, clocked
from tests.unit.server.streams.conftest import Connect, enabled
from tests.unit.server.streams.reading import iterator, read, read_all, shards


def code_of(caught: pytest.ExceptionInfo[ClientError]) -> str:
    return str(caught.value.response["Error"]["Code"])


def stream_of(client: Any) -> str:
    return str(client.describe_table(TableName="Cars")["Table"]["LatestStreamArn"])


def create(client: Any) -> str:
    client.create_table(**table_request("Cars", "pk:S", StreamSpecification=enabled()))
    return stream_of(client)


@pytest.mark.parametrize("how", ["disabled", "deleted"])
@pytest.mark.parametrize("partitions", [1, 2])
def test_a_stream_that_ended_is_there_for_a_day(
    how: str, partitions: int, connect: Connect, connect_streams: Connect
) -> None:
    clock = Clock()
    with clocked(None, clock, partitions=partitions) as endpoint:
        client, streams = connect(endpoint).meta.client, connect_streams(endpoint)
        arn = create(client)
        client.put_item(TableName="Cars", Item={"pk": "a"})
        if how == "disabled":
            client.update_table(TableName="Cars", StreamSpecification={"StreamEnabled": False})
        else:
            client.delete_table(TableName="Cars")
        client.create_table(**table_request("Others", "pk:S"))
        clock.move(24 * HOUR_MS - 1000)
        client.put_item(TableName="Others", Item={"pk": "a"})
        assert 1 == len(read_all(streams, arn))
        assert [arn] == [stream["StreamArn"] for stream in streams.list_streams()["Streams"]]

        clock.move(2000)
        for n in range(20):  # every write advances log time, in any partition
            client.put_item(TableName="Others", Item={"pk": str(n)})
        assert [] == streams.list_streams()["Streams"]
        with pytest.raises(ClientError) as caught:
            streams.describe_stream(StreamArn=arn)
        assert "ResourceNotFoundException" == code_of(caught)


def test_with_all_kept_nothing_is_trimmed(connect: Connect, connect_streams: Connect) -> None:
    clock = Clock()
    with clocked(None, clock, stream_retention_ms=0) as endpoint:
        client, streams = connect(endpoint).meta.client, connect_streams(endpoint)
        arn = create(client)
        for n in range(5):
            client.put_item(TableName="Cars", Item={"pk": str(n)})
            clock.move(1000 * HOUR_MS)

        assert 5 == len(read_all(streams, arn))


def test_an_iterator_is_good_for_a_quarter_of_an_hour(connect: Connect, connect_streams: Connect) -> None:
    clock = Clock()
    with clocked(None, clock) as endpoint:
        client, streams = connect(endpoint).meta.client, connect_streams(endpoint)
        arn = create(client)
        (shard,) = shards(streams, arn)
        at = iterator(streams, arn, shard["ShardId"])
        clock.move(15 * 60_000)
        following = read(streams, at)[1]
        clock.move(1)
        with pytest.raises(ClientError) as caught:
            streams.get_records(ShardIterator=at)
        assert {"Code": "ExpiredIteratorException", "Message": "Shard iterator has expired"} == (
            caught.value.response["Error"]
        )
        assert [] == read(streams, following)[0]


def test_changes_older_than_a_day_are_trimmed(connect: Connect, connect_streams: Connect) -> None:
    clock = Clock()
    with clocked(None, clock) as endpoint:
        client, streams = connect(endpoint).meta.client, connect_streams(endpoint)
        arn = create(client)
        for n in range(30):
            client.put_item(TableName="Cars", Item={"pk": str(n)})
            clock.move(HOUR_MS)
            if n == 0:
                (first,) = read_all(streams, arn)
        (shard, *_) = shards(streams, arn)
        left = [int(record["dynamodb"]["Keys"]["pk"]["S"]) for record in read_all(streams, arn)]
        assert list(range(left[0], 30)) == left
        assert 5 <= left[0] <= 8
        with pytest.raises(ClientError) as caught:
            iterator(
                streams,
                arn,
                shard["ShardId"],
                "AT_SEQUENCE_NUMBER",
                SequenceNumber=first["dynamodb"]["SequenceNumber"],
            )
        assert "TrimmedDataAccessException" == code_of(caught)


def test_an_iterator_does_not_skip_trimmed_changes(connect: Connect, connect_streams: Connect) -> None:
    clock = Clock()
    with clocked(None, clock, stream_retention_ms=60_000) as endpoint:
        client, streams = connect(endpoint).meta.client, connect_streams(endpoint)
        arn = create(client)
        client.put_item(TableName="Cars", Item={"pk": "read"})
        client.put_item(TableName="Cars", Item={"pk": "missed"})
        (shard,) = shards(streams, arn)
        begun = iterator(streams, arn, shard["ShardId"])
        standing = streams.get_records(ShardIterator=begun, Limit=1)["NextShardIterator"]
        for n in range(10):
            clock.move(60_000)
            client.put_item(TableName="Cars", Item={"pk": str(n)})
        with pytest.raises(ClientError) as caught:
            streams.get_records(ShardIterator=standing)

        assert "TrimmedDataAccessException" == code_of(caught)
        assert read(streams, begun)[0], "from the oldest on is from whatever is the oldest now"
