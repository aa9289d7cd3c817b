"""UntagResource: take tags from a table."""

from typing import TYPE_CHECKING, Any

from .. import table_commands
from ..reply import Reply

if TYPE_CHECKING:
    from ...node import Node


def untag_resource(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Have the tags removed, and answer with an empty body; keys that the table does not have are no error."""
    table = table_commands.table_to_tag(node, body["ResourceArn"])
    table_commands.change(node, "UntagResource", table, body, reply, lambda _: None)
