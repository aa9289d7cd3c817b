"""The destinations of a table: subscriptions that the operations here have made, known by their names.

ACTIVE     it runs
PAUSED     DISABLED: it stays to be told of, and is made anew when it is enabled again
STOPPED    ENABLE_FAILED, with the reason
"""

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import orjson

from .....materializer.fold.state import Table
from .....model.errors import RequestError, ValidationError
from .....model.subscriptions import Subscription
from .....model.table_requests import check_in_use
from .....streams.sinks.kinesis import stream_name
from ....subscriptions.runner import destination_prefix
from ...reply import Reply

if TYPE_CHECKING:
    from ....node import Node

PRECISION: Final = "ApproximateCreationDateTimePrecision"

_STATUS: Final = {"ACTIVE": "ACTIVE", "PAUSED": "DISABLED", "STOPPED": "ENABLE_FAILED"}


def table_of(node: "Node", name: str) -> Table:
    """The table whose destinations are to be changed.

    Raises:
        ResourceNotFoundError: There is none.
        ResourceInUseError: It is being created or deleted.
    """
    table = node.table_in_any_status(name)
    if table.definition.status != "UPDATING":  # which a stream or a destination may itself have made it
        check_in_use(table.definition)
    return table


def check_arn(arn: str) -> None:
    """Refuse what is no stream's ARN, in words of the request.

    Raises:
        ValidationError: It is none.
    """
    try:
        stream_name(arn)
    except ValidationError:
        raise ValidationError("Invalid StreamArn") from None


def name_of(table: Table, arn: str) -> str:
    """The name of the subscription that sends the table's changes to the stream."""
    return f"{_prefix(table)}{blake2b(arn.encode('utf-8', 'surrogatepass'), digest_size=8).hexdigest()}"


def destinations(node: "Node", table: Table) -> dict[str, Subscription]:
    """All of a table's, by the ARN of the stream."""
    return {
        each.settings["Sink"]["StreamArn"]: each
        for name, each in sorted(node.state.subscriptions.items())
        if name.startswith(_prefix(table)) and each.settings["Sink"]["Kind"] == "kinesis"
    }


def status(destination: Subscription) -> str:
    """In DynamoDB's words."""
    return _STATUS[destination.status]


def not_in_a_state(why: str) -> ValidationError:
    """What DynamoDB says, whatever was to be done."""
    return ValidationError(f"Table is not in a valid state to enable Kinesis Streaming Destination: {why}")


def answer(
    reply: Reply, table: Table, body: dict[str, Any], status: str, told: dict[str, Any] | RequestError
) -> None:
    """Answer what was asked for, once it is done; a destination of ours has no state in between."""
    if isinstance(told, RequestError):
        reply.error(told)
        return
    asked = {name: body[name] for name in body if name.endswith("KinesisStreamingConfiguration")}
    name = table.definition.name
    reply.ok(
        orjson.dumps(
            {"TableName": name, "StreamArn": body["StreamArn"], "DestinationStatus": status, **asked}
        )
    )


def _prefix(table: Table) -> str:
    return destination_prefix(table.definition.id)
