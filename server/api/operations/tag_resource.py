"""TagResource: give a table tags, or existing tags other values."""

from typing import TYPE_CHECKING, Any

from .. import table_commands
from ..reply import Reply

if TYPE_CHECKING:
    from ...node import Node


def tag_resource(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Have the tags set, and answer with an empty body."""
    table = table_commands.table_to_tag(node, body["ResourceArn"])
    table_commands.change(node, "TagResource", table, body, reply, lambda _: None)
