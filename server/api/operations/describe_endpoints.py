"""DescribeEndpoints: where to send requests. Some SDKs ask before anything else."""

from typing import TYPE_CHECKING, Any

import orjson

from ..reply import Reply

if TYPE_CHECKING:
    from ...node import Node

_CACHE_MINUTES = 1440


def describe_endpoints(node: "Node", _: dict[str, Any], reply: Reply) -> None:
    """Answer this very address."""
    host, port = node.settings.host, node.settings.port
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    reply.ok(orjson.dumps({"Endpoints": [{"Address": address, "CachePeriodInMinutes": _CACHE_MINUTES}]}))
