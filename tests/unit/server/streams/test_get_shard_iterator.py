"""GetShardIterator: each iterator type, and malformed requests."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from foldb.materializer.feed_requests import FeedAnswer, FeedRequest, FoundSequenceNumber, OnFed, Shards
from foldb.materializer.partition import EncodedKey, OnItems, ResultPosition
from foldb.model.errors import RequestError
from foldb.server.database import Database
from tests.support.tables import table_request
from tests.unit.server.streams.clocked import HOUR_MS, Clock, clocked
from tests.unit.server.streams.conftest import Connect, enabled
from tests.unit.server.streams.reading import Json, iterator, read, shards

pytestmark = pytest.mark.divided


class Told:
    """A table whose only partition key is in one shard, with the changes 0 to 4."""

    def __init__(self, streams: Any, table: Any) -> None:
        self.streams, self.table, self.arn = streams, table, table.latest_stream_arn
        for n in range(5):
            table.put_item(Item={"pk": "a", "sk": n})
        ((self.shard, self.records),) = (
            (shard, records)
            for shard in shards(streams, self.arn)
            if (records := read(streams, iterator(streams, self.arn, shard["ShardId"]))[0])
        )

    def begin(self, kind: str, **more: Any) -> str:
        return iterator(self.streams, self.arn, self.shard["ShardId"], kind, **more)

    def read(self, at: str) -> list[int]:
        return [int(record["dynamodb"]["Keys"]["sk"]["N"]) for record in read(self.streams, at)[0]]

    def number(self, nth: int) -> str:
        return str(self.records[nth]["dynamodb"]["SequenceNumber"])


@pytest.fixture
def reported(streams: Any, make_streamed: Callable[..., Any]) -> Told:
    return Told(streams, make_streamed("pk:S", "sk:N"))


def test_from_the_oldest(reported: Told) -> None:
    assert [0, 1, 2, 3, 4] == reported.read(reported.begin("TRIM_HORIZON"))


def test_from_now_on(reported: Told) -> None:
    """Only changes after the answer with the iterator are read."""
    at = reported.begin("LATEST")
    assert [] == reported.read(at)
    reported.table.put_item(Item={"pk": "a", "sk": 5})

    assert [5] == reported.read(at)


@pytest.mark.parametrize("nth", range(5))
def test_from_a_number(nth: int, reported: Told) -> None:
    number = reported.number(nth)

    assert list(range(nth, 5)) == reported.read(reported.begin("AT_SEQUENCE_NUMBER", SequenceNumber=number))
    assert list(range(nth + 1, 5)) == reported.read(
        reported.begin("AFTER_SEQUENCE_NUMBER", SequenceNumber=number)
    )


def test_from_the_number_that_a_shard_begins_with(reported: Told) -> None:
    start = reported.shard["SequenceNumberRange"]["StartingSequenceNumber"]

    assert [0, 1, 2, 3, 4] == reported.read(reported.begin("AT_SEQUENCE_NUMBER", SequenceNumber=start))


@pytest.mark.parametrize("partitions", [1, 8])
def test_from_a_time(partitions: int, connect: Connect, connect_streams: Connect) -> None:
    clock = Clock()
    with clocked(None, clock, partitions=partitions) as endpoint:
        client, streams = connect(endpoint).meta.client, connect_streams(endpoint)
        client.create_table(**table_request("Cars", "pk:S", "sk:N", StreamSpecification=enabled()))
        arn = client.describe_table(TableName="Cars")["Table"]["LatestStreamArn"]
        begun = clock()
        for n in range(5):
            clock.move(60_000)
            client.put_item(TableName="Cars", Item={"pk": "a", "sk": n})

        def told_from(time_ms: int) -> list[int]:
            at = datetime.fromtimestamp(time_ms / 1000, UTC)
            records = [
                record
                for shard in shards(streams, arn)
                for record in read(
                    streams, iterator(streams, arn, shard["ShardId"], "AT_TIMESTAMP", Timestamp=at)
                )[0]
            ]
            return [int(record["dynamodb"]["Keys"]["sk"]["N"]) for record in records]

        assert [0, 1, 2, 3, 4] == told_from(begun - 3_600_000)
        assert [2, 3, 4] == told_from(begun + 180_000)
        assert [3, 4] == told_from(begun + 180_001)
        assert [4] == told_from(clock())


def test_a_record_time_is_valid_after_the_clock_went_back(connect: Connect, connect_streams: Connect) -> None:
    clock = Clock()
    with clocked(None, clock) as endpoint:
        client, streams = connect(endpoint).meta.client, connect_streams(endpoint)
        client.create_table(**table_request("Cars", "pk:S", StreamSpecification=enabled()))
        arn = client.describe_table(TableName="Cars")["Table"]["LatestStreamArn"]
        written = clock()
        clock.move(-600_000)
        client.put_item(TableName="Cars", Item={"pk": "a"})
        [shard] = shards(streams, arn)

        at = datetime.fromtimestamp(written / 1000, UTC)
        records, _ = read(streams, iterator(streams, arn, shard["ShardId"], "AT_TIMESTAMP", Timestamp=at))

    assert ["a"] == [record["dynamodb"]["Keys"]["pk"]["S"] for record in records]


class Behind:
    """A partition on a node that took it over, without the newest numbers or shards until a consistent read."""

    def __init__(self, partition: Any, lacks: type[FeedAnswer]) -> None:
        self._partition = partition
        self._lacks = lacks
        self._is_behind = True

    def feed(self, request: FeedRequest, done: OnFed) -> None:
        def answer(found: FeedAnswer | RequestError, position: ResultPosition) -> None:
            if isinstance(found, self._lacks) and self._is_behind:
                match found:
                    case FoundSequenceNumber():
                        found = replace(found, after=found.trim_horizon)
                    case Shards():
                        found = replace(found, shards=found.shards[:1])
            done(found, position)

        self._partition.feed(request, answer)

    def get_all(self, keys: Sequence[EncodedKey], consistent: bool, done: OnItems) -> None:
        self._is_behind = not consistent
        self._partition.get_all(keys, consistent, done)


@pytest.mark.guarantee("G35")
@pytest.mark.parametrize(
    ("lacks", "kind"),
    [
        (FoundSequenceNumber, "AT_SEQUENCE_NUMBER"),
        (FoundSequenceNumber, "AFTER_SEQUENCE_NUMBER"),
        (Shards, "AFTER_SEQUENCE_NUMBER"),
        (FoundSequenceNumber, "LATEST"),
        (FoundSequenceNumber, "AT_TIMESTAMP"),
        (Shards, "TRIM_HORIZON"),
    ],
)
def test_a_node_finds_what_a_failed_node_had_answered(
    lacks: type[FeedAnswer],
    kind: str,
    connect: Connect,
    connect_streams: Connect,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A sequence number of a record, a shard that the log has begun since, and the end."""
    clock, more = Clock(), dict[str, Any]()
    with clocked(None, clock, shard_age_ms=HOUR_MS) as endpoint:
        client, streams = connect(endpoint).meta.client, connect_streams(endpoint)
        client.create_table(**table_request("Cars", "pk:S", StreamSpecification=enabled()))
        arn = client.describe_table(TableName="Cars")["Table"]["LatestStreamArn"]
        for pk in "ab":
            client.put_item(TableName="Cars", Item={"pk": pk})
            clock.move(HOUR_MS)
        shard = shards(streams, arn)[-1]["ShardId"]
        records, _ = read(streams, iterator(streams, arn, shard))
        if kind.endswith("SEQUENCE_NUMBER"):
            more = {"SequenceNumber": records[-1]["dynamodb"]["SequenceNumber"]}
        elif kind == "AT_TIMESTAMP":
            more = {"Timestamp": datetime.fromtimestamp(clock() / 1000, UTC)}

        partitions, behind = Database.partitions_of_feed, dict[int, Behind]()

        def taken_over(database: Database) -> dict[int, Behind]:
            for partition_id, partition in partitions(database).items():
                behind.setdefault(partition_id, Behind(partition, lacks))
            return behind

        monkeypatch.setattr(Database, "partitions_of_feed", taken_over)
        again, _ = read(streams, iterator(streams, arn, shard, kind, **more))

    assert ["b"] == [record["dynamodb"]["Keys"]["pk"]["S"] for record in records]
    assert (records if kind in ("AT_SEQUENCE_NUMBER", "TRIM_HORIZON") else []) == again


NUMBER = "1".zfill(27)


@pytest.mark.parametrize(
    ("wrong", "code", "message"),
    [
        ({"ShardIteratorType": "AT_SEQUENCE_NUMBER"}, "ValidationException", "SequenceNumber must be specified"),
        ({"ShardIteratorType": "AFTER_SEQUENCE_NUMBER"}, "ValidationException", "SequenceNumber must be specified"),
        ({"ShardIteratorType": "AT_TIMESTAMP"}, "ValidationException", "Timestamp must be specified"),
        ({"SequenceNumber": NUMBER}, "ValidationException", "SequenceNumber must not be specified"),
        ({"Timestamp": 1.5}, "ValidationException", "Timestamp must not be specified"),
        ({"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": 32_503_680_000}, "ValidationException", "in the future"),
        ({"ShardIteratorType": "BULLE"}, "ValidationException", "Member must satisfy enum value set"),
        ({"ShardIteratorType": "AT_SEQUENCE_NUMBER", "SequenceNumber": "x" * 27}, "ValidationException", "Invalid Seq"),
        ({"ShardIteratorType": "AT_SEQUENCE_NUMBER", "SequenceNumber": "9" * 40}, "ValidationException", "range"),
        (
            {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "SequenceNumber": NUMBER},
            "TrimmedDataAccessException",
            "The data you are trying to access has been trimmed",
        ),
        ({"ShardId": "s" * 30}, "ResourceNotFoundException", "Requested resource not found: Shard does not exist"),
        (
            {"ShardId": "shardId-00000000000000000000-0fff0000"},
            "ResourceNotFoundException",
            "Requested resource not found: Shard does not exist",
        ),
        ({"ShardId": "s"}, "ValidationException", "Member must have length greater than or equal to 28"),
        ({"StreamArn": "x" * 64}, "ValidationException", "Invalid StreamArn"),
    ],
)  # fmt: skip
def test_errors_name_the_mistake(
    wrong: Json, code: str, message: str, streams: Any, make_streamed: Callable[..., Any]
) -> None:
    arn = make_streamed().latest_stream_arn
    right = {"StreamArn": arn, "ShardId": shards(streams, arn)[0]["ShardId"], "ShardIteratorType": "LATEST"}
    with pytest.raises(ClientError) as caught:
        streams.get_shard_iterator(**(right | wrong))

    assert code == caught.value.response["Error"]["Code"]
    assert message in caught.value.response["Error"]["Message"]


def test_another_streams_shard_is_none_of_this_one(streams: Any, make_streamed: Callable[..., Any]) -> None:
    one, other = (make_streamed().latest_stream_arn for _ in range(2))
    with pytest.raises(ClientError, match="Shard does not exist"):
        iterator(streams, one, shards(streams, other)[0]["ShardId"])
