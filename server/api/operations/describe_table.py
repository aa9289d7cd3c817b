"""DescribeTable: the definition, the status and the counts of a table. The counts are exact and current by default."""

from typing import Any

from ....model.errors import ResourceNotFoundError
from ...auth.rights import Right
from ...database import Database
from .. import table_commands
from ..operation import operation
from ..reply import Reply


@operation("DescribeTable", Right.READ)
def describe_table(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Describe the table, unless it is younger than the delay of the control plane.

    A clock that is behind log time cannot measure the age of a table, and delays nothing.
    """
    table = database.table_in_any_status(body["TableName"])
    definition = table.definition
    if 0 <= database.clock() - definition.created_ms < database.settings.control_plane_delay_ms:
        raise ResourceNotFoundError(f"Requested resource not found: Table: {definition.name} not found")
    table_commands.describe_to(database, reply, "Table", table, definition)
