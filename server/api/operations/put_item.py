"""PutItem: store an item, replacing the item at its key if there is one."""

from typing import Any

from ....log.commands import Put
from ....model.index_keys import index_key_error
from ....model.values import dump
from ...auth.rights import Right
from ...database import Database
from .. import parameters, write_requests
from ..operation import operation
from ..reply import Reply


@operation("PutItem", Right.WRITE)
def put_item(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Validate the request and submit a Put."""
    limits, item = database.state.limits, body["Item"]
    request = parameters.parse_write(body, item, limits, "PutItem")
    definition = database.state.usable_table(body["TableName"]).definition
    if request.expression is not None:
        write_requests.check_key_paths(definition, request.expression)
    pk, sk = definition.key.item_key(item, limits)
    if definition.indexes and (error := index_key_error(definition, item, limits)) is not None:
        raise error
    data = dump(item)
    command = Put(
        definition.id,
        pk,
        sk,
        data,
        request.size,
        reply.context,
        request.expression,
        request.return_values,
        request.show_refused,
        item,
    )
    write_requests.submit(
        database,
        body,
        reply,
        definition,
        pk,
        command,
        len(data) + request.expression_bytes,
    )
