"""UpdateTimeToLive: name the attribute that says when an item expires, or have items expire no more."""

from typing import TYPE_CHECKING, Any

from .. import table_commands
from ..reply import Reply

if TYPE_CHECKING:
    from ...node import Node


def update_time_to_live(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Have it changed, and answer the specification that was asked for."""
    table = node.table_in_any_status(body["TableName"])
    specification = body["TimeToLiveSpecification"]
    table_commands.change(
        node, "UpdateTimeToLive", table, body, reply, lambda _: {"TimeToLiveSpecification": specification}
    )
