"""DescribeKinesisStreamingDestination: the Kinesis streams that a table's changes are or were sent to."""

from typing import Any

from .....model.subscriptions import Subscription
from ....auth.rights import Right
from ....node import Node
from ...operation import operation
from ...reply import Caller
from .destinations import PRECISION, destinations, status


@operation("DescribeKinesisStreamingDestination", Right.READ)
async def describe_kinesis_streaming_destination(
    node: Node, body: dict[str, Any], _: Caller
) -> dict[str, Any]:
    """Return all destinations of the table."""
    table = node.table_in_any_status(body["TableName"])
    described = [_described(arn, each) for arn, each in destinations(node, table).items()]
    return {"TableName": table.definition.name, "KinesisDataStreamDestinations": described}


def _described(arn: str, destination: Subscription) -> dict[str, Any]:
    described = {"StreamArn": arn, "DestinationStatus": status(destination)}
    if destination.status == "STOPPED" and destination.reason is not None:
        described["DestinationStatusDescription"] = destination.reason
    sink = destination.settings["Sink"]
    return described | ({PRECISION: sink[PRECISION]} if PRECISION in sink else {})
