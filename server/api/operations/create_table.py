"""CreateTable: a new table, empty, with its indexes and settings."""

from typing import TYPE_CHECKING, Any

from ....model.errors import ResourceInUseError
from ....model.tables import name_of
from .. import table_commands
from ..reply import Reply

if TYPE_CHECKING:
    from ...node import Node


def create_table(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Refuse a name that is taken, and have the table defined."""
    name = name_of(body["TableName"])
    if name in node.state.names:
        raise ResourceInUseError(f"Table already exists: {name}")
    table_commands.create(node, body, reply)
