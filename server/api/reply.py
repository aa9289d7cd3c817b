"""The reply to a request.

A handler uses its `Reply` once: before it returns, or in the callback of a durable command. It is not a future,
because a future and a task per request would cost a read half its rate.
"""

from collections.abc import Iterable, Iterator
from typing import Final, Protocol

import orjson

from ...log.commands import Context, new_context
from ...materializer.partition import ResultPosition
from ...model.errors import RequestError
from ..auth.rights import Bearer, Demand
from ..usage.operations import OperationUsage
from .long_answers import LONG_BYTES, Piece, Portion, bytes_of, portions

_SCOPE: Final = "Credential="


class ReplySink(Protocol):
    """The receiver of answers: a connection."""

    def answer(self, reply: "Reply", status: int, body: bytes, position: ResultPosition | None) -> None:
        """Send the answer to `reply`'s request."""
        ...

    def answer_long(self, reply: "Reply", portions: Iterator[Portion], position: ResultPosition) -> None:
        """Send the answer, a success, to `reply`'s request. Each portion is taken in a turn of its own."""
        ...


class ReplyRecord(Protocol):
    """The record of a request in the request log.

    Attributes:
        access_key: The id of the key that signed the request.
        error: The name of the error in the answer.
        half_units: The consumed half units of all its tables and indexes.
    """

    access_key: str | None
    error: str | None
    half_units: int

    def note(self, demands: Iterable[Demand]) -> None:
        """Record the names of the tables in the rights that the request needs."""
        ...


class Caller(Protocol):
    """The sender of a request, as coroutine handlers see it; see `Reply`."""

    @property
    def bearer(self) -> Bearer | None: ...

    @property
    def context(self) -> Context: ...


class Reply:
    """The reply to one request, and its sender.

    Attributes:
        request_id: The x-amzn-RequestId of the answer.
        after: The text of the minimum position of a read; None if the client sent none.
        bearer: The key that signed the request; None if signatures are not verified.
        is_confirmed: Whether the header x-amz-confirm-remove-self-resource-access is true.
        depth: The number of triggers that led to the request; 0 if a client sent it.
        reason: The reason that the client gave, in UTF-8; None if it gave none.
        record: The record in the request log; None without --log-requests.
        began_s: The time of the request, in seconds since any moment; set by the connection.
        usage: The counters of its operation; None until the operation is known, and for foldb's own operations.
        failure: The error in the answer; not set without one.
    """

    __slots__ = (
        "_authorization",
        "_invocation",
        "_sink",
        "after",
        "bearer",
        "began_s",
        "depth",
        "failure",
        "is_confirmed",
        "reason",
        "record",
        "request_id",
        "usage",
    )
    began_s: float
    failure: RequestError

    def __init__(
        self,
        sink: ReplySink,
        request_id: str,
        authorization: bytes = b"",
        invocation: bytes | None = None,
        after: bytes | None = None,
        reason: bytes | None = None,
    ) -> None:
        self.request_id = request_id
        self.after = after
        self.reason = reason
        self.bearer: Bearer | None = None
        self.is_confirmed = False
        self.depth = 0
        self.record: ReplyRecord | None = None
        self.usage: OperationUsage | None = None
        self._sink = sink
        self._authorization = authorization
        self._invocation = invocation

    def set_credential(self, credential: bytes) -> None:
        """Set the credential of a request that is signed in its query."""
        self._authorization = _SCOPE.encode() + credential
        if self.record is not None:
            self.record.access_key = access_key(self._authorization)

    @property
    def context(self) -> Context:
        """The sender, as commands carry it. It is created on access, because reads do not need it."""
        invocation = self._invocation
        return new_context(
            self.request_id,
            None if invocation is None else invocation.decode("latin-1"),
            access_key(self._authorization),
            "trigger" if self.depth else "api",
            self.depth,
            None if self.reason is None else self.reason.decode(),
        )

    def consumed(self, half_units: int) -> None:
        """Add consumed half units to the record in the request log."""
        if self.record is not None:
            self.record.half_units += half_units

    def ok(self, body: bytes, position: ResultPosition | None = None) -> None:
        """Answer with `body`, a JSON object or nothing, which is true of `position`."""
        self._sink.answer(self, 200, body, position)

    def ok_long(self, portions: Iterator[Portion], position: ResultPosition) -> None:
        """Answer with the portions of a JSON object of LONG_BYTES or more (long_answers.py)."""
        self._sink.answer_long(self, portions, position)

    def ok_pieces(self, pieces: list[Piece], position: ResultPosition) -> None:
        """Answer with a JSON object in pieces, of any size."""
        size = 0
        for piece in pieces:
            size += len(bytes_of(piece))
        if size >= LONG_BYTES:
            self.ok_long(portions(pieces), position)
        else:
            self.ok(b"".join(map(bytes_of, pieces)), position)

    def error(self, error: RequestError, position: ResultPosition | None = None) -> None:
        """Answer with DynamoDB's error."""
        self.failure = error
        if self.record is not None:
            self.record.error = error.wire_name
        body = error.body()
        if not error.message:
            del body[error.message_member]
        self._sink.answer(self, error.status, orjson.dumps(body), position)


def access_key(authorization: bytes) -> str | None:
    """Return the access key id in a SigV4 Authorization header.

    >>> access_key(b"AWS4-HMAC-SHA256 Credential=AKID/20261121/us-east-1/dynamodb/aws4_request, Signature=0")
    'AKID'
    """
    text = authorization.decode("latin-1")  # compiled, a text is searched in a third of the time of bytes
    start = text.find(_SCOPE)
    if start < 0:
        return None
    start += len(_SCOPE)
    end = text.find("/", start)
    return text[start : end if end >= 0 else len(text)] or None
