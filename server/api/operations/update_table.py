"""UpdateTable: change the throughput, billing, global indexes or settings of a table."""

from typing import Any

from ...auth.rights import Right
from ...database import Database
from .. import table_commands
from ..operation import operation
from ..reply import Reply


@operation("UpdateTable", Right.ADMIN)
def update_table(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Change the table."""
    table = database.table_in_any_status(body["TableName"])
    table_commands.change(database, "UpdateTable", table, body, reply)
