"""DescribeContinuousBackups: whether a table can be restored to a point in time, and to which."""

from typing import TYPE_CHECKING, Any

import orjson

from ....model.descriptions import describe_continuous_backups as description
from ....model.errors import TableNotFoundError
from ....model.tables import name_of
from ..reply import Reply

if TYPE_CHECKING:
    from ...node import Node


def describe_continuous_backups(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Describe what was asked for. The log restores further back, whatever this says."""
    name = name_of(body["TableName"])
    table = node.state.table_named(name)
    if table is None:
        raise TableNotFoundError(f"Table not found: {name}")
    described = description(table.definition, time_ms=node.clock())
    reply.ok(orjson.dumps({"ContinuousBackupsDescription": described}))
