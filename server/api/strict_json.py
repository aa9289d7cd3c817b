"""JSON in which no member is named twice.

The parser keeps the last of two members of one name; a proxy that judges requests may look at the first. So such a
request is refused, as DynamoDB refuses it. The parser does not say that it dropped something, but then what it made
has fewer strings than it was given, and strings are counted by their quotes, in C. Most clients write JSON as it is
written here, without spaces: for these one comparison tells.
"""

from typing import Any

import orjson

from ...model.errors import SerializationError


def parse(data: bytes) -> dict[str, Any]:
    """Read a request's JSON.

    Raises:
        SerializationError: It is not JSON, or no object, or names a member twice. DynamoDB says nothing about where.
    """
    try:
        body = orjson.loads(data)
        written = orjson.dumps(body)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):  # it is written to fewer levels than it is read
        raise SerializationError("") from None
    if type(body) is not dict or (written != data and _quotes(written) != _quotes(data)):
        raise SerializationError("")
    return body


def _quotes(data: bytes) -> int:
    """How many quotes begin or end a string."""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    return data.count(b'"')
