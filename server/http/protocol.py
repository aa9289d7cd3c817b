"""One connection: receives bytes, passes requests to the dispatcher and sends answers.

    bytes ──► head (request_head) ──► body (request_body) ──► dispatch ──► answer ──► next head

A connection has one request in flight. Bytes that arrive before its answer wait in the buffer, and past a limit in the
socket. So pipelined requests are answered in order, a read sees the write before it, and a client can queue no more
than one buffer. The event loop starts one pipelined request of a connection per turn, so other clients do not wait for
them. A connection reads a clock for the durations of requests alone; its deadlines are ticks of the listener.
"""

import asyncio
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from time import perf_counter
from typing import Final, cast

import orjson

from ...materializer.partition import ResultPosition
from ...model.errors import (
    AccessDeniedError,
    MissingAuthenticationTokenError,
    RequestError,
    ThrottlingError,
)
from ..api.checksums import SummedText
from ..api.dispatch import dispatch, fault_before_signature
from ..api.long_answers import LONG_BYTES, Portion, bytes_of, portions
from ..api.reply import Reply
from ..auth.guard import Guard
from ..auth.query_signature import QuerySignature, is_signed
from ..auth.rights import check, metrics_demands
from ..auth.verify import incomplete
from ..node import Node
from . import response
from .buffer_limit import BufferBudget
from .fair_scheduler import LONG, LONG_BODY_BYTES, FairScheduler
from .origin_policy import ForbiddenError, OriginPolicy, is_loopback
from .readiness import unready_reason
from .request_body import Body, ChunkedBody, SizedBody, TooLargeError, inflate
from .request_head import HEAD_BYTES, BadRequestError, RequestHead, read_head
from .request_log import RequestLog, RequestRecord

# In ticks, which are seconds by default.
FIRST_TICKS: Final = 30  # before the first request
IDLE_TICKS: Final = 120  # before the next request; most SDKs close sooner, so that they never find it closed
HEAD_TICKS: Final = 5  # from a head's first byte to its last
BODY_TICKS: Final = 10  # between two pieces of a body
BODY_TOTAL_TICKS: Final = 60
STALL_TICKS: Final = 30  # while the client reads nothing of an answer
LINGER_TICKS: Final = 5  # a refused client may finish sending before it reads the answer
NEVER: Final = 1 << 60

_WAITING_BYTES: Final = 16 * 1024  # received while a request is in flight
_UNREAD_BYTES: Final = 16 * 1024  # unread bytes of answers, past which a client counts as slow

_HEALTHY: Final = b"healthy: foldb, speaking DynamoDB's API version 2012-08-10\n"
_NO_MONITOR: Final = b". `foldb key create --monitor` makes a key that may read this page.\n"
_BASIC: Final = b'\r\nWWW-Authenticate: Basic realm="foldb"'
# DynamoDB's whole answer to a body whose Content-Type is not JSON, and to methods that it does not have.
_NO_JSON: Final = b"<UnknownOperationException/>\n"
# The only parameter of DynamoDB's API that is a header field.
_PUT_POLICY: Final = b"DynamoDB_20120810.PutResourcePolicy"
_CONFIRM: Final = b"x-amz-confirm-remove-self-resource-access"
_NO_PATH: Final = b"The API is at the path '/' and takes no query.\n"


class Shared(ABC):
    """The part of the listener that connections use.

    Attributes:
        node: The node that handles requests.
        guard: Verifies signatures; None accepts every signature.
        origin_policy: Refuses requests of web pages.
        buffer_budget: Limits the buffers of slow clients.
        fair_scheduler: Schedules long requests.
        tick: The number of ticks, of a second each, since the start. Connections express deadlines in ticks.
        date: The value of `Date` in answers.
        depth: Returns how many triggers led to a request with a user agent; None while no trigger runs here.
        request_log: The log of requests; None without --log-requests and --slow-log.
    """

    node: Node
    guard: Guard | None
    origin_policy: OriginPolicy
    buffer_budget: BufferBudget
    fair_scheduler: FairScheduler
    tick: int
    date: bytes
    depth: Callable[[bytes], int] | None
    request_log: RequestLog | None

    @abstractmethod
    def call_soon(self, callback: Callable[[], object]) -> None:
        """Call `callback` in the next turn of the event loop."""

    @abstractmethod
    def opened(self, connection: "Connection") -> None:
        """Register a connection, which may be finished at once."""

    @abstractmethod
    def closed(self, connection: "Connection") -> None:
        """Forget a connection."""

    @abstractmethod
    def request_id(self) -> str:
        """Return a new request id."""

    @abstractmethod
    def position_fields(self, position: ResultPosition) -> bytes:
        """Return the header fields of a position."""


class Connection(asyncio.Protocol):
    """A client's connection, from accept to close."""

    __slots__ = (
        "_advancing",
        "_at",
        "_body",
        "_body_deadline",
        "_buffer",
        "_closing",
        "_head",
        "_is_last",
        "_is_next",
        "_listener",
        "_paused",
        "_record",
        "_reply",
        "_transport",
        "deadline",
        "held",
        "peer",
    )

    def __init__(self, listener: Shared) -> None:
        self._listener = listener
        self._transport: asyncio.Transport | None = None
        self._buffer = b""  # received bytes; those before `_at` are consumed
        self._at = 0
        self._head: RequestHead | None = None  # of the request in flight
        self._body: Body | None = None  # while a body is being received
        self._body_deadline = NEVER
        self._reply: Reply | None = None  # while a request is in flight
        self._record: RequestRecord | None = None  # of the request in flight, with --log-requests
        self._advancing = False
        self._is_next = False  # the next turn of the event loop handles the buffer
        self._paused = False  # the client does not read its answers
        self._is_last = False  # the client has half-closed the connection
        self._closing = False  # no further request is handled
        self.deadline = listener.tick + FIRST_TICKS
        self.held = 0  # bytes buffered because the client is slow; see buffer_limit.py
        self.peer = ""  # the client's address

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(_UNREAD_BYTES)
        self.peer = transport.get_extra_info("peername", ("",))[0]
        self._listener.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # asyncio's signature
        self._transport = None
        self._closing = True
        self._buffer = b""
        if self._record is not None:
            self._log(self._record, None, 0)
        self._body = None
        self._listener.closed(self)

    def eof_received(self) -> bool:
        """Keep the connection open for an answer: the client has half-closed it, but may still read."""
        self._is_last = True
        return self._reply is not None or self._is_next or self._paused

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        if self._body is not None:
            self._receive_body(data)
            return
        if self._buffer:
            data = self._buffer[self._at :] + data
            self._at = 0
        self._buffer = data
        if self._reply is None and not self._is_next:
            self._advance()
        elif len(data) > _WAITING_BYTES and self._transport is not None:
            self._transport.pause_reading()
            self._reserve(len(data))

    def pause_writing(self) -> None:
        transport = self._transport
        self._paused = True
        self.deadline = self._listener.tick + STALL_TICKS
        if transport is not None:
            if not self._closing:
                transport.pause_reading()
            self._reserve(transport.get_write_buffer_size() + len(self._buffer))

    def resume_writing(self) -> None:
        self._paused = False
        self.deadline = self._listener.tick + (STALL_TICKS if self._closing else IDLE_TICKS)
        self._reserve(0)
        self._go_on()

    # Called by the listener

    def expire(self) -> None:
        """Close the connection, because its deadline has passed; answer 408 to an incomplete request."""
        transport = self._transport
        if transport is None:
            return
        if self._closing or self._paused:
            transport.abort()
        elif self._buffer or self._body is not None:
            self._refuse(BadRequestError(408, "too slow"))
        else:
            self._close()

    def evict(self) -> None:
        """Close the connection at once, because other clients need its memory or its place."""
        self._closing = True
        if self._transport is not None:
            self._transport.abort()

    def finish(self) -> None:
        """Close the connection once no request is in flight."""
        if self._reply is None:
            self._close()
        self._closing = True

    # Requests

    def _advance(self) -> None:
        """Handle the next request in the buffer, and leave the one behind it for another turn of the event loop."""
        if self._closing or self._paused:
            return
        self._advancing = True
        try:
            is_begun = self._begin_request()
        except BadRequestError as error:
            self._refuse(error)
            return
        finally:
            self._advancing = False
        if is_begun and self._buffer and self._reply is None:
            self._wait_for_turn()
        elif self._is_last and not is_begun:
            self._close()

    def _wait_for_turn(self) -> None:
        if not self._is_next:
            self._is_next = True
            self._listener.call_soon(self._on_turn)

    def _on_turn(self) -> None:
        self._is_next = False
        self._go_on()

    def _begin_request(self) -> bool:
        """Begin the request at the front of the buffer; return False if its head is incomplete."""
        buffer, at = self._buffer, self._at
        end = buffer.find(b"\r\n\r\n", at) + 4
        if end < 4 or end - at > HEAD_BYTES:
            if len(buffer) - at >= HEAD_BYTES:
                raise BadRequestError(431, "the head is too long")
            if self.deadline > self._listener.tick + HEAD_TICKS:
                self.deadline = self._listener.tick + HEAD_TICKS
            return False
        self._head = head = read_head(buffer[at:end])
        fields, listener = head.fields, self._listener
        gate = listener.origin_policy
        if listener.request_log is not None:
            self._record = listener.request_log.begin(self.peer, head, end - at)
        if fields[b"host"] not in gate.known or b"origin" in fields or b"sec-fetch-site" in fields:
            gate.admit(head)
        length = head.length
        if length is None or length > len(buffer) - end:
            self._buffer, self._at = b"", 0
            self._begin_body(head, buffer[end:])
            return True
        at = end + length
        if at == len(buffer):
            self._buffer, self._at = b"", 0
        else:
            self._at = at
        self._handle(head, buffer[end:at])
        return True

    def _begin_body(self, head: RequestHead, data: bytes) -> None:
        limit = self._listener.node.state.limits.body_bytes
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

    def _receive_body(self, data: bytes) -> None:
        assert self._body is not None
        try:
            self._feed_body(self._body, data)
        except BadRequestError as error:
            self._refuse(error)
            return
        if self._body is None and self._buffer and self._reply is None:
            self._wait_for_turn()

    def _feed_body(self, body: Body, data: bytes) -> None:
        rest = body.feed(data)
        self.deadline = min(self._listener.tick + BODY_TICKS, self._body_deadline)
        if body.is_complete:
            assert self._head is not None
            self._reserve(0)
            self._body = None
            self._buffer = rest
            self._handle(self._head, bytes(body.data))
        else:
            self._reserve(len(body.data))

    def _reserve(self, size: int) -> None:
        """Reserve memory for this slow client. That may evict the connection at once."""
        if size != self.held:
            self._listener.buffer_budget.reserve(self, size)

    def _handle(self, head: RequestHead, body: bytes) -> None:
        self.deadline = NEVER
        if self._record is not None:
            self._record.bytes_in += len(body)
        if head.method == b"POST":
            self._post(head, body)
        else:
            self._answer_page(head)

    def _post(self, head: RequestHead, body: bytes) -> None:
        is_in_query = head.path != b"/" and is_signed(head.path)
        if head.path != b"/" and not is_in_query:
            self._answer_text(head, 404, _NO_PATH)
            return
        fields = head.fields
        content_type = fields.get(b"content-type", b"")
        if content_type not in response.ECHOED and body and not _is_json(content_type):
            self._answer_unknown(head)
            return
        authorization = fields.get(b"authorization", b"")
        listener = self._listener
        self._reply = reply = Reply(
            self,
            listener.request_id(),
            authorization,
            fields.get(b"amz-sdk-invocation-id"),
            fields.get(b"x-foldb-position"),
            fields.get(b"x-foldb-reason"),
        )
        reply.began_s = perf_counter()
        reply.record = self._record
        if is_in_query:
            try:
                credential = QuerySignature(head.path, authorization).credential
            except RequestError as error:
                reply.error(error)
                return
            reply.set_credential(credential)
        if listener.depth is not None:
            reply.depth = listener.depth(fields.get(b"user-agent", b""))
        if listener.guard is not None:
            self._verify(listener.guard, head, body, reply)
        elif is_in_query:
            self._dispatch(head, body, reply)
        elif not authorization.startswith(b"AWS4-"):
            is_short = len(body) <= LONG_BODY_BYTES
            fault = is_short and fault_before_signature(fields.get(b"x-amz-target", b""), body)
            reply.error(fault or MissingAuthenticationTokenError())
        elif _is_incomplete(authorization):
            reply.error(incomplete(authorization))
        else:
            self._dispatch(head, body, reply)

    def _verify(self, guard: Guard, head: RequestHead, body: bytes, reply: Reply) -> None:
        """Verify the signature before the body is parsed. The hash of a large body takes long, so it is scheduled."""
        if len(body) <= LONG_BODY_BYTES:
            self._admit(guard, head, body, reply)
        else:
            self._schedule(len(body), partial(self._admit_scheduled, guard, head, body, reply), reply)

    def _admit(self, guard: Guard, head: RequestHead, body: bytes, reply: Reply) -> None:
        try:
            reply.bearer = guard.admit(head, body)
        except RequestError as error:
            reply.error(error)
            return
        self._dispatch(head, body, reply)

    def _admit_scheduled(self, guard: Guard, head: RequestHead, body: bytes, reply: Reply) -> None:
        if self._transport is not None:
            try:
                self._admit(guard, head, body, reply)
            except BadRequestError as error:
                self._refuse(error)

    def _dispatch(self, head: RequestHead, body: bytes, reply: Reply) -> None:
        fields, listener = head.fields, self._listener
        coding = fields.get(b"content-encoding")
        if coding is not None and coding != b"identity":
            if coding.lower() != b"gzip":
                raise BadRequestError(415, "only gzip is read")
            body = inflate(body, listener.node.state.limits.body_bytes)
        target = fields.get(b"x-amz-target", b"")
        if target == _PUT_POLICY:
            reply.is_confirmed = fields.get(_CONFIRM, b"").lower() == b"true"
        if target in LONG or len(body) > LONG_BODY_BYTES:
            self._schedule(len(body), partial(self._dispatch_scheduled, target, body, reply), reply)
        else:
            dispatch(listener.node, target, body, reply)

    def _schedule(self, size: int, request: Callable[[], None], reply: Reply) -> None:
        if not self._listener.fair_scheduler.schedule(size, request):
            reply.error(ThrottlingError("Rate of requests exceeds the allowed throughput."))

    def _dispatch_scheduled(self, target: bytes, body: bytes, reply: Reply) -> None:
        if self._transport is not None:  # else the client has disconnected before the request began
            dispatch(self._listener.node, target, body, reply)

    def _answer_page(self, head: RequestHead) -> None:
        """Answer a request that is not of the API: a health check, GET /metrics or a preflight."""
        if head.method in (b"GET", b"HEAD"):
            if head.path == b"/metrics":
                self._answer_metrics(head)
                return
            self._answer_text(head, *self._health(head.path))
        elif head.method == b"OPTIONS" and b"origin" in head.fields:
            self._answer_text(head, 200, b"", self._listener.origin_policy.preflight(head))
        else:
            self._answer_unknown(head)

    def _health(self, path: bytes) -> tuple[int, bytes]:
        """Return the status and the text of a health check."""
        if path == b"/healthz/ready":
            reason = unready_reason(self._listener.node)
            return (200, b"ready\n") if reason is None else (503, f"{reason}\n".encode())
        return (200, _HEALTHY) if path in (b"/", b"/healthz/live") else (404, b"")

    def _answer_unknown(self, head: RequestHead) -> None:
        """Answer 404 in DynamoDB's form to a request of another method or without JSON."""
        fields = b"\r\nx-amzn-RequestId: %b\r\nx-amz-crc32: %d"
        values = self._listener.request_id().encode(), zlib.crc32(_NO_JSON)
        self._answer_text(head, 404, _NO_JSON, fields % values)

    def _answer_metrics(self, head: RequestHead) -> None:
        """Answer with the metrics of this node, to a key with the right `monitor`."""
        listener, guard = self._listener, self._listener.guard
        if guard is not None:
            if listener.node.settings.tls_cert is None and not is_loopback(self.peer):
                self._answer_text(head, 403, b"a secret must not be sent without TLS: --tls-cert\n")
                return
            try:
                key = guard.admit_basic(head.fields.get(b"authorization", b""))
                if self._record is not None:
                    self._record.access_key = key.id
                check(key, metrics_demands(), listener.node.state)
            except AccessDeniedError as denied:
                self._answer_text(head, 403, denied.message.encode() + _NO_MONITOR)
                return
            except RequestError as error:
                self._answer_text(head, 401, error.message.encode() + b"\n", _BASIC)
                return
        from .metrics import metrics  # imports prometheus_client, and the subscriptions

        self._reply = Reply(self, listener.request_id())  # a request is in flight
        metrics(
            listener.node, lambda text: self._answer_text(head, 500 if text is None else 200, text or b"")
        )

    def _answer_text(self, head: RequestHead, status: int, text: bytes, fields: bytes = b"") -> None:
        close = self._closing or not head.keep_alive
        data = response.plain(
            status,
            text,
            date=self._listener.date,
            close=close,
            fields=fields + head.more,
            head=head.method == b"HEAD",
        )
        if self._record is not None:
            self._log(self._record, status, len(data))
        self._reply = None
        self._write(data)
        self._answered(close)

    # Answers

    def answer(self, reply: Reply, status: int, body: bytes, position: ResultPosition | None) -> None:
        """Send the answer to the request in flight."""
        usage = reply.usage
        if status != 200:
            self._listener.node.metrics.operations.count_error(usage, reply.failure)
        elif usage is not None:
            usage.succeeded(perf_counter() - reply.began_s)
        if self._transport is None:
            return  # the client has disconnected
        assert reply is self._reply, "a request was answered twice"
        head, listener = self._head, self._listener
        assert head is not None
        if position is None:
            position = listener.node.position
        if len(body) >= LONG_BYTES:
            self._answer_in_turns(status, portions((body,)), position)
            return
        close = self._closing or not head.keep_alive
        compressed = len(body) >= response.GZIP_FROM_BYTES and _reads_gzip(head)
        content_type, fields = self._answer_fields(head, position)
        request_id = reply.request_id.encode()
        if status == 200 and not close and not compressed:
            data = response.ok(body, listener.date, content_type, request_id, fields)
        else:
            data = response.answer(
                status,
                body,
                date=listener.date,
                content_type=content_type,
                request_id=request_id,
                position=fields,
                gzip=compressed,
                close=close,
            )
        if self._record is not None:
            self._log_answer(self._record, status, len(data), reply, position)
        self._reply = None
        self._transport.write(data)
        if self._paused:  # the transport buffers all of it, even if little is left to send
            self._reserve(len(data) + len(self._buffer))
        self._answered(close)

    def answer_long(self, reply: Reply, portions: Iterator[Portion], position: ResultPosition) -> None:
        """Send an answer of many bytes to the request in flight, a portion in a turn of the event loop."""
        if reply.usage is not None:
            reply.usage.succeeded(perf_counter() - reply.began_s)
        if self._transport is not None:
            assert reply is self._reply, "a request was answered twice"
            self._answer_in_turns(200, portions, position)

    def _answer_in_turns(self, status: int, portions: Iterator[Portion], position: ResultPosition) -> None:
        steps = self._steps_of_answer(status, portions, position)
        self._listener.node.partitions.long_reads.add(lambda: next(steps, True))

    def _steps_of_answer(
        self, status: int, portions: Iterator[Portion], position: ResultPosition
    ) -> Iterator[bool]:
        """Send an answer in steps, which yield False: sum the portions for the head, then send one in each.

        The steps end when the client has disconnected. If it is slow, the transport buffers all of the rest.
        """
        head, reply, listener = self._head, self._reply, self._listener
        transport = self._transport
        if transport is None:
            return
        assert head is not None
        assert reply is not None
        compressor = response.new_compressor() if _reads_gzip(head) else None
        body: list[bytes | memoryview] = []
        size = checksum = 0
        for portion in portions:
            sent = bytes_of(portion)
            if compressor is not None:
                sent = compressor.compress(sent)
            body.append(sent)
            size += len(sent)
            if isinstance(portion, SummedText) and compressor is None:
                checksum = portion.sum_after(checksum)
            else:
                checksum = zlib.crc32(sent, checksum)
            yield False
            if self._transport is None:
                return
        content_type, more = self._answer_fields(head, position)
        if compressor is not None:
            body.append(compressor.flush())
            size += len(body[-1])
            checksum = zlib.crc32(body[-1], checksum)
            more += response.GZIPPED
        close = self._closing or not head.keep_alive
        if close:
            more += response.CLOSING
        data = response.api_head(
            status, size, checksum, listener.date, content_type, reply.request_id.encode(), more
        )
        if self._record is not None:
            self._log_answer(self._record, status, len(data) + size, reply, position)
        transport.write(data)
        transport.write(body[0])
        for sent in islice(body, 1, None):
            if not self._paused:
                yield False
            if self._transport is None:
                return
            transport.write(sent)
        if self._paused:
            self._reserve(transport.get_write_buffer_size() + len(self._buffer))
        self._reply = None
        self._answered(close or self._closing)

    def _answer_fields(self, head: RequestHead, position: ResultPosition) -> tuple[bytes, bytes]:
        """Return the content type of an answer, and its other header fields."""
        content_type = head.fields.get(b"content-type", response.UNTYPED)
        if content_type not in response.ECHOED:
            content_type = response.JSON
        fields = self._listener.position_fields(position)
        return content_type, fields + head.more if head.more else fields

    def _log_answer(
        self, record: RequestRecord, status: int, bytes_out: int, reply: Reply, position: ResultPosition
    ) -> None:
        text = position.text(self._listener.node.partitions.count)
        self._log(record, status, bytes_out, reply.request_id, text)

    def _answered(self, close: bool) -> None:
        self._head = None
        if close or (self._is_last and not self._buffer):
            self._close()
            return
        if not self._paused:
            self.deadline = self._listener.tick + IDLE_TICKS
        if not self._advancing:
            self._go_on()

    def _go_on(self) -> None:
        if self._transport is None or self._closing or self._paused or self._reply is not None:
            return
        if self._body is None and self._buffer and not self._is_next:
            self._advance()
        if (
            len(self._buffer) - self._at <= _WAITING_BYTES
            and not self._paused
            and not self._transport.is_reading()
        ):
            self._reserve(0)
            self._transport.resume_reading()

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _refuse(self, error: BadRequestError) -> None:
        """Answer a malformed or forbidden request. Close after a pause in which the client can finish and read it."""
        listener, record = self._listener, self._record
        request_id = listener.request_id() if isinstance(error, ForbiddenError) else None
        data = _refusal(error, request_id, listener.date)
        if listener.request_log is not None:
            if record is None:  # the head could not be parsed
                record = listener.request_log.begin(self.peer, None, len(self._buffer) - self._at)
            if request_id is not None:
                record.error = AccessDeniedError.wire_name
            self._log(record, error.status, len(data), request_id)
        self._reply = None
        self._body = None
        self._buffer = b""
        self._reserve(0)
        self._closing = True
        self.deadline = listener.tick + LINGER_TICKS
        self._write(data)
        if self._transport is not None and self._transport.can_write_eof():
            self._transport.write_eof()

    def _log(
        self,
        record: RequestRecord,
        status: int | None,
        bytes_out: int,
        request_id: str | None = None,
        position: str | None = None,
    ) -> None:
        """Log the end of the request in flight."""
        assert self._listener.request_log is not None
        self._record = None
        if self._body is not None:  # a part of it was received
            record.bytes_in += len(self._body.data)
        self._listener.request_log.end(record, status, bytes_out, request_id, position)

    def _close(self) -> None:
        self._closing = True
        self.deadline = self._listener.tick + STALL_TICKS
        if self._transport is not None:
            self._transport.close()


def _refusal(error: BadRequestError, request_id: str | None, date: bytes) -> bytes:
    """Return an answer of the API where there is a request id, because SDKs show its reason, else plain text."""
    if request_id is None:
        return response.plain(error.status, error.reason.encode() + b"\n", date=date, close=True)
    return response.answer(
        error.status,
        orjson.dumps(AccessDeniedError(error.reason).body()),
        date=date,
        content_type=response.JSON,
        request_id=request_id.encode(),
        close=True,
    )


def _reads_gzip(head: RequestHead) -> bool:
    return b"gzip" in head.fields.get(b"accept-encoding", b"")


def _is_json(content_type: bytes) -> bool:
    """Return whether a Content-Type is one of the API, in any case and with any parameters."""
    return content_type.partition(b";")[0].rstrip(b" \t").lower() in response.ECHOED


def _is_incomplete(authorization: bytes) -> bool:
    """Return whether a part is missing in a SigV4 Authorization header."""
    # In bytes, `in` first tries its operand as an integer, and catches an exception: ten times slower than in a text.
    text = authorization.decode("latin-1")
    return "Credential=" not in text or "SignedHeaders=" not in text or "Signature=" not in text
