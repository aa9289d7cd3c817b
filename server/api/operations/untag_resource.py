"""UntagResource: remove tags from a table."""

from typing import Any

from ...auth.rights import Right
from ...database import Database
from .. import table_commands
from ..operation import operation
from ..reply import Reply


@operation("UntagResource", Right.ADMIN, member="ResourceArn")
def untag_resource(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Remove the tags, and reply with an empty body. Unknown keys are no error."""
    table = table_commands.table_to_tag(database, body["ResourceArn"])
    table_commands.change(database, "UntagResource", table, body, reply, lambda _: None)
