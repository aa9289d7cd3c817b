"""DeleteTable: remove a table, its items and its indexes. The log keeps their history."""

from typing import Any

from ...auth.rights import Right
from ...database import Database
from .. import table_commands
from ..operation import operation
from ..reply import Reply

# DynamoDB omits these from the description of a table that is being deleted.
_OMITTED = frozenset(
    (
        "AttributeDefinitions",
        "CreationDateTime",
        "GlobalSecondaryIndexes",
        "KeySchema",
        "LocalSecondaryIndexes",
    )
)


@operation("DeleteTable", Right.ADMIN)
def delete_table(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Delete the table."""
    table = database.table_in_any_status(body["TableName"])
    table_commands.change(database, "DeleteTable", table, body, reply, omit=_OMITTED)
