"""boto3's client of DynamoDB Streams reads a table to its end while it is written to, across shards that roll.

It reads like applications: it lists the shards repeatedly, begins a child when its parent has ended, and follows
NextShardIterator until there is none. The records are compared with the writes.
"""

import json
import uuid
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.support.raw import ask
from tests.support.served import served

KEYS = 25
ROLLS = 4


class Reader:
    """Reads shards, and keeps an iterator for each."""

    def __init__(self, client: Any, arn: str) -> None:
        self._client = client
        self._arn = arn
        self._at: dict[str, str | None] = {}
        self.records: list[Any] = []

    @property
    def ended(self) -> int:
        """How many shards it has read to their end."""
        return sum(at is None for at in self._at.values())

    def look(self) -> None:
        """Begin the shards that can be begun, and read all that there is."""
        for shard in self._shards():
            parent, name = shard.get("ParentShardId"), shard["ShardId"]
            if name not in self._at and (parent is None or self._at.get(parent, "") is None):
                begun = self._client.get_shard_iterator(
                    StreamArn=self._arn, ShardId=name, ShardIteratorType="TRIM_HORIZON"
                )
                self._at[name] = begun["ShardIterator"]
            if self._at.get(name) is not None:
                self._read(name)

    def _shards(self) -> Iterator[Any]:
        more: dict[str, Any] = {}
        while True:
            page = self._client.describe_stream(StreamArn=self._arn, **more)["StreamDescription"]
            yield from page["Shards"]
            if "LastEvaluatedShardId" not in page:
                return
            more["ExclusiveStartShardId"] = page["LastEvaluatedShardId"]

    def _read(self, name: str) -> None:
        while self._at[name] is not None:
            page = self._client.get_records(ShardIterator=self._at[name], Limit=7)
            self._at[name] = page.get("NextShardIterator")
            self.records += page["Records"]
            if not page["Records"]:
                return


@pytest.mark.parametrize("partitions", [1, 8])
def test_each_change_is_read_once_and_in_its_order(tmp_path: Path, partitions: int) -> None:
    with served(
        tmp_path, "--partitions", str(partitions), "--shard-age", "100ms", "--fsync", "never"
    ) as endpoint:
        where = {"endpoint_url": endpoint, "region_name": "us-east-1"}
        streams, client = boto3.client("dynamodbstreams", **where), boto3.client("dynamodb", **where)
        client.create_table(
            TableName="Counters",
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
            StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
        )
        arn = client.describe_table(TableName="Counters")["Table"]["LatestStreamArn"]
        reader, written = Reader(streams, arn), 0
        while reader.ended < ROLLS * partitions:
            for n in range(KEYS):
                key = {"pk": {"S": f"k{n}"}}
                change = {"TableName": "Counters", "Key": key, "UpdateExpression": "ADD n :one"}
                values = {"ExpressionAttributeValues": {":one": {"N": "1"}}}
                assert 200 == ask(endpoint, "UpdateItem", json.dumps(change | values).encode()).status
            written += 1
            reader.look()
        client.update_table(TableName="Counters", StreamSpecification={"StreamEnabled": False})
        while len(reader.records) < written * KEYS:
            reader.look()
        streams.close()
        client.close()

    counts: dict[str, list[int]] = defaultdict(list)
    for record in reader.records:
        change, old = record["dynamodb"], record["dynamodb"].get("OldImage", {"n": {"N": "0"}})
        number = int(change["NewImage"]["n"]["N"])
        assert number == int(old["n"]["N"]) + 1
        counts[change["Keys"]["pk"]["S"]].append(number)
    assert {f"k{n}": list(range(1, written + 1)) for n in range(KEYS)} == counts
    assert len({uuid.UUID(record["eventID"]) for record in reader.records}) == written * KEYS
