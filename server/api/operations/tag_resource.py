"""TagResource: add tags to a table, or change their values."""

from typing import Any

from ...auth.rights import Right
from ...database import Database
from .. import table_commands
from ..operation import operation
from ..reply import Reply


@operation("TagResource", Right.ADMIN, member="ResourceArn")
def tag_resource(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Set the tags, and reply with an empty body."""
    table = table_commands.table_to_tag(database, body["ResourceArn"])
    table_commands.change(database, "TagResource", table, body, reply, lambda _: None)
