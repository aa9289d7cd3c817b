"""The answer that a handler owes.

A handler gets one `Reply` and uses it once: now, or from the callback of a command that became durable. It
is a callback and not a future, because most answers are given before the handler returns, and a future and a
task a request would cost a read half its rate.
"""

from collections.abc import Iterable
from typing import Protocol

import orjson

from ...log.commands import Context
from ...materializer.partition import ResultPosition
from ...model.errors import RequestError
from ..auth.rights import Bearer, Demand

_SCOPE = b"Credential="


class ReplySink(Protocol):
    """Where answers go: a connection."""

    def answer(self, reply: "Reply", status: int, body: bytes, position: ResultPosition | None) -> None:
        """Send the answer to `reply`'s request."""
        ...


class Record(Protocol):
    """What the request log has of a request.

    Attributes:
        error: The name of the error that answers it.
    """

    error: str | None

    def note(self, demands: Iterable[Demand]) -> None:
        """Take the names of the tables from the rights that the request needs."""
        ...


class Caller(Protocol):
    """The sender of a request, as coroutine handlers see it; see `Reply`."""

    @property
    def bearer(self) -> Bearer | None: ...

    @property
    def context(self) -> Context: ...


class Reply:
    """The answer to one request, and who asked.

    Attributes:
        request_id: What the answer's x-amzn-RequestId says.
        after: The position that a read is to wait for, as the client wrote it.
        bearer: The key that the request was signed with; None where nobody looks at signatures.
        depth: How many triggers led to the request; 0 where none did.
        record: What the request log has of the request; None without --log-requests.
    """

    __slots__ = ("_authorization", "_invocation", "_sink", "after", "bearer", "depth", "record", "request_id")

    def __init__(
        self,
        sink: ReplySink,
        request_id: str,
        authorization: bytes = b"",
        invocation: bytes | None = None,
        after: bytes | None = None,
    ) -> None:
        self.request_id = request_id
        self.after = after
        self.bearer: Bearer | None = None
        self.depth = 0
        self.record: Record | None = None
        self._sink = sink
        self._authorization = authorization
        self._invocation = invocation

    @property
    def context(self) -> Context:
        """Who asked, as commands carry it. Reads never need it, so it is made when asked for."""
        invocation = self._invocation
        return Context(
            self.request_id,
            None if invocation is None else invocation.decode("latin-1"),
            access_key(self._authorization),
            "trigger" if self.depth else "api",
            self.depth,
        )

    def ok(self, body: bytes, position: ResultPosition | None = None) -> None:
        """Answer with `body`, a JSON object or nothing; `position` is what the answer is true of."""
        self._sink.answer(self, 200, body, position)

    def error(self, error: RequestError, position: ResultPosition | None = None) -> None:
        """Answer with DynamoDB's error."""
        if self.record is not None:
            self.record.error = error.wire_name
        body = error.body()
        if not error.message:
            del body[error.message_member]
        self._sink.answer(self, error.status, orjson.dumps(body), position)


def access_key(authorization: bytes) -> str | None:
    """The access key id that a SigV4 Authorization header names.

    >>> access_key(b"AWS4-HMAC-SHA256 Credential=AKID/20261121/us-east-1/dynamodb/aws4_request, Signature=0")
    'AKID'
    """
    start = authorization.find(_SCOPE)
    if start < 0:
        return None
    scope = authorization[start + len(_SCOPE) :]
    return scope.partition(b"/")[0].decode("latin-1") or None
