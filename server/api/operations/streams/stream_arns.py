"""The streams that can be read, and their ARNs.

A stream is readable for the retention time after its last change, also once it is disabled or its table is deleted.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import chain

from .....materializer.fold.feed.capture import CapturePeriod
from .....model.descriptions import stream_label
from .....model.errors import ResourceNotFoundError, ValidationError
from .....model.tables import table_arn
from ....database import Database

_is_arn = re.compile(
    r"arn:[^:|]*:dynamodb:[^:|]*:[0-9]*:table/([a-zA-Z0-9_.-]{3,255})/stream/([0-9T:.-]{1,64})"
).fullmatch


def arn_of(period: CapturePeriod) -> str:
    return f"{table_arn(period.name)}/stream/{stream_label(period.label)}"


def streams(database: Database) -> Iterator[CapturePeriod]:
    """Yield all streams that can be read."""
    for periods in database.state.periods.values():
        yield from _readable(database, periods)


def stream(database: Database, arn: str) -> CapturePeriod:
    """Return the stream with the ARN.

    Raises:
        ValidationError: The text is not the ARN of a stream.
        ResourceNotFoundError: No stream has the ARN, or its retention has ended.
    """
    name, label = read_arn(arn)
    state = database.state
    # Streams of the table that has the name now come first: a deleted table's streams take a search over all.
    own = state.periods.get(state.names.get(name, 0), ())
    for period in chain(_readable(database, own), streams(database)):
        if period.name == name and stream_label(period.label) == label:
            return period
    raise ResourceNotFoundError(f"Requested resource not found: Stream: {arn} not found")


def log_time(database: Database) -> int:
    """Return the latest log time of the partitions here. The catalog alone may have had no entry for a long time."""
    return max(state.log_time for state in database.partitions.states())


def _readable(database: Database, periods: Iterable[CapturePeriod]) -> Iterator[CapturePeriod]:
    retention_ms = database.settings.stream_retention_ms
    over_ms = log_time(database) - retention_ms if retention_ms else 0
    for period in periods:
        if period.label and not period.is_over(over_ms):
            yield period


def read_arn(arn: str) -> tuple[str, str]:
    """Return the table name and the label in a stream's ARN.

    Raises:
        ValidationError: The text is not the ARN of a stream.
    """
    match = _is_arn(arn)
    if match is None:
        raise ValidationError("Invalid StreamArn")
    return match[1], match[2]
