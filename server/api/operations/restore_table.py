"""RestoreTableFromBackup and RestoreTableToPointInTime: a new table with the items that another had.

The table is CREATING until the owner of the catalog has copied the items (materializer/owner/restores.py).
"""

from collections.abc import Iterator
from typing import Any

from ....model.errors import (
    InvalidRestoreTimeError,
    PointInTimeRecoveryUnavailableError,
    RequestError,
    ValidationError,
)
from ....model.tables import TableDefinition
from ...auth.rights import Demand, Right
from ...database import Database
from ..operation import operation
from ..reply import Reply
from ..restores import (
    Copy,
    check_source,
    check_target,
    find_latest_time,
    find_table,
    restorable_time,
    start,
)
from .backups import find_backup


def _demands_of_backup(body: dict[str, Any]) -> Iterator[Demand]:
    yield "dynamodb:RestoreTableFromBackup", Right.ADMIN, body["TargetTableName"]
    yield "dynamodb:RestoreTableFromBackup", Right.READ, body["BackupArn"]


@operation("RestoreTableFromBackup", _demands_of_backup)
def restore_table_from_backup(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Create the table, with the settings that the backup has."""
    check_source(database, reply, body["BackupArn"])
    backup = find_backup(database, body["BackupArn"])
    check_target(database, body["TargetTableName"])
    copy = Copy(
        "RestoreTableFromBackup", backup.definition, body["TargetTableName"], backup.cut_ms, body, backup.arn
    )
    start(database, copy, reply)


def _demands_of_point_in_time(body: dict[str, Any]) -> Iterator[Demand]:
    yield "dynamodb:RestoreTableToPointInTime", Right.ADMIN, body["TargetTableName"]
    source = body.get("SourceTableName") or body.get("SourceTableArn")
    if source is not None:
        yield "dynamodb:RestoreTableToPointInTime", Right.READ, source


@operation("RestoreTableToPointInTime", _demands_of_point_in_time)
def restore_table_to_point_in_time(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Create the table, with the present settings of the source."""
    source = _source(database, body)
    check_source(database, reply, source.name)
    _check_time(source, body)

    def begin(now_ms: int | RequestError) -> None:
        try:
            if isinstance(now_ms, RequestError):
                raise now_ms
            time_ms = _restore_time(database, source, body, now_ms)
            check_target(database, body["TargetTableName"])
            copy = Copy("RestoreTableToPointInTime", source, body["TargetTableName"], time_ms, body)
            start(database, copy, reply)
        except RequestError as error:
            reply.error(error)

    find_latest_time(database, begin)


def _source(database: Database, body: dict[str, Any]) -> TableDefinition:
    """Return the table that the request names.

    Raises:
        ValidationError: The request names no table, or two.
        TableNotFoundError: No table has the name.
    """
    named = [body[member] for member in ("SourceTableName", "SourceTableArn") if member in body]
    if len(named) != 1:
        raise ValidationError("Exactly one of SourceTableName or SourceTableArn must be specified")
    return find_table(database, named[0]).definition


def _check_time(source: TableDefinition, body: dict[str, Any]) -> None:
    """Check that the request has one time, and the source restorable times.

    Raises:
        ValidationError: The request has no time, or two.
        PointInTimeRecoveryUnavailableError: The recovery is disabled.
    """
    if body.get("UseLatestRestorableTime", False) == ("RestoreDateTime" in body):
        raise ValidationError("Exactly one of RestoreDateTime or UseLatestRestorableTime must be specified")
    if source.recovery is None:
        raise PointInTimeRecoveryUnavailableError(
            f"Point in time recovery is not enabled for table '{source.name}'"
        )


def _restore_time(database: Database, source: TableDefinition, body: dict[str, Any], now_ms: int) -> int:
    """Return the time of the request in milliseconds.

    Raises:
        InvalidRestoreTimeError: The time is outside the restorable range.
    """
    if "RestoreDateTime" not in body:
        return now_ms
    time_ms = restorable_time(database, source, body["RestoreDateTime"], now_ms)
    if time_ms is None:
        raise InvalidRestoreTimeError
    return time_ms
