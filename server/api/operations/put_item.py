"""PutItem: store an item in place of whatever its key holds."""

from typing import Any

from ....log.commands import Put
from ....model.tables import index_key_error
from ....model.values import check_item, dump
from ...auth.rights import Right
from ...database import Database
from .. import parameters, write_requests
from ..operation import operation
from ..reply import Reply


@operation("PutItem", Right.WRITE)
def put_item(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Check the request, and have the Put folded."""
    limits, item = database.limits, body["Item"]
    conditional = parameters.has_write_expression(body)
    values_bytes = parameters.check(body, limits, "PutItem") if conditional else 0
    size = check_item(item, limits)
    write_requests.check_returns(body)
    expression = parameters.write_expression(body, limits) if conditional else None

    definition = database.table(body["TableName"]).definition
    write_requests.check_key_paths(definition, expression)
    pk, sk = definition.key.item_key(item, limits)
    if definition.indexes and (error := index_key_error(definition, item, limits)) is not None:
        raise error
    data = dump(item)
    command = Put(
        definition.id,
        pk,
        sk,
        data,
        size,
        reply.context,
        expression,
        body.get("ReturnValues", "NONE"),
        write_requests.shows_refused(body),
        item,
    )
    write_requests.submit(
        database,
        body,
        reply,
        definition,
        pk,
        command,
        len(data) + parameters.written_bytes(expression, values_bytes),
    )
