"""UpdateContinuousBackups and DescribeContinuousBackups: the point-in-time recovery of a table.

It permits RestoreTableToPointInTime, and a trim of the log keeps its period. The log may hold earlier states, which
`foldb restore` reads.
"""

from typing import Any

import orjson

from ....model.descriptions import describe_continuous_backups as description
from ....model.tables import TableDefinition
from ...auth.rights import Right
from ...database import Database
from .. import table_commands
from ..operation import operation
from ..reply import Reply
from ..restores import find_table


@operation("UpdateContinuousBackups", Right.ADMIN)
def update_continuous_backups(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Store the setting, and reply with the description."""
    table = find_table(database, body["TableName"])
    table_commands.change(
        database,
        "UpdateContinuousBackups",
        table,
        body,
        reply,
        lambda definition: {"ContinuousBackupsDescription": _described(database, definition)},
    )


@operation("DescribeContinuousBackups", Right.READ)
def describe_continuous_backups(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Reply with the status and the restorable range."""
    table = find_table(database, body["TableName"])
    reply.ok(orjson.dumps({"ContinuousBackupsDescription": _described(database, table.definition)}))


def _described(database: Database, definition: TableDefinition) -> dict[str, Any]:
    return description(definition, time_ms=database.clock(), horizon_ms=database.log.horizon_ms or 0)
