"""The head of an HTTP request, parsed as a whole or refused.

The connection buffers a head until its blank line, and parses it then. So a slow sender costs a few kilobytes and no
parser state, and one pure function sees every line. httptools implements the grammar strictly. This module also refuses
forms that a proxy in front of the server might parse differently: a repeated field where only one can count, several
transfer codings, an absolute URL, which could name another host than Host. A refusal closes the connection.
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

import httptools

HEAD_BYTES: Final = 16 * 1024
FIELDS: Final = 64

_USUAL: Final = b"POST / HTTP/1.1\r\n"
_CONNECTION: Final = re.compile(rb"^connection:([^\r\n]*)", re.IGNORECASE | re.MULTILINE)

_ONCE: Final = frozenset(
    (
        b"authorization",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"host",
        b"origin",
        b"sec-fetch-site",
        b"transfer-encoding",
        b"x-amz-target",
        b"x-foldb-reason",
    )
)


class BadRequestError(Exception):
    """The request is malformed or not supported. `reason` never quotes the request."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class RequestHead:
    """A request's first line and fields, names in lower case.

    Attributes:
        keep_alive: Whether the client may send another request on the connection.
        length: The bytes of the body; None if it is chunked.
        more: Header fields that the answer has for the origin of the request; see origin_policy.py.
        repeated: The names of repeated fields, of which `fields` has the last.
    """

    __slots__ = ("fields", "keep_alive", "length", "method", "more", "path", "repeated")

    def __init__(
        self,
        method: bytes,
        path: bytes,
        fields: dict[bytes, bytes],
        keep_alive: bool,
        length: int | None,
        repeated: frozenset[bytes] = frozenset(),
    ) -> None:
        self.method = method
        self.path = path
        self.fields = fields
        self.keep_alive = keep_alive
        self.length = length
        self.more = b""
        self.repeated = repeated


class _Collector:
    """Collects header fields without a Python frame for each: the parser calls a method of the dict."""

    __slots__ = ("on_header", "raw")

    # The parser looks up every callback; each missing one costs an exception.
    on_message_begin = None
    on_url = None
    on_headers_complete = None
    on_body = None
    on_message_complete = None
    on_chunk_header = None
    on_chunk_complete = None

    def __init__(self) -> None:
        self.raw: dict[bytes, bytes] = {}
        self.on_header = self.raw.__setitem__


def read_head(data: bytes) -> RequestHead:
    """Parse a head; `data` ends with its blank line.

    Raises:
        BadRequestError: The head is malformed or ambiguous.
    """
    collector = _Collector()
    parser = httptools.HttpRequestParser(collector)
    try:
        parser.feed_data(data)
    except httptools.HttpParserUpgrade:
        pass  # some clients offer another protocol with every request; a server declines by ignoring the offer
    except httptools.HttpParserError as error:
        raise BadRequestError(400, str(error)) from None

    fields = {name.lower(): value for name, value in collector.raw.items()}
    if data.startswith(_USUAL):
        method, path, keep_alive = b"POST", b"/", True
    else:
        method, path, keep_alive = _first_line(data, fields)
    lines = data.count(b"\n") - 2
    repeated: frozenset[bytes] = frozenset()
    if lines != len(fields) or lines > FIELDS:
        repeated = _repeated(data)
    if b"connection" in fields:
        said = _CONNECTION.findall(data) if b"connection" in repeated else (fields[b"connection"],)
        keep_alive = keep_alive and not _says_close(said)
    if b"host" not in fields:
        raise BadRequestError(400, "no Host")
    return RequestHead(method, path, fields, keep_alive, _length(fields), repeated)


def _first_line(data: bytes, fields: dict[bytes, bytes]) -> tuple[bytes, bytes, bool]:
    """Return the method, the path, and whether the version keeps connections open.

    HTTP/1.0 closes after each answer: its keep-alive is an extension that a server need not offer (RFC 9112, C.2.2).
    """
    line = data.lstrip(b"\r\n").partition(b"\r\n")[0]
    parts = line.split(b" ")
    if len(parts) != 3 or parts[2] not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise BadRequestError(505, "not HTTP/1.1")
    method, path, version = parts
    if version == b"HTTP/1.0" and b"transfer-encoding" in fields:
        raise BadRequestError(400, "HTTP/1.0 has no chunks")
    if not path.startswith(b"/") and path != b"*":
        raise BadRequestError(400, "not a path")
    return method, path, version == b"HTTP/1.1"


def _says_close(values: Iterable[bytes]) -> bool:
    """Return whether one of the Connection fields has the option `close`.

    The parser's own flag is correct only while it expects a body: the end of a message resets it.
    """
    return any(option.strip(b" \t") == b"close" for value in values for option in value.lower().split(b","))


def _length(fields: dict[bytes, bytes]) -> int | None:
    """Return the length of the body; None if it is chunked. The parser refuses both together, and malformed numbers."""
    coding = fields.get(b"transfer-encoding")
    if coding is None:
        return int(fields.get(b"content-length", b"0"))
    if coding.lower() != b"chunked":
        raise BadRequestError(400, "a transfer coding other than chunked")
    return None


def _repeated(data: bytes) -> frozenset[bytes]:
    """Return the names of repeated fields, such as Accept. Refuse a repeated field of which only one can count."""
    lines = data.strip(b"\r\n").split(b"\r\n")[1:]
    if len(lines) > FIELDS:
        raise BadRequestError(431, "too many header fields")
    counts = Counter(line.partition(b":")[0].lower() for line in lines)
    repeated = frozenset(name for name, count in counts.items() if count > 1)
    if not repeated.isdisjoint(_ONCE):
        raise BadRequestError(400, "a header field is repeated")
    return repeated
