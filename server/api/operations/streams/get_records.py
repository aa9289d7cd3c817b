"""GetRecords: the changes of a shard from an iterator on, as records, and the iterator of what follows.

A shard ends where a change of a later period stands: all of a partition's changes are in one order, and which shard one
belongs to follows from its time. So the end is found by reading on, and nobody has to remember it. Only a stream that
was disabled ends without a change behind it, and then the partition is asked.
"""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from .....materializer.feed_requests import Changes, ListShards, ReadChanges, Shards
from .....materializer.fold.feed.capture import CapturePeriod
from .....materializer.fold.outcomes import Change
from .....materializer.partition import Place
from .....model.errors import TrimmedDataAccessError, ValidationError
from .....streams.feed.shards import nth_of
from .....streams.formats.table_view import Delivery, view_in
from ...reply import Reply
from .feed_answers import told
from .iterators import ShardIterator, read, write
from .stream_arns import stream

if TYPE_CHECKING:
    from ....node import Node

_MOST = 1000
_BYTES = 1024 * 1024


def get_records(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Read a page of changes."""
    iterator = read(body["ShardIterator"], node.log.genesis(0).log_id, node.clock())
    window = stream(node, iterator.arn)
    holder = node.partitions_of_feed().get(iterator.partition)
    if holder is None:
        raise ValidationError("Invalid ShardIterator")
    request = ReadChanges(
        window.table, iterator.after, stream=window.label, limit=body.get("Limit", _MOST), size=_BYTES
    )
    holder.feed(request, told(Changes, reply, partial(_answer, node, window, iterator, reply)))


def _answer(
    node: "Node",
    window: CapturePeriod,
    iterator: ShardIterator,
    reply: Reply,
    answer: Changes,
    place: Place,
) -> None:
    if iterator.after < answer.trim_horizon and not iterator.horizon:
        reply.error(TrimmedDataAccessError(), place)
        return
    own = answer.changes
    if own and _nth(window, own[-1]) != iterator.nth:
        own = [each for each in own if _nth(window, each) == iterator.nth]
    genesis = node.log.genesis(0)
    view = view_in(window, genesis.log_id, genesis.partitions)
    deliveries = [Delivery(each, iterator.partition, view) for each in own]

    def made(records: bytes) -> None:
        if len(own) < len(answer.changes):  # a later period has begun
            reply.ok(b'{"Records":[%b]}' % records, place)
            return
        go_on = partial(_go_on, node, replace(iterator, after=answer.next, horizon=False), records, reply)
        if window.ended_ms is None or not answer.is_end:
            go_on(place)
            return

        def listed(shards: Shards, place: Place) -> None:
            last = next((shard.last for shard in shards.shards if shard.nth == iterator.nth), answer.next)
            if last is not None and last <= answer.next:
                reply.ok(b'{"Records":[%b]}' % records, place)
            else:
                go_on(place)

        node.partitions_of_feed()[iterator.partition].feed(
            ListShards(window.table, window.label), told(Shards, reply, listed)
        )

    node.records.page(deliveries, node.loop, made)


def _nth(window: CapturePeriod, change: Change) -> int:
    return nth_of(change.time, window.label, window.shard_ms)


def _go_on(node: "Node", iterator: ShardIterator, records: bytes, reply: Reply, place: Place) -> None:
    following = write(iterator, node.log.genesis(0).log_id, node.clock())
    reply.ok(b'{"Records":[%b],"NextShardIterator":"%b"}' % (records, following.encode()), place)
