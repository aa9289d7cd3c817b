"""UpdateContinuousBackups and DescribeContinuousBackups: the point-in-time recovery of a table.

The setting is stored and described. The log can restore earlier states than the description says.
"""

from typing import Any

import orjson

from ....materializer.fold.state import Table
from ....model.descriptions import describe_continuous_backups as description
from ....model.errors import TableNotFoundError
from ....model.tables import name_of
from ...auth.rights import Right
from ...database import Database
from .. import table_commands
from ..operation import operation
from ..reply import Reply


@operation("UpdateContinuousBackups", Right.ADMIN)
def update_continuous_backups(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Store the setting, and reply with the description."""
    table = _table(database, body)
    table_commands.change(
        database,
        "UpdateContinuousBackups",
        table,
        body,
        reply,
        lambda definition: {
            "ContinuousBackupsDescription": description(definition, time_ms=database.clock())
        },
    )


@operation("DescribeContinuousBackups", Right.READ)
def describe_continuous_backups(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Reply with the status and the restorable range."""
    table = _table(database, body)
    described = description(table.definition, time_ms=database.clock())
    reply.ok(orjson.dumps({"ContinuousBackupsDescription": described}))


def _table(database: Database, body: dict[str, Any]) -> Table:
    name = name_of(body["TableName"])
    table = database.state.table_named(name)
    if table is None:
        raise TableNotFoundError(f"Table not found: {name}")
    return table
