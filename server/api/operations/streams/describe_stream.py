"""DescribeStream: a stream, and the shards of all partitions, oldest first, a page at a time."""

from bisect import bisect_right
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import orjson

from .....materializer.feed_requests import ListShards, Shard, Shards
from .....materializer.fold.feed.capture import CapturePeriod
from .....materializer.partition import Place
from .....model.descriptions import seconds, stream_label
from .....model.errors import RequestError, ValidationError
from .....streams.feed.shards import read_shard_id, shard_id
from ....routing.fan_in import FanIn, first_error, joined
from ...reply import Reply
from .stream_arns import arn_of, stream

if TYPE_CHECKING:
    from ....node import Node

_MOST = 100


def describe_stream(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Ask every partition for its shards."""
    window = stream(node, body["StreamArn"])
    if "ShardFilter" in body and body["ShardFilter"].keys() < {"Type", "ShardId"}:
        raise ValidationError("ShardFilter must have both a Type and a ShardId")
    partitions = node.partitions_of_feed()
    join = FanIn(len(partitions), partial(_answer, node, body, window, list(partitions), reply))
    for nth, each in enumerate(partitions.values()):
        each.feed(ListShards(window.table, window.label), partial(join.answered, nth))


def _answer(
    node: "Node",
    body: dict[str, Any],
    window: CapturePeriod,
    partitions: list[int],
    reply: Reply,
    results: list[Shards | RequestError],
    places: list[Place],
) -> None:
    place = joined(places)
    error = first_error(results)
    if error is not None:
        reply.error(error, place)
        return
    described: list[dict[str, Any]] = []
    for number, result in zip(partitions, results, strict=True):
        assert isinstance(result, Shards)
        described += _lineage(window, number, result.shards)
    described.sort(key=lambda shard: str(shard["ShardId"]))
    if "ShardFilter" in body:
        described = _children(window, described, body["ShardFilter"]["ShardId"])
    ids = [shard["ShardId"] for shard in described]
    start = bisect_right(ids, body.get("ExclusiveStartShardId", ""))
    end = start + body.get("Limit", _MOST)
    description = {
        "StreamArn": arn_of(window),
        "StreamLabel": stream_label(window.label),
        "StreamStatus": status_of(node, window),
        "StreamViewType": window.view,
        "CreationRequestDateTime": seconds(window.label),
        "TableName": window.name,
        "KeySchema": [{"AttributeName": name, "KeyType": role} for name, _, role in window.key.to_json()],
        "Shards": described[start:end],
    }
    if end < len(ids):
        description["LastEvaluatedShardId"] = ids[end - 1]
    reply.ok(orjson.dumps({"StreamDescription": description}), place)


def _lineage(window: CapturePeriod, partition: int, shards: list[Shard]) -> list[dict[str, Any]]:
    """A partition's shards: each is the parent of the one that follows."""
    ids = [shard_id(window.label, window.shard_ms, partition, shard.nth) for shard in shards]
    described: list[dict[str, Any]] = []
    for name, shard in zip(ids, shards, strict=True):
        numbers = {"StartingSequenceNumber": str(shard.first)}
        if shard.last is not None:
            numbers["EndingSequenceNumber"] = str(shard.last)
        described.append({"ShardId": name, "SequenceNumberRange": numbers})
    for (parent, _), (_, child) in pairwise(zip(ids, described, strict=True)):
        child["ParentShardId"] = parent
    return described


def _children(window: CapturePeriod, described: list[dict[str, Any]], parent: str) -> list[dict[str, Any]]:
    """What follows a shard of the stream in its partition, also when the shard itself is no longer kept."""
    place = read_shard_id(parent)
    if place is None or shard_id(window.label, window.shard_ms, place.partition, place.nth) != parent:
        return []
    _, partition, nth = place
    for shard in described:
        read = read_shard_id(shard["ShardId"])
        assert read is not None, "we have just written it"
        if read[1] == partition and read[2] > nth:
            return [{**shard, "ParentShardId": parent}]
    return []


def status_of(node: "Node", window: CapturePeriod) -> str:
    """ENABLING and DISABLING while the table is changing because of it, which takes `table_delay_ms`."""
    table = node.state.tables.get(window.table)
    since_ms = window.label if window.ended_ms is None else window.ended_ms
    is_changing = (
        table is not None
        and table.definition.status != "ACTIVE"
        and node.clock() - since_ms <= node.settings.table_delay_ms
    )
    if window.ended_ms is None:
        return "ENABLING" if is_changing else "ENABLED"
    return "DISABLING" if is_changing else "DISABLED"
