"""DisableKinesisStreamingDestination: stop sending changes to a Kinesis stream."""

from typing import Any

from .....model.errors import ValidationError
from ....auth.rights import Right
from ....node import Node
from ...operation import operation
from ...reply import Caller
from .destinations import answer, destinations, invalid_state, status, table_of


@operation("DisableKinesisStreamingDestination", Right.ADMIN)
async def disable_kinesis_streaming_destination(
    node: Node, body: dict[str, Any], caller: Caller
) -> dict[str, Any]:
    """Pause the subscription, after it has sent the changes written before. It is DISABLED from then on."""
    if "EnableKinesisStreamingConfiguration" in body:
        raise ValidationError(
            "Stream cannot be disabled using EnableKinesisStreamingConfiguration parameters"
        )
    table = table_of(node, body["TableName"])
    destination = destinations(node, table).get(body["StreamArn"])
    if destination is None or status(destination) != "ACTIVE":
        raise invalid_state("KinesisStreamingDestination must be ACTIVE to perform DISABLE operation.")
    await node.triggers.disable(destination.name, caller.context)
    return answer(table, body, "DISABLING")
