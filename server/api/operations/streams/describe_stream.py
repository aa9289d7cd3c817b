"""DescribeStream: a stream and the shards of all partitions, oldest first, one page at a time."""

from bisect import bisect_right
from typing import Any

import orjson

from .....materializer.feed_requests import ListShards, Shard, Shards
from .....materializer.fold.feed.capture import CapturePeriod
from .....model.descriptions import seconds, stream_label
from .....model.errors import ValidationError
from .....streams.feed.shards import read_shard_id, shard_id
from ....async_calls import read_feeds
from ....auth.rights import Right
from ....database import Database
from ....routing import joined
from ...operation import Answer, operation
from ...reply import Caller
from .stream_arns import arn_of, stream

_PAGE = 100


@operation("DescribeStream", Right.READ, member="StreamArn", eager=True)
async def describe_stream(database: Database, body: dict[str, Any], _: Caller) -> Answer:
    """List the shards of every partition, and describe the stream."""
    period = stream(database, body["StreamArn"])
    if "ShardFilter" in body and body["ShardFilter"].keys() < {"Type", "ShardId"}:
        raise ValidationError("ShardFilter must have both a Type and a ShardId")
    partitions = database.partitions_of_feed()
    request = ListShards(period.table, period.label)
    answers, positions = await read_feeds([(each, request) for each in partitions.values()])
    described: list[dict[str, Any]] = []
    wanted = body["ShardFilter"]["ShardId"] if "ShardFilter" in body else None
    for partition_id, answer in zip(partitions, answers, strict=True):
        assert isinstance(answer, Shards)
        lineage = _lineage(period, partition_id, answer.shards)
        described += (
            lineage if wanted is None else _children(period, partition_id, answer.shards, lineage, wanted)
        )
    described.sort(key=lambda shard: str(shard["ShardId"]))
    ids = [shard["ShardId"] for shard in described]
    start = bisect_right(ids, body.get("ExclusiveStartShardId", ""))
    end = start + body.get("Limit", _PAGE)
    description = {
        "StreamArn": arn_of(period),
        "StreamLabel": stream_label(period.label),
        "StreamStatus": status_of(database, period),
        "StreamViewType": period.view,
        "CreationRequestDateTime": seconds(period.label),
        "TableName": period.name,
        "KeySchema": [{"AttributeName": name, "KeyType": role} for name, _, role in period.key.to_json()],
        "Shards": described[start:end],
    }
    if end < len(ids):
        description["LastEvaluatedShardId"] = ids[end - 1]
    return Answer(orjson.dumps({"StreamDescription": description}), joined(positions))


def _lineage(period: CapturePeriod, partition_id: int, shards: list[Shard]) -> list[dict[str, Any]]:
    """Describe the shards of a partition, each with its parent: the one before it in its range, or before the split."""
    described: list[dict[str, Any]] = []
    closed: dict[tuple[int, int], str] = {}  # by last sequence number and range
    for shard in shards:
        name = shard_id(period.label, period.shard_ms, partition_id, *shard.key)
        numbers = {"StartingSequenceNumber": str(shard.first)}
        if shard.last is not None:
            numbers["EndingSequenceNumber"] = str(shard.last)
            closed[shard.last, shard.path[-1]] = name
        described.append({"ShardId": name, "SequenceNumberRange": numbers})
    for shard, child in zip(shards, described, strict=True):
        for range_id in shard.path[-2:]:
            if (shard.first - 1, range_id) in closed:
                child["ParentShardId"] = closed[shard.first - 1, range_id]
    return described


def _children(
    period: CapturePeriod,
    partition_id: int,
    shards: list[Shard],
    lineage: list[dict[str, Any]],
    parent: str,
) -> list[dict[str, Any]]:
    """Return the shards that follow `parent` in a partition, also when `parent` itself is trimmed."""
    named = read_shard_id(parent)
    if (
        named is None
        or named.partition != partition_id
        or shard_id(period.label, period.shard_ms, *named[1:]) != parent
    ):
        return []
    key = named.period, named.range
    if any(shard.key == key for shard in shards):
        return [child for child in lineage if child.get("ParentShardId") == parent]
    return [
        {**child, "ParentShardId": parent}
        for shard, child in zip(shards, lineage, strict=True)
        if "ParentShardId" not in child
        and named.range in shard.path
        and (shard.nth > named.period or (shard.nth == named.period and shard.path[-1] != named.range))
    ]


def status_of(database: Database, period: CapturePeriod) -> str:
    """Return the status. It is ENABLING or DISABLING while the table changes, which takes `table_delay_ms`."""
    table = database.state.tables.get(period.table)
    since_ms = period.label if period.ended_ms is None else period.ended_ms
    is_changing = (
        table is not None
        and table.definition.status != "ACTIVE"
        and database.clock() - since_ms <= database.settings.table_delay_ms
    )
    if period.ended_ms is None:
        return "ENABLING" if is_changing else "ENABLED"
    return "DISABLING" if is_changing else "DISABLED"
