"""UpdateTimeToLive: set the attribute with the expiry time of items, or disable expiry."""

from typing import Any

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
