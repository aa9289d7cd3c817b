"""Streams: whose changes are kept, since when, and who reads them.

{}              {"Streams": [one for each table that has a stream, had one, or is watched]}
{"TableName"}   {"Streams": [those of this table], "Partitions": [what is kept of it in each, and the shards]}
"""

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import orjson

from ....materializer.feed_requests import FindNumber, ListShards
from ....materializer.fold.feed.capture import WATCHED, CapturePeriod
from ....materializer.fold.state import PartitionState
from ....model.descriptions import stream_label
from ....model.errors import RequestError, ResourceNotFoundError, ValidationError
from ....model.tables import name_of, table_arn
from ....streams.feed.shards import shard_id
from ...routing.fan_in import FanIn, first_error
from ..reply import Reply

if TYPE_CHECKING:
    from ...node import Node

_END_OF_TIME: Final = 2**62


def streams(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Answer what the catalog knows; of one table, what each partition has."""
    name = body.get("TableName")
    if name is None:
        windows = [window for each in node.state.streams.values() for window in each]
        reply.ok(orjson.dumps({"Streams": [_described(node.state, window) for window in windows]}))
        return
    if not isinstance(name, str):
        raise ValidationError("TableName must be the name of a table")
    _describe(node, _windows(node, name_of(name)), reply)


def _windows(node: "Node", name: str) -> list[CapturePeriod]:
    """Those of the table with that name, or of the last one that had it."""
    table = node.state.table_named(name)
    if table is not None:
        return list(node.state.streams.get(table.definition.id, ()))
    ids = [table_id for table_id, windows in node.state.streams.items() if windows[0].name == name]
    if not ids:
        raise ResourceNotFoundError(f"Requested resource not found: Table: {name} not found")
    return node.state.streams[max(ids)]


def _described(state: PartitionState, window: CapturePeriod) -> dict[str, Any]:
    described: dict[str, Any] = {
        "TableName": window.name,
        "Status": "ENABLED" if window.is_open else "DISABLED",
    }
    if window.label == WATCHED:
        described["Status"] = "WATCHED" if window.is_open else "ENDED"
    else:
        label = stream_label(window.label)
        described |= {
            "StreamArn": f"{table_arn(window.name)}/stream/{label}",
            "StreamLabel": label,
            "StreamViewType": window.view,
            "ShardMs": window.shard_ms,
        }
    readers = [each.name for each in state.subscriptions.values() if window.table in each.table_ids]
    return described | {"Subscriptions": sorted(readers) if window.is_open else []}


def _describe(node: "Node", windows: list[CapturePeriod], reply: Reply) -> None:
    """Ask every partition how much it keeps, and for the shards of the newest stream."""
    partitions = node.partitions_of_feed()
    labels = [window.label for window in windows if window.label != WATCHED]
    streams = [_described(node.state, window) for window in windows]
    if not windows:
        reply.ok(orjson.dumps({"Streams": [], "Partitions": []}))
        return
    table = windows[0].table
    join = FanIn(
        2 * len(partitions), lambda answers, _: _answer(answers, list(partitions), windows, streams, reply)
    )
    for nth, partition in enumerate(partitions.values()):
        partition.feed(FindNumber(table, _END_OF_TIME, None), partial(join.answered, 2 * nth))
        partition.feed(ListShards(table, max(labels, default=WATCHED)), partial(join.answered, 2 * nth + 1))


def _answer(
    answers: list[Any],
    numbers: list[int],
    windows: list[CapturePeriod],
    streams: list[dict[str, Any]],
    reply: Reply,
) -> None:
    error: RequestError | None = first_error(answers)
    if error is not None:
        reply.error(error)
        return
    newest = max(windows, key=lambda window: window.label)
    described = [
        {
            "Partition": number,
            "End": str(end.after),
            "KeptAfter": str(end.trim_horizon),
            "Shards": [
                {
                    "ShardId": shard_id(newest.label, newest.shard_ms, number, shard.nth),
                    "First": str(shard.first),
                    "Last": None if shard.last is None else str(shard.last),
                    "BegunMs": shard.begun_ms,
                }
                for shard in (listed.shards if newest.label != WATCHED else ())
            ],
        }
        for number, end, listed in zip(numbers, answers[::2], answers[1::2], strict=True)
    ]
    reply.ok(orjson.dumps({"Streams": streams, "Partitions": described}))
