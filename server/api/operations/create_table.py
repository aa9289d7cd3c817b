"""CreateTable: a new table, empty, with its indexes and settings."""

from typing import Any

from ....model.errors import ResourceInUseError
from ....model.tables import name_of
from ...auth.rights import Right
from ...database import Database
from .. import table_commands
from ..operation import operation
from ..reply import Reply


@operation("CreateTable", Right.ADMIN)
def create_table(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Refuse an existing name, and create the table."""
    name = name_of(body["TableName"])
    if name in database.state.names:
        raise ResourceInUseError(f"Table already exists: {name}")
    table_commands.create(database, body, reply)
