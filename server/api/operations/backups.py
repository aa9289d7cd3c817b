"""CreateBackup, DescribeBackup, ListBackups and DeleteBackup: names for the states of a table.

A backup copies nothing, so it is AVAILABLE at once. The log must keep the state that it names.
"""

import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import orjson

from ....log.commands import DefineTable
from ....materializer.fold.outcomes import BackupDefined, Outcome
from ....materializer.fold.state import Table
from ....materializer.history.history import TimeCut
from ....materializer.history.requests import DescribeTables
from ....materializer.partition import ResultPosition
from ....model.backups import Backup
from ....model.descriptions import backup_details, backup_summary
from ....model.descriptions import describe_backup as description
from ....model.errors import (
    BackupInUseError,
    BackupNotFoundError,
    ContinuousBackupsUnavailableError,
    RequestError,
    TableInUseError,
)
from ....model.tables import name_of
from ...auth.rights import EVERYTHING, Demand, Right
from ...database import Database
from ...routing.fan_in import FanIn, first_error
from .. import table_commands
from ..item_counts import Counts
from ..operation import operation
from ..reply import Reply
from ..restores import find_latest_time, find_table

_PAGE: Final = 100
_PAUSE_S: Final = 0.001
_CLOCK_SET_BACK_MS: Final = 1_000


@operation("CreateBackup", Right.ADMIN)
def create_backup(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Name the present state of the table."""
    table = find_table(database, body["TableName"])
    status = table.definition.status
    if status == "CREATING":
        raise ContinuousBackupsUnavailableError(
            f"Backups are being enabled for the table: {table.definition.name}. Please retry later"
        )
    if status == "DELETING":
        raise TableInUseError(f"Table is being deleted: {table.definition.name}")

    def on_counts(counts: Counts) -> None:
        find_latest_time(database, partial(_create, database, body, reply, table, counts))

    database.counts.of(table, on_counts)


def _create(
    database: Database,
    body: dict[str, Any],
    reply: Reply,
    table: Table,
    counts: Counts,
    time_ms: int | RequestError,
) -> None:
    if isinstance(time_ms, RequestError):
        reply.error(time_ms)
        return
    request = {
        "BackupName": body["BackupName"],
        "TimeMs": time_ms,
        "Items": counts.items.items,
        "Bytes": counts.items.bytes,
    }

    def answer(backup: Backup, position: ResultPosition) -> None:
        """Reply when no later write can belong to the cut: the clock has passed it, or log time, if that is ahead."""
        lead_ms = backup.cut_ms - database.clock()
        if lead_ms < 0:
            reply_with(backup, position)
        elif lead_ms < _CLOCK_SET_BACK_MS:
            database.loop.call_later(_PAUSE_S, answer, backup, position)
        else:
            fan_in = FanIn(len(database.peers), lambda found, _: reply_with(backup, position, found))
            for nth, peer in enumerate(database.peers):
                peer.as_of(TimeCut(backup.cut_ms), DescribeTables(()), partial(fan_in.add, nth))

    def reply_with(backup: Backup, position: ResultPosition, closed: Sequence[Any] = ()) -> None:
        error = first_error(closed)
        if error is None:
            reply.ok(orjson.dumps({"BackupDetails": backup_details(backup)}), position)
        else:
            reply.error(error, position)

    _submit(database, "CreateBackup", request, reply, answer, table.definition.id)


def _submit(
    database: Database,
    operation: str,
    request: dict[str, Any],
    reply: Reply,
    answer: Callable[[Backup, ResultPosition], None],
    table: int = 0,
) -> None:
    body = orjson.dumps(request, option=orjson.OPT_SORT_KEYS)
    own_id = str(uuid.UUID(bytes=database.random_bytes(16), version=4))

    def on_outcome(outcome: Outcome, position: ResultPosition) -> None:
        if isinstance(outcome, BackupDefined):
            answer(outcome.backup, position)
        else:
            reply.error(table_commands.refusal(outcome), position)

    database.partition.submit(
        DefineTable(operation, table, body, own_id, reply.context), len(body), on_outcome
    )


@operation("DescribeBackup", Right.READ, member="BackupArn")
def describe_backup(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Reply with the backup, and the table as it was."""
    backup = find_backup(database, body["BackupArn"])
    reply.ok(orjson.dumps({"BackupDescription": description(backup)}))


def _list_demands(body: dict[str, Any]) -> Iterator[Demand]:
    yield "dynamodb:ListBackups", Right.READ, body.get("TableName", EVERYTHING)


@operation("ListBackups", _list_demands)
def list_backups(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Reply with a page of backups, ordered by time. All are backups of users: no others exist."""
    backups = sorted(filter(partial(_is_listed, body), database.state.backups.values()), key=_order)
    start = 0
    if "ExclusiveStartBackupArn" in body:
        start = bisect_right(backups, _order_of(body["ExclusiveStartBackupArn"]), key=_order)
    page = backups[start : start + body.get("Limit", _PAGE)]
    answer: dict[str, Any] = {"BackupSummaries": [backup_summary(backup) for backup in page]}
    if start + len(page) < len(backups):
        answer["LastEvaluatedBackupArn"] = page[-1].arn
    reply.ok(orjson.dumps(answer))


@operation("DeleteBackup", Right.ADMIN, member="BackupArn")
def delete_backup(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Delete the name, and reply with the backup as it was."""
    backup = find_backup(database, body["BackupArn"])
    for table in database.state.tables.values():
        restore = table.definition.restore
        if restore is not None and restore.in_progress and restore.backup_arn == backup.arn:
            raise BackupInUseError(
                f"Backup is being restored to the table {table.definition.name}: {backup.arn}"
            )

    def answer(deleted: Backup, position: ResultPosition) -> None:
        described = description(deleted, status="DELETED")
        reply.ok(orjson.dumps({"BackupDescription": described}), position)

    _submit(database, "DeleteBackup", {"BackupArn": backup.arn}, reply, answer)


def find_backup(database: Database, arn: str) -> Backup:
    """Return the backup with the ARN.

    Raises:
        BackupNotFoundError: No backup has the ARN.
    """
    backup = database.state.backups.get(arn)
    if backup is None:
        raise BackupNotFoundError(f"Backup not found: {arn}")
    return backup


def _is_listed(body: dict[str, Any], backup: Backup) -> bool:
    seconds = backup.created_ms / 1000
    return (
        body.get("BackupType", "USER") in ("USER", "ALL")
        and ("TableName" not in body or backup.definition.name == name_of(body["TableName"]))
        and body.get("TimeRangeLowerBound", seconds) <= seconds
        and ("TimeRangeUpperBound" not in body or seconds < body["TimeRangeUpperBound"])
    )


def _order(backup: Backup) -> tuple[str, str]:
    return _order_of(backup.arn)


def _order_of(arn: str) -> tuple[str, str]:
    """Return the time and the random part of an ARN, and the ARN: an order that needs no backup with the ARN."""
    return arn.rpartition("/")[2], arn
