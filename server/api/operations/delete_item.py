"""DeleteItem: remove the item at a key, if there is one."""

from typing import Any

from ....log.commands import Delete
from ...auth.rights import Right
from ...database import Database
from .. import parameters, write_requests
from ..operation import operation
from ..reply import Reply


@operation("DeleteItem", Right.WRITE)
def delete_item(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Validate the request and submit a Delete."""
    limits, key = database.limits, body["Key"]
    request = parameters.parse_write(body, key, limits, "DeleteItem")
    definition = database.table(body["TableName"]).definition
    pk, sk = definition.key.read_key(key, limits)
    if request.expression is not None:
        write_requests.check_key_paths(definition, request.expression)
    command = Delete(
        definition.id,
        pk,
        sk,
        reply.context,
        request.expression,
        request.return_values,
        request.show_refused,
    )
    write_requests.submit(database, body, reply, definition, pk, command, request.expression_bytes)
