"""Tables that are made of the past: the command of a restore or a fork, and the times that it may name.

request ──► definition of the source ──► DefineTable with a CreateTable's members and the source ──► CREATING
"""

from typing import Any, NamedTuple

from ...materializer.fold.state import Table
from ...materializer.partition import ResultPosition
from ...model.errors import TableAlreadyExistsError, TableInUseError, TableNotFoundError
from ...model.table_copies import copy_request
from ...model.tables import TableDefinition, name_of
from ..auth.rights import Right, check_history
from ..database import Database
from . import table_commands
from .reply import Reply


def find_table(database: Database, name: str) -> Table:
    """Return the table with this name or ARN.

    Raises:
        TableNotFoundError: No table has the name.
    """
    table = database.state.table_named(name_of(name))
    if table is None:
        raise TableNotFoundError(f"Table not found: {name_of(name)}")
    return table


def latest_time(database: Database, position: ResultPosition | None = None) -> int:
    """Return a log time that no acknowledged write is above: the clock's, unless log time is ahead of it."""
    times = [state.log_time for state in database.partitions.states()]
    return max(database.clock(), *times, (position and position.time_ms) or 0)


def check_source(reply: Reply, name: str) -> None:
    """Check that the caller may read the past of the table with this name or ARN.

    Raises:
        AccessDeniedError: The caller may not.
    """
    if reply.bearer is not None:
        check_history(reply.bearer, [("foldb:ReadHistory", Right.READ, name_of(name))])


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
