"""GetShardIterator: where to begin to read a shard, as text for GetRecords."""

from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from .....materializer.feed_requests import FindNumber, ListShards, Number, Shard, Shards
from .....materializer.fold.feed.capture import CapturePeriod
from .....materializer.partition import Place
from .....model.errors import ResourceNotFoundError, TrimmedDataAccessError, ValidationError
from .....streams.feed.shards import read_shard_id, shard_id
from ...reply import Reply
from .feed_answers import told
from .iterators import ShardIterator, write
from .stream_arns import arn_of, log_time, stream

if TYPE_CHECKING:
    from ....node import Node

_NUMBERED = frozenset(("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"))
_END_OF_TIME_MS = 1 << 62


def get_shard_iterator(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Look whether the shard is there, and then where in it to begin."""
    # A clock may be behind what the records say: log time never goes back, and other nodes have clocks of their own.
    _check(body, max(node.clock(), log_time(node)))
    window = stream(node, body["StreamArn"])
    place = read_shard_id(body["ShardId"])
    if place is None:
        raise _no_shard()
    _, partition, nth = place
    holder = node.partitions_of_feed().get(partition)
    if holder is None or shard_id(window.label, window.shard_ms, partition, nth) != body["ShardId"]:
        raise _no_shard()
    start = ShardIterator(arn_of(window), partition, nth, 0)
    request = ListShards(window.table, window.label)
    holder.feed(request, told(Shards, reply, partial(_listed, node, body, window, start, reply)))


def _check(body: dict[str, Any], now_ms: int) -> None:
    kind = body["ShardIteratorType"]
    for member, is_needed in (
        ("SequenceNumber", kind in _NUMBERED),
        ("Timestamp", kind == "AT_TIMESTAMP"),
    ):
        if is_needed and member not in body:
            raise ValidationError(f"{member} must be specified for ShardIteratorType {kind}")
        if not is_needed and member in body:
            raise ValidationError(f"{member} must not be specified for ShardIteratorType {kind}")
    if kind in _NUMBERED and not (body["SequenceNumber"].isascii() and body["SequenceNumber"].isdecimal()):
        raise ValidationError("Invalid SequenceNumber")
    if kind == "AT_TIMESTAMP" and body["Timestamp"] > now_ms / 1000:
        raise ValidationError("Timestamp must not be in the future")


def _listed(
    node: "Node",
    body: dict[str, Any],
    window: CapturePeriod,
    start: ShardIterator,
    reply: Reply,
    answer: Shards,
    place: Place,
) -> None:
    shard = next((shard for shard in answer.shards if shard.nth == start.nth), None)
    if shard is None:
        reply.error(_no_shard(), place)
        return
    if body["ShardIteratorType"] == "TRIM_HORIZON":
        _give(node, start, shard.first - 1, reply, place, horizon=True)
        return
    is_timed = body["ShardIteratorType"] == "AT_TIMESTAMP"
    time_ms = round(max(body["Timestamp"], 0) * 1000) if is_timed else _END_OF_TIME_MS
    find = FindNumber(window.table, time_ms, window.label)
    holder = node.partitions_of_feed()[start.partition]
    holder.feed(find, told(Number, reply, partial(_found, node, body, shard, start, reply)))


def _found(
    node: "Node",
    body: dict[str, Any],
    shard: Shard,
    start: ShardIterator,
    reply: Reply,
    answer: Number,
    place: Place,
) -> None:
    end = answer.after if shard.last is None else min(answer.after, shard.last)
    if body["ShardIteratorType"] not in _NUMBERED:
        _give(node, start, max(end, shard.first - 1), reply, place)
        return
    number = int(body["SequenceNumber"])
    after = number - (body["ShardIteratorType"] == "AT_SEQUENCE_NUMBER")
    # A stream's first shards begin with the number that enabled it, which is no change's: nothing is lost there.
    is_beginning = start.nth == 0 and number == shard.first == answer.trim_horizon
    if after < answer.trim_horizon and not is_beginning:
        reply.error(TrimmedDataAccessError(), place)
    elif not shard.first <= number <= end:
        reply.error(ValidationError("SequenceNumber is not in the range of the shard"), place)
    else:
        _give(node, start, max(after, answer.trim_horizon), reply, place)


def _give(
    node: "Node", start: ShardIterator, after: int, reply: Reply, place: Place, *, horizon: bool = False
) -> None:
    iterator = ShardIterator(start.arn, start.partition, start.nth, after, horizon)
    text = write(iterator, node.log.genesis(0).log_id, node.clock())
    reply.ok(orjson.dumps({"ShardIterator": text}), place)


def _no_shard() -> ResourceNotFoundError:
    return ResourceNotFoundError("Requested resource not found: Shard does not exist")
