"""Tables that are made of the past: the command of a restore or a fork, and the times that it may name.

request ──► definition of the source ──► DefineTable with a CreateTable's members and the source ──► CREATING
"""

from collections.abc import Callable
from functools import partial
from math import isfinite
from typing import Any, Final, NamedTuple

from ...materializer.fold.state import Table
from ...model.errors import RequestError, TableAlreadyExistsError, TableInUseError, TableNotFoundError
from ...model.table_copies import copy_request
from ...model.tables import TableDefinition, name_of, restorable_from
from ..async_calls import call
from ..auth.rights import Right, check_history
from ..database import Database
from ..routing.fan_in import first_error
from . import table_commands
from .reply import Reply

_NO_TABLE: Final = 0  # of a status that needs no counts


def find_table(database: Database, name: str) -> Table:
    """Return the table with this name or ARN.

    Raises:
        TableNotFoundError: No table has the name.
    """
    table = database.state.table_named(name_of(name))
    if table is None:
        raise TableNotFoundError(f"Table not found: {name_of(name)}")
    return table


def latest_time(database: Database) -> int:
    """Return a log time that no write in a partition here is above: the clock's, unless log time is ahead of it."""
    return max(database.clock(), *(state.log_time for state in database.partitions.states()))


def find_latest_time(database: Database, done: Callable[[int | RequestError], None]) -> None:
    """Call `done` with a log time that no write is above that any node has acknowledged, or with an error.

    The owners are asked, because their log time may be ahead of this node's clock and of the copies that it folds.
    """
    replicas = database.partitions.hosted.values()
    if len(replicas) == database.partitions.count and all(each.leading for each in replicas):
        done(latest_time(database))
        return

    def on_status(statuses: dict[str, Any] | RequestError) -> None:
        assert not isinstance(statuses, RequestError), "each partition reports its own error"
        error = first_error([*statuses.values()])
        done(error or max(latest_time(database), *(each["log_time"] for each in statuses.values())))

    database.partition.status(_NO_TABLE, on_status)


async def present_time(database: Database) -> int:
    """Return the time of `find_latest_time`.

    Raises:
        RequestError: A partition cannot be reached.
    """
    found: int | RequestError = await call(partial(find_latest_time, database))
    if isinstance(found, RequestError):
        raise found
    return found


def restorable_time(database: Database, source: TableDefinition, seconds: float, now_ms: int) -> int | None:
    """Return a time of a request in milliseconds, or None if the source cannot be restored to it.

    SDKs send whole seconds, so a time in the second of EarliestRestorableDateTime means that time.
    """
    assert source.recovery is not None, "the recovery is enabled"
    earliest_ms = restorable_from(source.recovery, now_ms, database.log.horizon_ms or 0)
    if not isfinite(seconds * 1000):
        return None
    time_ms = round(seconds * 1000)
    if time_ms // 1000 == earliest_ms // 1000:
        time_ms = max(time_ms, earliest_ms)
    return time_ms if earliest_ms <= time_ms <= now_ms else None


def check_source(database: Database, reply: Reply, name: str) -> None:
    """Check that the caller may read the past of the table with this name or ARN.

    Raises:
        AccessDeniedError: The caller may not.
    """
    if reply.bearer is not None:
        check_history(reply.bearer, [("foldb:ReadHistory", Right.READ, name_of(name))], database.state)


def check_target(database: Database, name: str) -> None:
    """Check that the target does not exist.

    Raises:
        TableInUseError: The target is being created or deleted.
        TableAlreadyExistsError: The target exists.
    """
    table = database.state.table_named(name)
    if table is None:
        return
    if table.definition.status in ("CREATING", "DELETING"):
        state = {"CREATING": "created", "DELETING": "deleted"}[table.definition.status]
        raise TableInUseError(f"Table is being {state}: {name}")
    raise TableAlreadyExistsError(f"Table already exists: {name}")


class Copy(NamedTuple):
    """A copy of a table that a request asks for.

    Attributes:
        operation: The operation of the command.
        source: The definition whose settings the copy gets.
        target: The name of the copy.
        time_ms: The log time of the items.
        overrides: The members of the request that replace settings.
        backup_arn: The backup of a restore from a backup.
        positions: The positions of a cut by position.
    """

    operation: str
    source: TableDefinition
    target: str
    time_ms: int
    overrides: dict[str, Any]
    backup_arn: str | None = None
    positions: str | None = None


def start(database: Database, copy: Copy, reply: Reply) -> None:
    """Submit the command of a copy, and reply with the description of the new table."""
    source = copy.source
    restore: dict[str, Any] = {
        "Source": {"Id": source.id, "Name": source.name, "Arn": source.arn},
        "TimeMs": copy.time_ms,
    }
    if copy.backup_arn is not None:
        restore["BackupArn"] = copy.backup_arn
    if copy.positions is not None:
        restore["Positions"] = copy.positions
    request = copy_request(source, copy.target, copy.overrides)
    table_commands.create(database, request, reply, copy.operation, restore)
