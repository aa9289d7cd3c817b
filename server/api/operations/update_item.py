"""UpdateItem: change the item at a key, creating it where there is none."""

from typing import Any

from ....log.commands import Update
from ....model.values import check_item
from ...auth.rights import Right
from ...database import Database
from .. import parameters, write_requests
from ..operation import operation
from ..reply import Reply


@operation("UpdateItem", Right.WRITE)
def update_item(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Check the request, and have the Update folded."""
    limits, key = database.limits, body["Key"]
    conditional = parameters.has_write_expression(body)
    values_bytes = parameters.check(body, limits, "UpdateItem") if conditional else 0
    check_item(key, limits)
    expression = parameters.write_expression(body, limits) if conditional else None

    definition = database.table(body["TableName"]).definition
    pk, sk = definition.key.read_key(key, limits)
    write_requests.check_key_paths(definition, expression)
    command = Update(
        definition.id,
        pk,
        sk,
        reply.context,
        expression,
        body.get("ReturnValues", "NONE"),
        write_requests.shows_refused(body),
    )
    write_requests.submit(
        database, body, reply, definition, pk, command, parameters.written_bytes(expression, values_bytes)
    )
