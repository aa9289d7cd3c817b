"""DescribeLimits: the maximum throughput of an account and of a table."""

from typing import Any

import orjson

from ...auth.rights import Right
from ...database import Database
from ..operation import operation
from ..reply import Reply


@operation("DescribeLimits", Right.NONE)
def describe_limits(database: Database, _: dict[str, Any], reply: Reply) -> None:
    """Reply with the limits that CreateTable and UpdateTable enforce."""
    limits = database.limits
    answer = {
        "AccountMaxReadCapacityUnits": limits.account_capacity_units,
        "AccountMaxWriteCapacityUnits": limits.account_capacity_units,
        "TableMaxReadCapacityUnits": limits.table_capacity_units,
        "TableMaxWriteCapacityUnits": limits.table_capacity_units,
    }
    reply.ok(orjson.dumps(answer))
