"""DescribeTimeToLive: whether items of a table expire, and by which attribute."""

from typing import TYPE_CHECKING, Any

import orjson

from ....model.descriptions import describe_time_to_live as description
from ..reply import Reply

if TYPE_CHECKING:
    from ...node import Node


def describe_time_to_live(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Describe it. A change is in force at once, so nothing is ever ENABLING or DISABLING."""
    definition = node.table_in_any_status(body["TableName"]).definition
    reply.ok(orjson.dumps({"TimeToLiveDescription": description(definition)}))
