"""Copies of tables as they were at any cut, and writes that put single items back.

Fork         {"TableName", "AsOf"?, "TargetTableName"}    a new table with its lineage in RestoreSummary
Restore      {"TableName", "AsOf", "TargetTableName"}     the same, as a restore; the table may be deleted since
RestoreItems {"TableName", "Writes": [{"Key", "Item"?, "Digest"}]}
──► {"Applied": [true, false, ...]}

`AsOf` is a cut as behind the name of a table (model/cuts.py); without it the copy has the present items. Neither needs
point-in-time recovery. A write of RestoreItems puts the item, or removes the one at the key, if the present item has
the digest: the BLAKE2b-128 of its canonical bytes in hexadecimal, or "" for no item. Streams and triggers see these
writes, with the source `restore`.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from ....log.commands import Context, Delete, Put
from ....materializer.fold.outcomes import Applied, Outcome, Refused
from ....materializer.history.history import PartitionCut, TimeCut
from ....materializer.history.requests import DescribeTables
from ....materializer.partition import ResultPosition
from ....model import service
from ....model.cuts import Ago, AtPositions, parse_cut, time_text
from ....model.errors import (
    ConditionalCheckFailedError,
    RequestError,
    ResourceNotFoundError,
    ValidationError,
)
from ....model.index_keys import index_key_error
from ....model.slots import CATALOG
from ....model.tables import TableDefinition, name_of
from ....model.values import check_item, dump
from ...async_calls import call
from ...auth.rights import Demand, Right
from ...database import Database
from ...routing.fan_in import FanIn, first_error, joined
from .. import write_requests
from ..min_position import positions_of
from ..operation import admin_operation
from ..reply import Caller, Reply
from ..restores import Copy, check_source, check_target, find_latest_time, latest_time, start

_WRITES_MAX: Final = 100
_WRITE_BYTES: Final = 256


class _PastTable(NamedTuple):
    """A table at a cut: its definition, the log time of the cut, and the text of its positions if it has any."""

    definition: TableDefinition
    time_ms: int
    positions: str | None = None


def _demands(body: dict[str, Any]) -> Iterator[Demand]:
    yield "foldb:Restore", Right.ADMIN, str(body.get("TargetTableName"))
    yield "foldb:Restore", Right.READ, str(body.get("TableName"))


@admin_operation("Fork", _demands)
def fork(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Make a table with the items of another, now or at a cut."""
    _copy(database, "ForkTable", body, reply)


@admin_operation("Restore", _demands)
def restore(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Make a table with the items that another had at a cut."""
    if "AsOf" not in body:
        raise ValidationError("Restore takes a TableName, a TargetTableName, and the cut AsOf")
    _copy(database, "RestoreTableToPointInTime", body, reply)


def _copy(database: Database, operation: str, body: dict[str, Any], reply: Reply) -> None:
    name, target, as_of = (body.get(member) for member in ("TableName", "TargetTableName", "AsOf"))
    if not isinstance(name, str) or not isinstance(target, str) or not isinstance(as_of, str | None):
        raise ValidationError("A copy takes a TableName, a TargetTableName, and the text of a cut as AsOf")
    service.validate("RestoreTableToPointInTime", {"TargetTableName": target})
    check_source(database, reply, name)
    check_target(database, target)

    def begin(past: _PastTable | RequestError) -> None:
        if isinstance(past, RequestError):
            reply.error(past)
            return
        try:
            start(
                database,
                Copy(operation, past.definition, target, past.time_ms, {}, positions=past.positions),
                reply,
            )
        except RequestError as error:
            reply.error(error)

    if as_of is None:
        definition = database.table_in_any_status(name).definition

        def on_time(now_ms: int | RequestError) -> None:
            begin(now_ms if isinstance(now_ms, RequestError) else _PastTable(definition, now_ms))

        find_latest_time(database, on_time)
    else:
        _find(database, name_of(name), as_of, begin)


def _find(
    database: Database, name: str, text: str, done: Callable[[_PastTable | RequestError], None]
) -> None:
    """Find the table that had the name at a cut.

    Raises:
        ValidationError: The text is not a cut of this database, or the cut is in the future.
    """
    cuts = _cuts(database, text)

    def on_found(found: list[Any], positions: list[ResultPosition]) -> None:
        error = first_error(found)
        if error is not None:
            done(error)
            return
        tables = found[0].tables
        if not tables:
            done(ResourceNotFoundError(f"Requested resource not found: Table: {name} not found at {text}"))
        elif isinstance(cuts[0][1], TimeCut):
            done(_PastTable(tables[0].definition, cuts[0][1].time_ms))
        else:
            done(_PastTable(tables[0].definition, joined(positions).time_ms or 0, text))

    fan_in = FanIn(len(cuts), on_found)
    for nth, (partition_id, cut) in enumerate(cuts):
        database.peers[partition_id].as_of(cut, DescribeTables([name]), partial(fan_in.add, nth))


def _cuts(database: Database, text: str) -> Sequence[tuple[int, PartitionCut]]:
    """Return the cuts of the partitions that define the tables: the named ones, or the catalog's of a time."""
    try:
        cut = parse_cut(text)
        if isinstance(cut, AtPositions):
            return [(each.partition, each) for each in positions_of(cut.positions, database.partitions.count)]
    except ValueError as error:
        raise ValidationError(str(error)) from None
    now_ms = latest_time(database)
    time_ms = max(0, now_ms - cut.age_ms) if isinstance(cut, Ago) else cut.time_ms
    if time_ms > now_ms:
        raise ValidationError(f"{time_text(time_ms)} is in the future: a cut is a point of history")
    return [(CATALOG, TimeCut(time_ms))]


# Single items


@admin_operation(
    "RestoreItems", lambda body: [("foldb:RestoreItems", Right.WRITE, str(body.get("TableName")))]
)
async def restore_items(database: Database, body: dict[str, Any], caller: Caller) -> dict[str, Any]:
    """Put or remove items that still have their digests, each on its own."""
    name, writes = body.get("TableName"), body.get("Writes")
    if not isinstance(name, str) or not isinstance(writes, list) or not 0 < len(writes) <= _WRITES_MAX:
        raise ValidationError(f"RestoreItems takes a TableName, and 1 to {_WRITES_MAX} Writes")
    definition = database.state.usable_table(name).definition
    sent = caller.context
    context = write_requests.context_of(sent, "restore", sent.reason)
    commands = [_command(database, definition, each, context) for each in writes]
    outcomes = await asyncio.gather(*(_submitted(database, command) for command in commands))
    return {"Applied": outcomes}


def _command(database: Database, definition: TableDefinition, write: Any, context: Context) -> Put | Delete:
    """Return the command of a write.

    Raises:
        ValidationError: The write is malformed.
    """
    limits = database.state.limits
    digest = write.get("Digest") if isinstance(write, dict) else None
    if not isinstance(digest, str) or not isinstance(write.get("Key"), dict):
        raise ValidationError("Each of the Writes has a Key, a Digest, and an Item unless it removes one")
    check_item(write["Key"], limits)
    pk, sk = definition.key.read_key(write["Key"], limits)
    key = definition.id, pk, sk
    item = write.get("Item")
    if item is None:
        return write_requests.write_back(key, None, digest, context)
    if not isinstance(item, dict):
        raise ValidationError("The Item of a write is an object")
    size = check_item(item, limits)
    if definition.key.item_key(item, limits) != (pk, sk):
        raise ValidationError("The Item of a write has its Key")
    error = index_key_error(definition, item, limits)
    if error is not None:
        raise error
    return write_requests.write_back(key, (dump(item), size), digest, context)


async def _submitted(database: Database, command: Put | Delete) -> bool:
    """Submit a write, and return whether it was applied: False if the item has another digest.

    Raises:
        RequestError: The write was refused for another reason.
    """
    size = len(command.item) if isinstance(command, Put) else 0
    outcome: Outcome = await call(
        lambda callback: database.partition.submit(
            command, size + _WRITE_BYTES, lambda found, _: callback(found)
        )
    )
    if isinstance(outcome, Refused) and isinstance(outcome.error, ConditionalCheckFailedError):
        return False
    error = write_requests.refusal(outcome)
    if error is not None:
        raise error
    assert isinstance(outcome, Applied), "a write of an item has no other outcome"
    return True
