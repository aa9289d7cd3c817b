"""DescribeLimits: the most throughput that an account and a table may provision."""

from typing import TYPE_CHECKING, Any

import orjson

from ..reply import Reply

if TYPE_CHECKING:
    from ...node import Node


def describe_limits(node: "Node", _: dict[str, Any], reply: Reply) -> None:
    """Answer the limits that CreateTable and UpdateTable hold to."""
    limits = node.limits
    answer = {
        "AccountMaxReadCapacityUnits": limits.account_capacity_units,
        "AccountMaxWriteCapacityUnits": limits.account_capacity_units,
        "TableMaxReadCapacityUnits": limits.table_capacity_units,
        "TableMaxWriteCapacityUnits": limits.table_capacity_units,
    }
    reply.ok(orjson.dumps(answer))
