"""UpdateTable: change a table's throughput, billing, global indexes or settings while it serves."""

from typing import TYPE_CHECKING, Any

from .. import table_commands
from ..reply import Reply

if TYPE_CHECKING:
    from ...node import Node


def update_table(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Have the table changed."""
    table = node.table_in_any_status(body["TableName"])
    table_commands.change(node, "UpdateTable", table, body, reply)
