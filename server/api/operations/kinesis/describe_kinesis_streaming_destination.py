"""DescribeKinesisStreamingDestination: the streams that a table's changes are sent to, or were."""

from typing import TYPE_CHECKING, Any

import orjson

from .....model.subscriptions import Subscription
from ...reply import Reply
from .destinations import PRECISION, destinations, status

if TYPE_CHECKING:
    from ....node import Node


def describe_kinesis_streaming_destination(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Answer all destinations of the table."""
    table = node.table_in_any_status(body["TableName"])
    described = [_described(arn, each) for arn, each in destinations(node, table).items()]
    reply.ok(orjson.dumps({"TableName": table.definition.name, "KinesisDataStreamDestinations": described}))


def _described(arn: str, destination: Subscription) -> dict[str, Any]:
    described = {"StreamArn": arn, "DestinationStatus": status(destination)}
    if destination.status == "STOPPED" and destination.reason is not None:
        described["DestinationStatusDescription"] = destination.reason
    sink = destination.settings["Sink"]
    return described | ({PRECISION: sink[PRECISION]} if PRECISION in sink else {})
