"""Which streams there are: those that are enabled, and for as long as their changes are kept, those that were.

The catalog remembers each stretch of time in which a table's stream was enabled, also of tables that are gone. A
stream's ARN names the table and, as its label, the moment when the stream was enabled.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from .....materializer.fold.feed.capture import CapturePeriod
from .....model.descriptions import stream_label
from .....model.errors import ResourceNotFoundError, ValidationError
from .....model.tables import table_arn

if TYPE_CHECKING:
    from ....node import Node

_is_arn = re.compile(
    r"arn:[^:|]*:dynamodb:[^:|]*:[0-9]*:table/([a-zA-Z0-9_.-]{3,255})/stream/([0-9T:.-]{1,64})"
).fullmatch


def arn_of(window: CapturePeriod) -> str:
    """The stream's ARN."""
    return f"{table_arn(window.name)}/stream/{stream_label(window.label)}"


def streams(node: "Node") -> Iterator[CapturePeriod]:
    """All streams that can be read."""
    for windows in node.state.streams.values():
        yield from _readable(node, windows)


def stream(node: "Node", arn: str) -> CapturePeriod:
    """The stream that an ARN names.

    Raises:
        ValidationError: It is no stream's ARN.
        ResourceNotFoundError: There is no such stream, or no more.
    """
    name, label = read_arn(arn)
    state = node.state
    # Most often it is of the table that has the name now; of one that is gone it has to be looked for.
    own = state.streams.get(state.names.get(name, 0), ())
    for window in chain(_readable(node, own), streams(node)):
        if window.name == name and stream_label(window.label) == label:
            return window
    raise ResourceNotFoundError(f"Requested resource not found: Stream: {arn} not found")


def log_time(node: "Node") -> int:
    """Of partitions here, whichever is the latest: the catalog alone may have had nothing to write for long."""
    return max(state.log_time for state in node.partitions.states())


def _readable(node: "Node", windows: Iterable[CapturePeriod]) -> Iterator[CapturePeriod]:
    retention_ms = node.settings.stream_retention_ms
    over_ms = log_time(node) - retention_ms if retention_ms else 0
    for window in windows:
        if window.label and not window.is_over(over_ms):
            yield window


def read_arn(arn: str) -> tuple[str, str]:
    """The name of the table and the label that a stream's ARN tells.

    Raises:
        ValidationError: It is none.
    """
    match = _is_arn(arn)
    if match is None:
        raise ValidationError("Invalid StreamArn")
    return match[1], match[2]
