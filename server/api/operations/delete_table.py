"""DeleteTable: remove a table, its items and its indexes. The log keeps what they were."""

from typing import TYPE_CHECKING, Any

from .. import table_commands
from ..reply import Reply

if TYPE_CHECKING:
    from ...node import Node

# DynamoDB describes a table that is being deleted without these.
_OMITTED = frozenset(
    (
        "AttributeDefinitions",
        "CreationDateTime",
        "GlobalSecondaryIndexes",
        "KeySchema",
        "LocalSecondaryIndexes",
    )
)


def delete_table(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Have the table removed."""
    table = node.table_in_any_status(body["TableName"])
    table_commands.change(node, "DeleteTable", table, body, reply, omit=_OMITTED)
