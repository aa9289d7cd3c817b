"""DescribeLimits: the most throughput that an account and a table may provision."""

from typing import Any

import orjson

from ...auth.rights import Right
from ...database import Database
from ..operation import operation
from ..reply import Reply


@operation("DescribeLimits", Right.NONE)
def describe_limits(database: Database, _: dict[str, Any], reply: Reply) -> None:
    """Answer the limits that CreateTable and UpdateTable hold to."""
    limits = database.limits
    answer = {
        "AccountMaxReadCapacityUnits": limits.account_capacity_units,
        "AccountMaxWriteCapacityUnits": limits.account_capacity_units,
        "TableMaxReadCapacityUnits": limits.table_capacity_units,
        "TableMaxWriteCapacityUnits": limits.table_capacity_units,
    }
    reply.ok(orjson.dumps(answer))
