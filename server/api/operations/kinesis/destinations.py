"""The Kinesis destinations of a table: subscriptions with names that the operations of this folder choose.

subscription    destination
ACTIVE          ACTIVE
PAUSED          DISABLED; Enable replaces it with a new subscription
STOPPED         ENABLE_FAILED, with the reason
"""

from hashlib import blake2b
from typing import Any, Final

from .....materializer.fold.state import Table
from .....model.errors import ValidationError
from .....model.subscriptions import Subscription
from .....model.table_requests import check_in_use
from .....streams.sinks.kinesis import stream_name
from ....node import Node
from ....subscriptions.runner import destination_prefix

PRECISION: Final = "ApproximateCreationDateTimePrecision"

_STATUS: Final = {"ACTIVE": "ACTIVE", "PAUSED": "DISABLED", "STOPPED": "ENABLE_FAILED"}


def table_of(node: Node, name: str) -> Table:
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


def check_arn(arn: str) -> None:
    """Validate the ARN of a Kinesis stream.

    Raises:
        ValidationError: The text is not the ARN of a Kinesis stream; the message is DynamoDB's.
    """
    try:
        stream_name(arn)
    except ValidationError:
        raise ValidationError("Invalid StreamArn") from None


def name_of(table: Table, arn: str) -> str:
    """Return the name of the subscription that sends the table's changes to the Kinesis stream."""
    return f"{_prefix(table)}{blake2b(arn.encode('utf-8', 'surrogatepass'), digest_size=8).hexdigest()}"


def destinations(node: Node, table: Table) -> dict[str, Subscription]:
    """Return all destinations of the table by the ARN of their Kinesis stream."""
    return {
        each.settings["Sink"]["StreamArn"]: each
        for name, each in sorted(node.state.subscriptions.items())
        if name.startswith(_prefix(table)) and each.settings["Sink"]["Kind"] == "kinesis"
    }


def status(destination: Subscription) -> str:
    return _STATUS[destination.status]


def invalid_state(reason: str) -> ValidationError:
    """Return the error that DynamoDB has for every operation on a destination in the wrong state."""
    return ValidationError(f"Table is not in a valid state to enable Kinesis Streaming Destination: {reason}")


def answer(table: Table, body: dict[str, Any], status: str) -> dict[str, Any]:
    """Return the answer to a change, with the configuration of the request.

    The change is complete by then: unlike DynamoDB's, these destinations have no state in between.
    """
    configuration = {name: body[name] for name in body if name.endswith("KinesisStreamingConfiguration")}
    name = table.definition.name
    return {"TableName": name, "StreamArn": body["StreamArn"], "DestinationStatus": status, **configuration}


def _prefix(table: Table) -> str:
    return destination_prefix(table.definition.id)
