"""Every node that folds a partition has its feed, so a new owner of the partition continues the feed."""

from pathlib import Path
from typing import Any

from tests.behaviour.cluster.processes import Nodes
from tests.support.broker import kafka
from tests.support.raw import ask
from tests.support.subscribed import until
from tests.support.tables import table_request

__all__ = ["kafka"]

TABLE = "Followed"
STREAM = {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}}


def answer_of(url: str, operation: str, **body: Any) -> Any:
    answer = ask(url, operation, body)
    assert answer.status == 200, answer.body
    return answer.body


def streams(url: str, operation: str, **body: Any) -> Any:
    return answer_of(url, f"DynamoDBStreams_20120810.{operation}", **body)


def read(url: str, arn: str) -> dict[str, list[Any]]:
    """Return all records of a stream with one generation of shards, by shard."""
    found: dict[str, list[Any]] = {}
    for shard in streams(url, "DescribeStream", StreamArn=arn)["StreamDescription"]["Shards"]:
        asked = {"StreamArn": arn, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
        iterator = streams(url, "GetShardIterator", **asked)["ShardIterator"]
        records = found.setdefault(shard["ShardId"], [])
        while page := streams(url, "GetRecords", ShardIterator=iterator, Limit=20):
            records += page["Records"]
            iterator = page.get("NextShardIterator")
            if not page["Records"] or iterator is None:
                break
    return found


def read_all(url: str, arn: str, count: int) -> dict[str, list[Any]]:
    """Read until the node has `count` records: it folds what another node acknowledged a moment later."""

    def all_read() -> dict[str, list[Any]] | None:
        found = read(url, arn)
        return found if sum(map(len, found.values())) >= count else None

    found: dict[str, list[Any]] = until(all_read)
    return found


def write(url: str, run: int, count: int = 40) -> None:
    for n in range(count):
        item = {"pk": {"S": f"key {n % 17}"}, "n": {"N": str(run * 1000 + n)}}
        answer_of(url, "PutItem", TableName=TABLE, Item=item)


def test_a_feed_continues_on_another_node(kafka: str, tmp_path: Path) -> None:
    with Nodes(tmp_path, kafka, 2) as nodes:
        created = answer_of(nodes.urls[0], "CreateTable", **(table_request(TABLE, "pk:S") | STREAM))
        arn = created["TableDescription"]["LatestStreamArn"]
        nodes.settle()
        write(nodes.urls[0], 1)
        before = [read_all(url, arn, 40) for url in nodes.urls]

        nodes.kill(0)
        survived = read_all(nodes.urls[0], arn, 40)
        write(nodes.urls[0], 2)
        nodes.start(0)
        nodes.settle()
        after = [read_all(url, arn, 80) for url in nodes.urls]

    assert before[0] == before[1] == survived
    assert 40 == sum(map(len, survived.values()))
    assert after[0] == after[1]
    assert 80 == sum(map(len, after[0].values()))
    for shard, records in survived.items():
        assert records == after[0][shard][: len(records)]
