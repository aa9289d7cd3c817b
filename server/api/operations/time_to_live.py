"""UpdateTimeToLive and DescribeTimeToLive: the attribute with the expiry time of items."""

from typing import Any

import orjson

from ....model.descriptions import describe_time_to_live as description
from ...auth.rights import Right
from ...database import Database
from .. import table_commands
from ..operation import operation
from ..reply import Reply


@operation("UpdateTimeToLive", Right.ADMIN)
def update_time_to_live(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Change the setting, and reply with the specification of the request."""
    table = database.table_in_any_status(body["TableName"])
    specification = body["TimeToLiveSpecification"]
    table_commands.change(
        database, "UpdateTimeToLive", table, body, reply, lambda _: {"TimeToLiveSpecification": specification}
    )


@operation("DescribeTimeToLive", Right.READ)
def describe_time_to_live(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Reply with the status. Changes take effect at once, so it is never ENABLING or DISABLING."""
    definition = database.table_in_any_status(body["TableName"]).definition
    reply.ok(orjson.dumps({"TimeToLiveDescription": description(definition)}))
