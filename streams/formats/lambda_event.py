"""The event that AWS Lambda hands to a function that reads a table's stream: nothing more, nothing less.

    {"Records": [{"eventID": ..., "dynamodb": {...}, "eventSourceARN": ...}, ...]}

A handler written for Lambda therefore runs as it is. In a tumbling window the event also has the window, the state that
the function returned last, and whether the window ends with it.
"""

from collections.abc import Iterable
from typing import Any, Final

import orjson

from ...model.descriptions import stream_label
from .dynamodb import head, is_expiry
from .table_view import Delivery

_BY_TTL: Final = b',"userIdentity":{"type":"Service","principalId":"dynamodb.amazonaws.com"}'


def event(changes: Iterable[Delivery]) -> bytes:
    """The event for these changes."""
    return b'{"Records":[%b]}' % b",".join(map(record, changes))


def record(delivery: Delivery) -> bytes:
    """One of the event's Records."""
    expiry = _BY_TTL if is_expiry(delivery) else b""
    return b'{%b,"eventSourceARN":"%b"%b}' % (head(delivery), delivery.table.stream_arn.encode(), expiry)


def windowed(
    changes: Iterable[Delivery],
    *,
    start_ms: int,
    end_ms: int,
    state: dict[str, Any],
    is_final: bool,
    shard_id: str,
    stream_arn: str,
) -> bytes:
    """The event for these changes of a tumbling window; its last call has none."""
    about = {
        "window": {"start": _second(start_ms), "end": _second(end_ms)},
        "state": state,
        "shardId": shard_id,
        "eventSourceARN": stream_arn,
        "isFinalInvokeForWindow": is_final,
        "isWindowTerminatedEarly": False,
    }
    return b'{"Records":[%b],%b' % (b",".join(map(record, changes)), orjson.dumps(about)[1:])


def _second(time_ms: int) -> str:
    """A window's edge, which falls on a whole second: 2023-11-14T22:13:20Z."""
    return stream_label(time_ms).partition(".")[0] + "Z"
