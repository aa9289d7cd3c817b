"""EnableKinesisStreamingDestination: send what changes from now on to a stream. A table has one such destination."""

from functools import partial
from typing import TYPE_CHECKING, Any

from .....materializer.fold.state import Table
from .....model.errors import RequestError
from ....subscriptions.async_partition import answer as run
from ...reply import Reply
from .destinations import (
    PRECISION,
    answer,
    check_arn,
    destinations,
    name_of,
    not_in_a_state,
    status,
    table_of,
)

if TYPE_CHECKING:
    from ....node import Node

# Several of DynamoDB's records go into one of Kinesis's requests; nothing of a table's changes is ever left out.
_SETTINGS = {"BatchSize": 500, "MaximumRetryAttempts": -1, "OnFailure": "block"}


def enable_kinesis_streaming_destination(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Make the subscription; one that was disabled makes way for it."""
    table = table_of(node, body["TableName"])
    check_arn(body["StreamArn"])
    known = destinations(node, table)
    if any(status(each) == "ACTIVE" for each in known.values()):
        raise not_in_a_state(
            "EnableKinesisStreamingDestination must be DISABLED or ENABLE_FAILED to perform ENABLE operation."
        )
    create = partial(_create, node, table, body, reply)
    if body["StreamArn"] in known:
        removal = node.triggers.remove(name_of(table, body["StreamArn"]), reply.context)
        run(node.loop, removal, create)
    else:
        create({})


def _create(
    node: "Node", table: Table, body: dict[str, Any], reply: Reply, removed: dict[str, Any] | RequestError
) -> None:
    if isinstance(removed, RequestError):
        reply.error(removed)
        return
    sink = {"Kind": "kinesis", "StreamArn": body["StreamArn"]}
    precision = body.get("EnableKinesisStreamingConfiguration", {}).get(PRECISION)
    if precision is not None:
        sink[PRECISION] = precision
    settings = {**_SETTINGS, "TableNames": [table.definition.name], "Sink": sink}
    name = name_of(table, body["StreamArn"])
    creation = node.triggers.create(name, settings, reply.context)
    run(node.loop, creation, partial(answer, reply, table, body, "ENABLING"))
