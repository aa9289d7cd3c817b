"""The bytes of an HTTP answer.

The checksum in x-amz-crc32 covers the body as it is sent, which may be gzipped: SDKs check it before they decompress.
"""

import zlib
from typing import Final

JSON: Final = b"application/x-amz-json-1.0"
UNTYPED: Final = b"application/json"  # the type of an answer to a request without one, as DynamoDB's
# An answer has the Content-Type of its request, if it is one of these.
ECHOED: Final = frozenset((JSON, b"application/x-amz-json-1.1", b"application/json"))
# A smaller body fits into one or two packets: its compression would cost more time than it saves.
GZIP_FROM_BYTES: Final = 4096

_HEAD: Final = (
    b"HTTP/1.1 %d %b\r\nDate: %b\r\nContent-Type: %b\r\nContent-Length: %d\r\nx-amzn-RequestId: %b\r\n"
    b"x-amz-crc32: %d%b\r\n\r\n"
)
_crc32: Final = zlib.crc32
GZIPPED: Final = b"\r\nContent-Encoding: gzip"
CLOSING: Final = b"\r\nConnection: close"

REASONS: Final = {
    200: b"OK",
    204: b"No Content",
    400: b"Bad Request",
    401: b"Unauthorized",
    403: b"Forbidden",
    404: b"Not Found",
    408: b"Request Timeout",
    413: b"Payload Too Large",
    415: b"Unsupported Media Type",
    431: b"Request Header Fields Too Large",
    500: b"Internal Server Error",
    503: b"Service Unavailable",
    505: b"HTTP Version Not Supported",
}


def position_fields(position: bytes, log_time_ms: int | None) -> bytes:
    """Return the header fields of the position that an answer is true of, with its log time if that is known."""
    if log_time_ms is None:
        return b"\r\nx-foldb-position: " + position
    return b"\r\nx-foldb-position: %b\r\nx-foldb-log-time: %b" % (position, str(log_time_ms).encode())


def ok(body: bytes, date: bytes, content_type: bytes, request_id: bytes, position: bytes) -> bytes:
    """Format the common answer: 200, not gzipped, the connection stays open. `position` holds its header fields."""
    # mypyc compiles a literal format of bytes alone to one copy of each.
    return (
        b"HTTP/1.1 200 OK\r\nDate: %b\r\nContent-Type: %b\r\nContent-Length: %b\r\nx-amzn-RequestId: %b\r\n"
        b"x-amz-crc32: %b%b\r\n\r\n%b"
        % (
            date,
            content_type,
            str(len(body)).encode(),
            request_id,
            str(_crc32(body)).encode(),
            position,
            body,
        )
    )


def answer(
    status: int,
    body: bytes,
    *,
    date: bytes,
    content_type: bytes,
    request_id: bytes,
    position: bytes = b"",
    gzip: bool = False,
    close: bool = False,
) -> bytes:
    """Format an answer of the API; with `gzip` the body is gzipped. `position` holds header fields."""
    more = position
    if gzip:
        compressor = new_compressor()
        body = compressor.compress(body) + compressor.flush()
        more += GZIPPED
    if close:
        more += CLOSING
    return api_head(status, len(body), _crc32(body), date, content_type, request_id, more) + body


def api_head(
    status: int,
    size: int,
    checksum: int,
    date: bytes,
    content_type: bytes,
    request_id: bytes,
    more: bytes,
) -> bytes:
    """Format the head of an answer of the API. `more` holds header fields."""
    return _HEAD % (status, REASONS[status], date, content_type, size, request_id, checksum, more)


def plain(
    status: int, text: bytes, *, date: bytes, close: bool, fields: bytes = b"", head: bool = False
) -> bytes:
    """Format an answer to a request that is not of the API; with `head` only the length of the body is sent."""
    return b"HTTP/1.1 %d %b\r\nDate: %b\r\nContent-Type: text/plain\r\nContent-Length: %d%b%b\r\n\r\n%b" % (
        status, REASONS[status], date, len(text), fields, CLOSING if close else b"",
        b"" if head else text,
    )  # fmt: skip


def new_compressor() -> "zlib._Compress":
    """Return a gzip compressor of the fastest level: the client is near, and the event loop waits."""
    return zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
