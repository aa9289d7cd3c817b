"""The event that AWS Lambda passes to a function that reads a table's stream.

    {"Records": [{"eventID": ..., "dynamodb": {...}, "eventSourceARN": ...}, ...]}

An unchanged Lambda handler can read it. In a tumbling window the event also has the window, the last state that the
function returned, and whether the call is the window's last.
"""

from collections.abc import Iterable
from typing import Any, Final

import orjson

from ...model.descriptions import stream_label
from .dynamodb import is_expiry, record_with
from .table_view import Delivery

_BY_TTL: Final = b',"userIdentity":{"type":"Service","principalId":"dynamodb.amazonaws.com"}'


def event(changes: Iterable[Delivery]) -> bytes:
    return b'{"Records":[%b]}' % b",".join(map(record, changes))


def record(delivery: Delivery) -> bytes:
    expiry = _BY_TTL if is_expiry(delivery.change) else b""
    return record_with(delivery, b',"eventSourceARN":"%b"%b' % (delivery.table.stream_arn.encode(), expiry))


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
    """Return the event of changes of a tumbling window; the final call of a window has no changes."""
    members = {
        "window": {"start": _second(start_ms), "end": _second(end_ms)},
        "state": state,
        "shardId": shard_id,
        "eventSourceARN": stream_arn,
        "isFinalInvokeForWindow": is_final,
        "isWindowTerminatedEarly": False,
    }
    return b'{"Records":[%b],%b' % (b",".join(map(record, changes)), orjson.dumps(members)[1:])


def _second(time_ms: int) -> str:
    """Return a window's edge, which is a whole second: 2023-11-14T22:13:20Z."""
    return stream_label(time_ms).partition(".")[0] + "Z"
