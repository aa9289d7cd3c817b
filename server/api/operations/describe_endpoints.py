"""DescribeEndpoints: the address for requests. Some SDKs call it first."""

from typing import Any

import orjson

from ...auth.rights import Right
from ...database import Database
from ..operation import operation
from ..reply import Reply

_CACHE_MINUTES = 1440


@operation("DescribeEndpoints", Right.NONE)
def describe_endpoints(database: Database, _: dict[str, Any], reply: Reply) -> None:
    """Reply with the address of this server."""
    host, port = database.settings.host, database.settings.port
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    reply.ok(orjson.dumps({"Endpoints": [{"Address": address, "CachePeriodInMinutes": _CACHE_MINUTES}]}))
