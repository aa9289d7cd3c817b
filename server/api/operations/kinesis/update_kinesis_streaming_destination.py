"""UpdateKinesisStreamingDestination: change the precision of the times that are sent to a Kinesis stream."""

from typing import Any

from .....model.errors import ValidationError
from ....auth.rights import Right
from ....node import Node
from ...operation import operation
from ...reply import Caller
from .destinations import PRECISION, answer, destinations, invalid_state, status, table_of


@operation("UpdateKinesisStreamingDestination", Right.ADMIN)
async def update_kinesis_streaming_destination(
    node: Node, body: dict[str, Any], caller: Caller
) -> dict[str, Any]:
    """Change the sink of the subscription."""
    precision = body.get("UpdateKinesisStreamingConfiguration", {}).get(PRECISION)
    if precision is None:
        raise ValidationError(
            "Streaming destination cannot be updated with given parameters: "
            "UpdateKinesisStreamingConfiguration cannot be null or contain only null values"
        )
    table, arn = table_of(node, body["TableName"]), body["StreamArn"]
    name, destination = table.definition.name, destinations(node, table).get(arn)
    if destination is None:
        raise invalid_state(
            f"No streaming destination with streamArn: {arn} found for table with tableName: {name}"
        )
    if status(destination) != "ACTIVE":
        raise invalid_state(
            "Kinesis streaming is not in ACTIVE state. Updates are only allowed in ACTIVE state. "
            f"TableName: {name}, kdsArn: {arn}"
        )
    sink = destination.settings["Sink"]
    if sink.get(PRECISION, "MILLISECOND") == precision:
        raise ValidationError(
            f"Invalid Request: Precision is already set to the desired value of {precision} "
            f"for tableId: {table.definition.uuid}, kdsArn: {arn}"
        )
    changes = {"Sink": {**sink, PRECISION: precision}}
    await node.triggers.update(destination.name, changes, caller.context)
    return answer(table, body, "UPDATING")
