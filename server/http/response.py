"""The bytes of an HTTP answer.

The checksum in x-amz-crc32 is over the body as it is sent, gzipped where it is gzipped: SDKs check it before
they unpack.
"""

import zlib

JSON = b"application/x-amz-json-1.0"
# An answer has the type of its request, if it is one of these.
ECHOED = frozenset((JSON, b"application/x-amz-json-1.1", b"application/json"))
# Below this a body fits a packet or two: packing it would cost more time than it saves.
GZIP_FROM_BYTES = 4096
# Above this packing would stop other requests for more than twenty milliseconds.
GZIP_UP_TO_BYTES = 2 * 1024 * 1024
# From this on a body is written by itself: a copy behind its head takes longer than a second write.
APART_FROM_BYTES = 256 * 1024

_FIELDS = b"\r\nDate: %b\r\nContent-Type: %b\r\nContent-Length: %d\r\nx-amzn-RequestId: %b\r\nx-amz-crc32: %d"
_OK = b"HTTP/1.1 200 OK" + _FIELDS + b"%b\r\n\r\n%b"
_OTHER = b"HTTP/1.1 %d %b" + _FIELDS + b"%b\r\n\r\n%b"

REASONS = {
    200: b"OK",
    204: b"No Content",
    400: b"Bad Request",
    401: b"Unauthorized",
    403: b"Forbidden",
    404: b"Not Found",
    405: b"Method Not Allowed",
    408: b"Request Timeout",
    413: b"Payload Too Large",
    415: b"Unsupported Media Type",
    431: b"Request Header Fields Too Large",
    500: b"Internal Server Error",
    503: b"Service Unavailable",
    505: b"HTTP Version Not Supported",
}


def as_of(position: bytes, log_time_ms: int | None) -> bytes:
    """The fields that say what an answer is true of: a place in the log, and log time there where that is known."""
    if log_time_ms is None:
        return b"\r\nx-foldb-position: " + position
    return b"\r\nx-foldb-position: %b\r\nx-foldb-log-time: %d" % (position, log_time_ms)


def ok(body: bytes, date: bytes, content_type: bytes, request_id: bytes, position: bytes) -> bytes:
    """The common answer: 200, not packed, the connection stays; `position` are the fields of `as_of`.

    A body of APART_FROM_BYTES or more is left out: it is to be written next.
    """
    size, check = len(body), zlib.crc32(body)
    shown = body if size < APART_FROM_BYTES else b""
    return _OK % (date, content_type, size, request_id, check, position, shown)


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
    """Any answer of the API; `gzip` says that the client takes it packed, `position` are the fields of `as_of`."""
    more = position
    if gzip and GZIP_FROM_BYTES <= len(body) <= GZIP_UP_TO_BYTES:
        body = packed(body)
        more += b"\r\nContent-Encoding: gzip"
    if close:
        more += b"\r\nConnection: close"
    reason = REASONS[status]
    return _OTHER % (
        status, reason, date, content_type, len(body), request_id, zlib.crc32(body), more, body,
    )  # fmt: skip


def plain(
    status: int, text: bytes, *, date: bytes, close: bool, fields: bytes = b"", head: bool = False
) -> bytes:
    """An answer to what is no request of the API; `head` leaves the body out but tells its length."""
    return b"HTTP/1.1 %d %b\r\nDate: %b\r\nContent-Type: text/plain\r\nContent-Length: %d%b%b\r\n\r\n%b" % (
        status, REASONS[status], date, len(text), fields, b"\r\nConnection: close" if close else b"",
        b"" if head else text,
    )  # fmt: skip


def packed(body: bytes) -> bytes:
    """Gzip, as fast as it goes: the peer is near, and the loop waits meanwhile."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()
