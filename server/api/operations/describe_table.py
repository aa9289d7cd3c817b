"""DescribeTable: a table's definition, state and counts. The counts are exact, and as of this moment."""

from typing import Any

from ....model.errors import ResourceNotFoundError
from ...auth.rights import Right
from ...database import Database
from .. import table_commands
from ..operation import operation
from ..reply import Reply


@operation("DescribeTable", Right.READ)
def describe_table(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Describe the table, unless the control plane has a delay that is not over yet.

    A clock that is behind log time measures no age, and delays nothing.
    """
    table = database.table_in_any_status(body["TableName"])
    definition = table.definition
    if 0 <= database.clock() - definition.created_ms < database.settings.control_plane_delay_ms:
        raise ResourceNotFoundError(f"Requested resource not found: Table: {definition.name} not found")
    table_commands.describe_to(database, reply, "Table", table, definition)
