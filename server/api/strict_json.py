"""JSON without duplicate members.

The parser keeps the last of two members with one name; a proxy that filters requests may look at the first. So such a
request is refused, as DynamoDB does. The parser does not report duplicates, but its result has fewer strings than the
text. Strings are counted by their quotes, in C. Most clients send JSON without spaces, as this parser writes it: then
one comparison is enough.
"""

from typing import Any, Final

import orjson

from ...model.errors import SerializationError

_loads: Final = orjson.loads
_dumps: Final = orjson.dumps


def parse(data: bytes) -> dict[str, Any]:
    """Parse the JSON of a request.

    Raises:
        SerializationError: The data is not a JSON object, or has duplicate members. Like DynamoDB's, the error has no
            message.
    """
    try:
        body = _loads(data)
        written = _dumps(body)
    except (
        orjson.JSONDecodeError,
        orjson.JSONEncodeError,
    ):  # the writer supports less nesting than the parser
        raise SerializationError("") from None
    if type(body) is not dict or (written != data and _quotes(written) != _quotes(data)):
        raise SerializationError("")
    return body


def _quotes(data: bytes) -> int:
    """Return the number of quotes that begin or end a string."""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    return data.count(b'"')
