"""EnableKinesisStreamingDestination: send a table's changes to a Kinesis stream.

A table has at most one active destination.
"""

from typing import Any

from ....auth.rights import Right
from ....node import Node
from ...operation import operation
from ...reply import Caller
from .destinations import (
    PRECISION,
    answer,
    check_arn,
    destinations,
    invalid_state,
    name_of,
    status,
    table_of,
)

# A request to Kinesis takes up to 500 records. Changes are retried until they are sent, and none is dropped.
_SETTINGS = {"BatchSize": 500, "MaximumRetryAttempts": -1, "OnFailure": "block"}


@operation("EnableKinesisStreamingDestination", Right.ADMIN)
async def enable_kinesis_streaming_destination(
    node: Node, body: dict[str, Any], caller: Caller
) -> dict[str, Any]:
    """Create the subscription; a disabled subscription to the same stream is removed first."""
    table = table_of(node, body["TableName"])
    check_arn(body["StreamArn"])
    existing = destinations(node, table)
    if any(status(each) == "ACTIVE" for each in existing.values()):
        raise invalid_state(
            "EnableKinesisStreamingDestination must be DISABLED or ENABLE_FAILED to perform ENABLE operation."
        )
    name = name_of(table, body["StreamArn"])
    if body["StreamArn"] in existing:
        await node.triggers.remove(name, caller.context)
    sink = {"Kind": "kinesis", "StreamArn": body["StreamArn"]}
    precision = body.get("EnableKinesisStreamingConfiguration", {}).get(PRECISION)
    if precision is not None:
        sink[PRECISION] = precision
    settings = {**_SETTINGS, "TableNames": [table.definition.name], "Sink": sink}
    await node.triggers.create(name, settings, caller.context)
    return answer(table, body, "ENABLING")
