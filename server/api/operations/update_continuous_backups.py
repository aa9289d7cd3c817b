"""UpdateContinuousBackups: enable or disable point-in-time recovery. The setting is stored and described."""

from typing import Any

from ....model.descriptions import describe_continuous_backups
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
    name = name_of(body["TableName"])
    table = database.state.table_named(name)
    if table is None:
        raise TableNotFoundError(f"Table not found: {name}")
    table_commands.change(
        database,
        "UpdateContinuousBackups",
        table,
        body,
        reply,
        lambda definition: {
            "ContinuousBackupsDescription": describe_continuous_backups(definition, time_ms=database.clock())
        },
    )
