"""DescribeContinuousBackups: the point-in-time recovery of a table, with its restorable range."""

from typing import Any

import orjson

from ....model.descriptions import describe_continuous_backups as description
from ....model.errors import TableNotFoundError
from ....model.tables import name_of
from ...auth.rights import Right
from ...database import Database
from ..operation import operation
from ..reply import Reply


@operation("DescribeContinuousBackups", Right.READ)
def describe_continuous_backups(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Describe the backups. The log can restore earlier states than the answer says."""
    name = name_of(body["TableName"])
    table = database.state.table_named(name)
    if table is None:
        raise TableNotFoundError(f"Table not found: {name}")
    described = description(table.definition, time_ms=database.clock())
    reply.ok(orjson.dumps({"ContinuousBackupsDescription": described}))
