"""One connection: bytes in, requests to the dispatcher, answers out.

    bytes ──► head ──► body ──► dispatch ──► answer ──► the next head
              (heads)  (bodies)

One request of a connection is under way at a time; what arrives meanwhile waits in the buffer, and beyond a bound
in the socket. So pipelined requests are answered in their order, a write is done before the read behind it
looks, and no client can queue up more than a buffer. A connection reads no clock: the listener's tick says how
late it is.
"""

import asyncio
import logging
from typing import Protocol, cast

from ...log.commands import Position
from ...model.errors import IncompleteSignatureError, MissingAuthenticationTokenError, RequestError
from ..dispatch import dispatch
from ..node import Node
from ..reply import Reply
from . import answers
from .bodies import Body, ChunkedBody, SizedBody, TooLargeError, inflate
from .heads import HEAD_BYTES, BadRequestError, Head, read_head

# In ticks of a second.
HEAD_TICKS = 5  # from a head's first byte to its last
BODY_TICKS = 10  # between two pieces of a body
BODY_TOTAL_TICKS = 60
IDLE_TICKS = 30
STALL_TICKS = 30  # an answer that nobody reads
LINGER_TICKS = 5  # a client that is refused may finish sending before it looks
NEVER = 1 << 60

_WAITING_BYTES = 64 * 1024  # received while a request is under way

_HEALTHY = b"healthy: foldb, speaking DynamoDB's API version 2012-08-10\n"
_ALLOW = b"\r\nAllow: POST, GET, HEAD, OPTIONS"

logger = logging.getLogger(__name__)


class Shared(Protocol):
    """What the connections of a listener share; see `Listener`."""

    node: Node
    tick: int
    date: bytes

    def opened(self, connection: "Connection") -> None: ...

    def closed(self, connection: "Connection") -> None: ...

    def request_id(self) -> str: ...

    def position_fields(self, position: Position) -> bytes: ...


class Connection(asyncio.Protocol):
    """A client's connection, from accept to close."""

    __slots__ = (
        "_advancing",
        "_body",
        "_body_deadline",
        "_buffer",
        "_closing",
        "_head",
        "_listener",
        "_paused",
        "_reply",
        "_transport",
        "deadline",
    )

    def __init__(self, listener: Shared) -> None:
        self._listener = listener
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._head: Head | None = None  # of the request under way
        self._body: Body | None = None  # while a body is under way
        self._body_deadline = NEVER
        self._reply: Reply | None = None  # while an answer is owed
        self._advancing = False
        self._paused = False  # the client does not read what it asked for
        self._closing = False  # nothing more is read, or taken up
        self.deadline = listener.tick + IDLE_TICKS

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._listener.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # asyncio's signature
        self._transport = None
        self._closing = True
        self._buffer = b""
        self._body = None
        self._listener.closed(self)

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        if self._body is not None:
            self._take_body(data)
            return
        self._buffer = self._buffer + data if self._buffer else data
        if self._reply is None:
            self._advance()
        elif len(self._buffer) > _WAITING_BYTES and self._transport is not None:
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        self._paused = True
        self.deadline = self._listener.tick + STALL_TICKS
        if self._transport is not None and not self._closing:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._paused = False
        self.deadline = self._listener.tick + IDLE_TICKS
        self._go_on()

    # What the listener calls

    def expire(self) -> None:
        """The deadline has passed: say so if a request is half there, and go."""
        transport = self._transport
        if transport is None:
            return
        if self._closing or self._paused:
            transport.abort()
        elif self._buffer or self._body is not None:
            self._refuse(BadRequestError(408, "too slow"))
        else:
            self._close()

    def finish(self) -> None:
        """Close as soon as no answer is owed."""
        if self._reply is None:
            self._close()
        self._closing = True

    # Requests

    def _advance(self) -> None:
        """Take up requests from the buffer until one is incomplete or keeps its answer for later."""
        self._advancing = True
        try:
            while self._buffer and self._reply is None and self._body is None:
                if self._closing or self._paused or not self._take_head():
                    break
        except BadRequestError as error:
            self._refuse(error)
        finally:
            self._advancing = False

    def _take_head(self) -> bool:
        """Begin the request at the front of the buffer; False if its head is not all there."""
        buffer = self._buffer
        end = buffer.find(b"\r\n\r\n") + 4
        if end < 4 or end > HEAD_BYTES:
            if len(buffer) >= HEAD_BYTES:
                raise BadRequestError(431, "the head is too long")
            if self.deadline > self._listener.tick + HEAD_TICKS:
                self.deadline = self._listener.tick + HEAD_TICKS
            return False
        self._head = head = read_head(buffer[:end])
        length = head.length
        if length is not None and length <= len(buffer) - end:
            self._buffer = buffer[end + length :]
            self._perform(head, buffer[end : end + length])
            return True
        self._buffer = b""
        self._begin_body(head, buffer[end:])
        return True

    def _begin_body(self, head: Head, data: bytes) -> None:
        limit = self._listener.node.limits.body_bytes
        if head.length is None:
            self._body = ChunkedBody(limit)
        elif head.length <= limit:
            self._body = SizedBody(head.length)
        else:
            raise TooLargeError
        self._body_deadline = self._listener.tick + BODY_TOTAL_TICKS
        if head.fields.get(b"expect", b"").lower() == b"100-continue" and not data:
            self._write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._feed_body(self._body, data)

    def _take_body(self, data: bytes) -> None:
        assert self._body is not None
        try:
            self._feed_body(self._body, data)
        except BadRequestError as error:
            self._refuse(error)
            return
        if self._body is None and self._reply is None:
            self._advance()

    def _feed_body(self, body: Body, data: bytes) -> None:
        rest = body.feed(data)
        self.deadline = min(self._listener.tick + BODY_TICKS, self._body_deadline)
        if body.done:
            assert self._head is not None
            self._body = None
            self._buffer = rest
            self._perform(self._head, bytes(body.data))

    def _perform(self, head: Head, body: bytes) -> None:
        self.deadline = NEVER
        if head.method == b"POST":
            self._post(head, body)
        else:
            self._show(head)

    def _post(self, head: Head, body: bytes) -> None:
        fields = head.fields
        authorization = fields.get(b"authorization", b"")
        listener = self._listener
        self._reply = reply = Reply(
            self, listener.request_id(), authorization, fields.get(b"amz-sdk-invocation-id")
        )
        if not authorization.startswith(b"AWS4-"):
            reply.error(MissingAuthenticationTokenError())
            return
        if (lacking := _lacking(authorization)) is not None:
            reply.error(lacking)
            return
        coding = fields.get(b"content-encoding")
        if coding is not None and coding != b"identity":
            if coding.lower() != b"gzip":
                raise BadRequestError(415, "only gzip is read")
            body = inflate(body, listener.node.limits.body_bytes)
        dispatch(listener.node, fields.get(b"x-amz-target", b""), body, reply)

    def _show(self, head: Head) -> None:
        """Answer what is no request of the API: somebody looks whether we are there."""
        status, text, fields = 405, b"", _ALLOW
        if head.method in (b"GET", b"HEAD"):
            status, text, fields = (200, _HEALTHY, b"") if head.path == b"/" else (404, b"", b"")
        elif head.method == b"OPTIONS":
            status = 200
        close = not head.keep_alive
        self._write(
            answers.plain(
                status,
                text,
                date=self._listener.date,
                close=close,
                fields=fields,
                head=head.method == b"HEAD",
            )
        )
        self._answered(close)

    # Answers

    def answer(self, reply: Reply, status: int, body: bytes, position: Position | None) -> None:
        """Send the answer to the request under way."""
        if self._transport is None:
            return  # the client has gone
        assert reply is self._reply, "a request was answered twice"
        head, listener = self._head, self._listener
        assert head is not None
        fields = head.fields
        close = self._closing or not head.keep_alive
        content_type = fields.get(b"content-type", answers.JSON)
        if content_type not in answers.ECHOED:
            content_type = answers.JSON
        where = listener.position_fields(listener.node.position if position is None else position)
        packed = len(body) >= answers.GZIP_FROM_BYTES and b"gzip" in fields.get(b"accept-encoding", b"")
        request_id = reply.request_id.encode()
        if status == 200 and not close and not packed:
            data = answers.ok(body, listener.date, content_type, request_id, where)
        else:
            data = answers.answer(
                status,
                body,
                date=listener.date,
                content_type=content_type,
                request_id=request_id,
                position=where,
                gzip=packed,
                close=close,
            )
        self._reply = None
        self._transport.write(data)
        self._answered(close)

    def _answered(self, close: bool) -> None:
        self._head = None
        if close:
            self._close()
            return
        if not self._paused:
            self.deadline = self._listener.tick + IDLE_TICKS
        if not self._advancing:
            self._go_on()

    def _go_on(self) -> None:
        if self._transport is None or self._closing or self._reply is not None:
            return
        if not self._paused and not self._transport.is_reading():
            self._transport.resume_reading()
        self._advance()

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _refuse(self, error: BadRequestError) -> None:
        """Answer what is no request, and close. The client may still be sending: let it, so that it reads this."""
        self._reply = None
        self._body = None
        self._buffer = b""
        self._closing = True
        self.deadline = self._listener.tick + LINGER_TICKS
        self._write(answers.plain(error.status, b"", date=self._listener.date, close=True))
        if self._transport is not None and self._transport.can_write_eof():
            self._transport.write_eof()

    def _close(self) -> None:
        self._closing = True
        self.deadline = self._listener.tick + STALL_TICKS
        if self._transport is not None:
            self._transport.close()


def _lacking(authorization: bytes) -> RequestError | None:
    """What a SigV4 Authorization header lacks, in AWS's words."""
    if (
        b"Credential=" in authorization
        and b"SignedHeaders=" in authorization
        and b"Signature=" in authorization
    ):
        return None
    lacking = [
        f"Authorization header requires '{part}' parameter."
        for part in ("Credential", "Signature", "SignedHeaders")
        if f"{part}=".encode() not in authorization
    ]
    shown = authorization[:256].decode("latin-1")
    return IncompleteSignatureError(f"{' '.join(lacking)} Authorization={shown}")
