"""DeleteItem: remove the item at a key, if there is one."""

from typing import TYPE_CHECKING, Any

from ....log.commands import Delete
from ....model.values import check_item
from .. import parameters, write_requests
from ..reply import Reply

if TYPE_CHECKING:
    from ...node import Node


def delete_item(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Check the request, and have the Delete folded."""
    limits, key = node.limits, body["Key"]
    conditional = parameters.has_write_expression(body)
    values_bytes = parameters.check(body, limits, "DeleteItem") if conditional else 0
    check_item(key, limits)
    write_requests.check_returns(body)
    expression = parameters.write_expression(body, limits) if conditional else None

    definition = node.table(body["TableName"]).definition
    pk, sk = definition.key.read_key(key, limits)
    write_requests.check_key_paths(definition, expression)
    command = Delete(
        definition.id,
        pk,
        sk,
        reply.context,
        expression,
        body.get("ReturnValues", "NONE"),
        write_requests.shows_refused(body),
    )
    write_requests.submit(
        node, body, reply, definition, pk, command, parameters.written_bytes(expression, values_bytes)
    )
