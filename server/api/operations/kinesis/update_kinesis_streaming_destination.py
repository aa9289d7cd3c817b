"""UpdateKinesisStreamingDestination: tell the time of changes more finely, or less."""

from functools import partial
from typing import TYPE_CHECKING, Any

from .....model.errors import ValidationError
from ....subscriptions.async_partition import answer as run
from ...reply import Reply
from .destinations import PRECISION, answer, destinations, not_in_a_state, status, table_of

if TYPE_CHECKING:
    from ....node import Node


def update_kinesis_streaming_destination(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Change the subscription's sink."""
    precision = body.get("UpdateKinesisStreamingConfiguration", {}).get(PRECISION)
    if precision is None:
        raise ValidationError(
            "Streaming destination cannot be updated with given parameters: "
            "UpdateKinesisStreamingConfiguration cannot be null or contain only null values"
        )
    table, arn = table_of(node, body["TableName"]), body["StreamArn"]
    name, destination = table.definition.name, destinations(node, table).get(arn)
    if destination is None:
        raise not_in_a_state(
            f"No streaming destination with streamArn: {arn} found for table with tableName: {name}"
        )
    if status(destination) != "ACTIVE":
        raise not_in_a_state(
            "Kinesis streaming is not in ACTIVE state. Updates are only allowed in ACTIVE state. "
            f"TableName: {name}, kdsArn: {arn}"
        )
    sink = destination.settings["Sink"]
    if sink.get(PRECISION, "MILLISECOND") == precision:
        raise ValidationError(
            f"Invalid Request: Precision is already set to the desired value of {precision} "
            f"for tableId: {table.definition.uuid}, kdsArn: {arn}"
        )
    done = partial(answer, reply, table, body, "UPDATING")
    change = {"Sink": {**sink, PRECISION: precision}}
    run(node.loop, node.triggers.update(destination.name, change, reply.context), done)
