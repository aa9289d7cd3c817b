"""DescribeTimeToLive: the status and the attribute of a table's time to live."""

from typing import Any

import orjson

from ....model.descriptions import describe_time_to_live as description
from ...auth.rights import Right
from ...database import Database
from ..operation import operation
from ..reply import Reply


@operation("DescribeTimeToLive", Right.READ)
def describe_time_to_live(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Reply with the status. Changes take effect at once, so it is never ENABLING or DISABLING."""
    definition = database.table_in_any_status(body["TableName"]).definition
    reply.ok(orjson.dumps({"TimeToLiveDescription": description(definition)}))
