"""UpdateItem and DeleteItem: change the item at a key, or create it; remove it, if there is one."""

from typing import Any

from ....log.commands import Delete, Update
from ...auth.rights import Right
from ...database import Database
from .. import parameters, write_requests
from ..operation import Operation, operation
from ..reply import Reply


def _write_at_key(name: str, kind: type[Update | Delete]) -> Operation:
    """Declare an operation that submits a command for the item at the Key of its request."""

    def handle(database: Database, body: dict[str, Any], reply: Reply) -> None:
        limits, key = database.state.limits, body["Key"]
        request = parameters.parse_write(body, key, limits, name)
        definition = database.state.usable_table(body["TableName"]).definition
        pk, sk = definition.key.read_key(key, limits)
        if request.expression is not None:
            write_requests.check_key_paths(definition, request.expression)
        command = kind(
            definition.id,
            pk,
            sk,
            reply.context,
            request.expression,
            request.return_values,
            request.show_refused,
        )
        write_requests.submit(database, body, reply, definition, pk, command, request.expression_bytes)

    return operation(name, Right.WRITE)(handle)


update_item = _write_at_key("UpdateItem", Update)
delete_item = _write_at_key("DeleteItem", Delete)
