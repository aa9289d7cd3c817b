"""DescribeLimits and DescribeEndpoints: the quotas of the account and the address of the server."""

from typing import Any

import orjson

from ...auth.rights import Right
from ...database import Database
from ..operation import operation
from ..reply import Reply

_CACHE_MINUTES = 1440


@operation("DescribeLimits", Right.NONE)
def describe_limits(database: Database, _: dict[str, Any], reply: Reply) -> None:
    """Reply with the limits that CreateTable and UpdateTable enforce."""
    limits = database.state.limits
    answer = {
        "AccountMaxReadCapacityUnits": limits.account_capacity_units,
        "AccountMaxWriteCapacityUnits": limits.account_capacity_units,
        "TableMaxReadCapacityUnits": limits.table_capacity_units,
        "TableMaxWriteCapacityUnits": limits.table_capacity_units,
    }
    reply.ok(orjson.dumps(answer))


@operation("DescribeEndpoints", Right.NONE)
def describe_endpoints(database: Database, _: dict[str, Any], reply: Reply) -> None:
    """Reply with the address of this server."""
    host, port = database.settings.host, database.settings.port
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    reply.ok(orjson.dumps({"Endpoints": [{"Address": address, "CachePeriodInMinutes": _CACHE_MINUTES}]}))
