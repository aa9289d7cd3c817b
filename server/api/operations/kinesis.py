"""The operations that send a table's changes to a Kinesis data stream. DynamoDB's "destination" is a subscription.

    Enable ──► creates a subscription with a Kinesis sink    Update ──► changes its precision    Disable ──► pauses it

subscription    destination
ACTIVE          ACTIVE
PAUSED          DISABLED; Enable replaces it with a new subscription
STOPPED         ENABLE_FAILED, with the reason

A table has at most one active destination.
"""

from hashlib import blake2b
from typing import Any, Final

from ....materializer.fold.state import Table
from ....model.errors import ValidationError
from ....model.subscriptions import Subscription
from ....model.table_requests import check_in_use
from ....streams.sinks.kinesis import stream_name
from ...auth.rights import Right
from ...node import Node
from ...subscriptions.runner import destination_prefix
from ..operation import operation
from ..reply import Caller

_PRECISION: Final = "ApproximateCreationDateTimePrecision"

_STATUS: Final = {"ACTIVE": "ACTIVE", "PAUSED": "DISABLED", "STOPPED": "ENABLE_FAILED"}

# A request to Kinesis takes up to 500 records. Changes are retried until they are sent, and none is dropped.
_SETTINGS = {"BatchSize": 500, "MaximumRetryAttempts": -1, "OnFailure": "block"}


@operation("EnableKinesisStreamingDestination", Right.ADMIN)
async def enable_kinesis_streaming_destination(
    node: Node, body: dict[str, Any], caller: Caller
) -> dict[str, Any]:
    """Create the subscription; a disabled subscription to the same stream is removed first."""
    table = _table_of(node, body["TableName"])
    _check_arn(body["StreamArn"])
    existing = _destinations(node, table)
    if any(_status(each) == "ACTIVE" for each in existing.values()):
        raise _invalid_state(
            "EnableKinesisStreamingDestination must be DISABLED or ENABLE_FAILED to perform ENABLE operation."
        )
    name = _name_of(table, body["StreamArn"])
    if body["StreamArn"] in existing:
        await node.triggers.remove(name, caller.context)
    sink = {"Kind": "kinesis", "StreamArn": body["StreamArn"]}
    precision = body.get("EnableKinesisStreamingConfiguration", {}).get(_PRECISION)
    if precision is not None:
        sink[_PRECISION] = precision
    settings = {**_SETTINGS, "TableNames": [table.definition.name], "Sink": sink}
    await node.triggers.create(name, settings, caller.context)
    return _answer(table, body, "ENABLING")


@operation("DescribeKinesisStreamingDestination", Right.READ)
async def describe_kinesis_streaming_destination(
    node: Node, body: dict[str, Any], _: Caller
) -> dict[str, Any]:
    """Return all destinations of the table."""
    table = node.table_in_any_status(body["TableName"])
    described = [_described(arn, each) for arn, each in _destinations(node, table).items()]
    return {"TableName": table.definition.name, "KinesisDataStreamDestinations": described}


def _described(arn: str, destination: Subscription) -> dict[str, Any]:
    described = {"StreamArn": arn, "DestinationStatus": _status(destination)}
    if destination.status == "STOPPED" and destination.reason is not None:
        described["DestinationStatusDescription"] = destination.reason
    sink = destination.settings["Sink"]
    return described | ({_PRECISION: sink[_PRECISION]} if _PRECISION in sink else {})


@operation("UpdateKinesisStreamingDestination", Right.ADMIN)
async def update_kinesis_streaming_destination(
    node: Node, body: dict[str, Any], caller: Caller
) -> dict[str, Any]:
    """Change the sink of the subscription."""
    precision = body.get("UpdateKinesisStreamingConfiguration", {}).get(_PRECISION)
    if precision is None:
        raise ValidationError(
            "Streaming destination cannot be updated with given parameters: "
            "UpdateKinesisStreamingConfiguration cannot be null or contain only null values"
        )
    table, arn = _table_of(node, body["TableName"]), body["StreamArn"]
    name, destination = table.definition.name, _destinations(node, table).get(arn)
    if destination is None:
        raise _invalid_state(
            f"No streaming destination with streamArn: {arn} found for table with tableName: {name}"
        )
    if _status(destination) != "ACTIVE":
        raise _invalid_state(
            "Kinesis streaming is not in ACTIVE state. Updates are only allowed in ACTIVE state. "
            f"TableName: {name}, kdsArn: {arn}"
        )
    sink = destination.settings["Sink"]
    if sink.get(_PRECISION, "MILLISECOND") == precision:
        raise ValidationError(
            f"Invalid Request: Precision is already set to the desired value of {precision} "
            f"for tableId: {table.definition.uuid}, kdsArn: {arn}"
        )
    changes = {"Sink": {**sink, _PRECISION: precision}}
    await node.triggers.update(destination.name, changes, caller.context)
    return _answer(table, body, "UPDATING")


@operation("DisableKinesisStreamingDestination", Right.ADMIN)
async def disable_kinesis_streaming_destination(
    node: Node, body: dict[str, Any], caller: Caller
) -> dict[str, Any]:
    """Pause the subscription, after it has sent the changes written before. It is DISABLED from then on."""
    if "EnableKinesisStreamingConfiguration" in body:
        raise ValidationError(
            "Stream cannot be disabled using EnableKinesisStreamingConfiguration parameters"
        )
    table = _table_of(node, body["TableName"])
    destination = _destinations(node, table).get(body["StreamArn"])
    if destination is None or _status(destination) != "ACTIVE":
        raise _invalid_state("KinesisStreamingDestination must be ACTIVE to perform DISABLE operation.")
    await node.triggers.disable(destination.name, caller.context)
    return _answer(table, body, "DISABLING")


def _table_of(node: Node, name: str) -> Table:
    """Return the table whose destinations a request changes.

    Raises:
        ResourceNotFoundError: No table has the name.
        ResourceInUseError: The table is CREATING or DELETING.
    """
    table = node.table_in_any_status(name)
    if (
        table.definition.status != "UPDATING"
    ):  # a change of its stream or destinations may have caused this status
        check_in_use(table.definition)
    return table


def _check_arn(arn: str) -> None:
    """Validate the ARN of a Kinesis stream.

    Raises:
        ValidationError: The text is not the ARN of a Kinesis stream; the message is DynamoDB's.
    """
    try:
        stream_name(arn)
    except ValidationError:
        raise ValidationError("Invalid StreamArn") from None


def _name_of(table: Table, arn: str) -> str:
    """Return the name of the subscription that sends the table's changes to the Kinesis stream."""
    return f"{_prefix(table)}{blake2b(arn.encode('utf-8', 'surrogatepass'), digest_size=8).hexdigest()}"


def _destinations(node: Node, table: Table) -> dict[str, Subscription]:
    """Return all destinations of the table by the ARN of their Kinesis stream."""
    return {
        each.settings["Sink"]["StreamArn"]: each
        for name, each in sorted(node.state.subscriptions.items())
        if name.startswith(_prefix(table)) and each.settings["Sink"]["Kind"] == "kinesis"
    }


def _status(destination: Subscription) -> str:
    return _STATUS[destination.status]


def _invalid_state(reason: str) -> ValidationError:
    """Return the error that DynamoDB has for every operation on a destination in the wrong state."""
    return ValidationError(f"Table is not in a valid state to enable Kinesis Streaming Destination: {reason}")


def _answer(table: Table, body: dict[str, Any], status: str) -> dict[str, Any]:
    """Return the answer to a change, with the configuration of the request.

    The change is complete by then: unlike DynamoDB's, these destinations have no state in between.
    """
    configuration = {name: body[name] for name in body if name.endswith("KinesisStreamingConfiguration")}
    name = table.definition.name
    return {"TableName": name, "StreamArn": body["StreamArn"], "DestinationStatus": status, **configuration}


def _prefix(table: Table) -> str:
    return destination_prefix(table.definition.id)
