"""Streams: the tables whose changes are kept, since when, and their subscriptions.

{}              {"Streams": [one per table that has or had a stream or a subscription]}
{"TableName"}   {"Streams": [the table's], "Partitions": [per partition: the kept changes and the shards]}
"""

from typing import Any, Final

from ....materializer.feed_requests import FindSequenceNumber, ListShards
from ....materializer.fold.feed.capture import WATCHED, CapturePeriod
from ....materializer.fold.state import PartitionState
from ....model.descriptions import stream_label
from ....model.errors import ResourceNotFoundError, ValidationError
from ....model.tables import name_of, table_arn
from ....streams.feed.shards import shard_id
from ...async_calls import RefusedAtError, read_feeds
from ...auth.rights import Right
from ...database import Database
from ..operation import admin_operation
from ..reply import Caller

_END_OF_TIME: Final = 2**62


@admin_operation("Streams", Right.READ)
async def streams(database: Database, body: dict[str, Any], _: Caller) -> dict[str, Any]:
    """Describe the streams in the catalog; of one table, also the changes that each partition keeps."""
    name = body.get("TableName")
    if name is None:
        periods = [period for each in database.state.periods.values() for period in each]
        return {"Streams": [_described(database.state, period) for period in periods]}
    if not isinstance(name, str):
        raise ValidationError("TableName must be the name of a table")
    periods = _periods(database, name_of(name))
    return {
        "Streams": [_described(database.state, period) for period in periods],
        "Partitions": await _partitions(database, periods),
    }


def _periods(database: Database, name: str) -> list[CapturePeriod]:
    """Return the capture periods of the table with the name, or of the last table that had it."""
    table = database.state.table_named(name)
    if table is not None:
        return list(database.state.periods.get(table.definition.id, ()))
    ids = [table_id for table_id, periods in database.state.periods.items() if periods[0].name == name]
    if not ids:
        raise ResourceNotFoundError(f"Requested resource not found: Table: {name} not found")
    return database.state.periods[max(ids)]


def _described(state: PartitionState, period: CapturePeriod) -> dict[str, Any]:
    described: dict[str, Any] = {
        "TableName": period.name,
        "Status": "ENABLED" if period.is_open else "DISABLED",
    }
    if period.label == WATCHED:
        described["Status"] = "WATCHED" if period.is_open else "ENDED"
    else:
        label = stream_label(period.label)
        described |= {
            "StreamArn": f"{table_arn(period.name)}/stream/{label}",
            "StreamLabel": label,
            "StreamViewType": period.view,
            "ShardMs": period.shard_ms,
        }
    readers = [each.name for each in state.subscriptions.values() if period.table in each.table_ids]
    return described | {"Subscriptions": sorted(readers) if period.is_open else []}


async def _partitions(database: Database, periods: list[CapturePeriod]) -> list[dict[str, Any]]:
    """Describe the kept changes of each partition, and the shards of the newest stream."""
    if not periods:
        return []
    partitions = database.partitions_of_feed()
    newest = max(periods, key=lambda period: period.label)
    find = FindSequenceNumber(newest.table, _END_OF_TIME, None)
    listing = ListShards(newest.table, newest.label)
    try:
        answers, _ = await read_feeds(
            [(each, request) for each in partitions.values() for request in (find, listing)]
        )
    except RefusedAtError as refused:
        raise refused.error from None
    return [
        {
            "Partition": partition_id,
            "End": str(end.after),
            "KeptAfter": str(end.trim_horizon),
            "Shards": [
                {
                    "ShardId": shard_id(newest.label, newest.shard_ms, partition_id, *shard.key),
                    "First": str(shard.first),
                    "Last": None if shard.last is None else str(shard.last),
                    "BegunMs": shard.begun_ms,
                }
                for shard in (listed.shards if newest.label != WATCHED else ())
            ],
        }
        for partition_id, end, listed in zip(partitions, answers[::2], answers[1::2], strict=True)
    ]
