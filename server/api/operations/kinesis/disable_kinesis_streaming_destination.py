"""DisableKinesisStreamingDestination: send nothing more to a stream than what was written before."""

from functools import partial
from typing import TYPE_CHECKING, Any

from .....model.errors import ValidationError
from ....subscriptions.async_partition import answer as run
from ...reply import Reply
from .destinations import answer, destinations, not_in_a_state, status, table_of

if TYPE_CHECKING:
    from ....node import Node


def disable_kinesis_streaming_destination(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Pause the subscription: the destination is told of as DISABLED from now on."""
    if "EnableKinesisStreamingConfiguration" in body:
        raise ValidationError(
            "Stream cannot be disabled using EnableKinesisStreamingConfiguration parameters"
        )
    table = table_of(node, body["TableName"])
    destination = destinations(node, table).get(body["StreamArn"])
    if destination is None or status(destination) != "ACTIVE":
        raise not_in_a_state("KinesisStreamingDestination must be ACTIVE to perform DISABLE operation.")
    done = partial(answer, reply, table, body, "DISABLING")
    run(node.loop, node.triggers.disable(destination.name, reply.context), done)
