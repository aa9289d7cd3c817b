"""DescribeTable: a table's definition, state and counts. The counts are exact, and as of this moment."""

from typing import TYPE_CHECKING, Any

from ....model.errors import ResourceNotFoundError
from .. import table_commands
from ..reply import Reply

if TYPE_CHECKING:
    from ...node import Node


def describe_table(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Describe the table, unless the control plane has a delay that is not over yet.

    A clock that is behind log time measures no age, and delays nothing.
    """
    table = node.table_in_any_status(body["TableName"])
    definition = table.definition
    if 0 <= node.clock() - definition.created_ms < node.settings.control_plane_delay_ms:
        raise ResourceNotFoundError(f"Requested resource not found: Table: {definition.name} not found")
    table_commands.describe_to(node, reply, "Table", table, definition)
