"""The head of an HTTP request: read whole, or refused.

The connection collects a head until its blank line and only then has it parsed. So a slow sender costs a few
kilobytes and no parser state, and one pure function sees every line there is. httptools knows the grammar and is
strict about it; what it lets pass although a proxy in front of us might read it otherwise is refused here: the same
field twice where only one can count, transfer codings piled up, a whole URL that could name another host than Host
does. After any refusal the connection is closed.
"""

import re
from collections import Counter
from collections.abc import Iterable

import httptools

HEAD_BYTES = 16 * 1024
FIELDS = 64

_USUAL = b"POST / HTTP/1.1\r\n"
_CONNECTION = re.compile(rb"^connection:([^\r\n]*)", re.IGNORECASE | re.MULTILINE)

_ONCE = frozenset(
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
    )
)


class BadRequestError(Exception):
    """What was sent is no HTTP request that we read; `status` says in which way, `reason` in words of ours alone."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Head:
    """A request's first line and fields, names in lower case.

    Attributes:
        keep_alive: Whether the client may send another request on the connection.
        length: Bytes of the body; None if it comes in chunks.
        more: Fields that the answer has because of who asks; see gate.py.
        repeated: Names of fields that came more than once; of these `fields` has the last.
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
    """Gathers fields without a Python frame for each: the parser calls the dict's own method."""

    __slots__ = ("on_header", "raw")

    # The parser asks for all of its callbacks; each that it does not find costs it an exception.
    on_message_begin = on_url = on_headers_complete = on_body = on_message_complete = None
    on_chunk_header = on_chunk_complete = None

    def __init__(self) -> None:
        self.raw: dict[bytes, bytes] = {}
        self.on_header = self.raw.__setitem__


def read_head(data: bytes) -> Head:
    """Read a head; `data` ends with its blank line.

    Raises:
        BadRequestError: It is no well-formed head, or an ambiguous one.
    """
    collector = _Collector()
    parser = httptools.HttpRequestParser(collector)
    try:
        parser.feed_data(data)
    except httptools.HttpParserUpgrade:
        pass  # some clients offer another protocol with every request; we may decline by not answering to it
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
    return Head(method, path, fields, keep_alive, _length(fields), repeated)


def _first_line(data: bytes, fields: dict[bytes, bytes]) -> tuple[bytes, bytes, bool]:
    """Return method, path, and whether the version keeps connections open.

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
    """Return whether one of some Connection fields has the option `close`.

    The parser's own answer is right only while a body is due: it resets its flags at the end of a message.
    """
    return any(option.strip(b" \t") == b"close" for value in values for option in value.lower().split(b","))


def _length(fields: dict[bytes, bytes]) -> int | None:
    """The body's length; None if it comes in chunks. The parser refused both at once, and whatever is no number."""
    coding = fields.get(b"transfer-encoding")
    if coding is None:
        return int(fields.get(b"content-length", b"0"))
    if coding.lower() != b"chunked":
        raise BadRequestError(400, "a transfer coding other than chunked")
    return None


def _repeated(data: bytes) -> frozenset[bytes]:
    """The fields that came twice, unless only one can count: that is refused. Two Accept fields are nobody's harm."""
    lines = data.strip(b"\r\n").split(b"\r\n")[1:]
    if len(lines) > FIELDS:
        raise BadRequestError(431, "too many header fields")
    counts = Counter(line.partition(b":")[0].lower() for line in lines)
    repeated = frozenset(name for name, count in counts.items() if count > 1)
    if not repeated.isdisjoint(_ONCE):
        raise BadRequestError(400, "a header field came twice")
    return repeated
