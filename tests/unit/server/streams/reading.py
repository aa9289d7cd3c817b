"""How a stream is read to its end, as SDKs do it: shard by shard, parents before their children."""

from typing import Any

Json = dict[str, Any]


def shards(streams: Any, arn: str, limit: int | None = None) -> list[Json]:
    """All shards of a stream, page by page."""
    found: list[Json] = []
    more: Json = {} if limit is None else {"Limit": limit}
    while True:
        page = streams.describe_stream(StreamArn=arn, **more)["StreamDescription"]
        found += page["Shards"]
        if "LastEvaluatedShardId" not in page:
            return found
        more["ExclusiveStartShardId"] = page["LastEvaluatedShardId"]


def iterator(streams: Any, arn: str, shard_id: str, kind: str = "TRIM_HORIZON", **more: Any) -> str:
    """Where to begin to read."""
    answer = streams.get_shard_iterator(StreamArn=arn, ShardId=shard_id, ShardIteratorType=kind, **more)
    return str(answer["ShardIterator"])


def read(streams: Any, at: str | None, limit: int | None = None) -> tuple[list[Json], str | None]:
    """The records from an iterator on, and the iterator behind them; None where the shard has ended."""
    found: list[Json] = []
    more = {} if limit is None else {"Limit": limit}
    while at is not None:
        page = streams.get_records(ShardIterator=at, **more)
        found += page["Records"]
        at = page.get("NextShardIterator")
        if not page["Records"]:
            break
    return found, at


def read_all(streams: Any, arn: str, kind: str = "TRIM_HORIZON") -> list[Json]:
    """The records of all shards as they are now, in the order of the shards."""
    return [
        record
        for shard in shards(streams, arn)
        for record in read(streams, iterator(streams, arn, shard["ShardId"], kind))[0]
    ]


def number(record: Json) -> int:
    return int(record["dynamodb"]["SequenceNumber"])
