"""UpdateItem: change the item at a key, or create it."""

from typing import Any

from ....log.commands import Update
from ...auth.rights import Right
from ...database import Database
from .. import parameters, write_requests
from ..operation import operation
from ..reply import Reply


@operation("UpdateItem", Right.WRITE)
def update_item(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Validate the request and submit an Update."""
    limits, key = database.limits, body["Key"]
    request = parameters.parse_write(body, key, limits, "UpdateItem")
    definition = database.table(body["TableName"]).definition
    pk, sk = definition.key.read_key(key, limits)
    if request.expression is not None:
        write_requests.check_key_paths(definition, request.expression)
    command = Update(
        definition.id,
        pk,
        sk,
        reply.context,
        request.expression,
        request.return_values,
        request.show_refused,
    )
    write_requests.submit(database, body, reply, definition, pk, command, request.expression_bytes)
