"""The interface of a partition that another node serves: calls go to the node that serves it now.

    its owner ──► if that is unreachable, its standby ──► if that is unreachable too, wait and look up the route again

A call that was not executed is repeated until a node accepts it. A call whose result is unknown is repeated if it only
reads. A write fails with an InternalServerError, which DynamoDB defines as "unknown result", and which SDKs retry.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from ...log.commands import Command, Position
from ...materializer.feed_requests import FeedRequest, OnFed
from ...materializer.fold.outcomes import Failed
from ...materializer.history.history import PartitionCut
from ...materializer.history.requests import OnPast, PastRead
from ...materializer.partition import (
    EncodedKey,
    OnFound,
    OnItem,
    OnItems,
    OnOutcome,
    OnPage,
    OnReached,
    OnStatus,
    Partition,
    QueryRequest,
    ResultPosition,
    ScanRequest,
    Since,
)
from ...model.errors import InternalServerError, RequestError, ServiceUnavailableError, ThrottlingError
from .link import Answered, CallResult, Link, Lost, Timeouts, Unknown, Unsent
from .wire import AS_OF, FEED, GET, GET_ALL, GET_ISOLATED, QUERY, REACH, SCAN, STATUS, SUBMIT, Method

_EARLIER_RELEASE: Final = (
    "The node of this partition runs an earlier release without this read: upgrade it and try again."
)

PartitionRoute: TypeAlias = Partition | Link | None
"""Where a partition is served: in this process, on another node, or nowhere at the moment."""


class _Call(NamedTuple):
    method: Method
    arguments: tuple[Any, ...]
    callback: Callable[..., None]
    deadline: float
    may_be_local: bool


class RemotePartition:
    """A `Partition` on another node.

    Args:
        route: Returns where the partition is served now. Given a position, it may return the copy of this process, if
            that has folded the position.
        loop: The event loop of the callbacks.
        timeouts: How long requests wait.
    """

    def __init__(
        self,
        partition_id: int,
        route: Callable[[int, Position | None], PartitionRoute],
        loop: asyncio.AbstractEventLoop,
        timeouts: Timeouts,
    ) -> None:
        self._partition_id = partition_id
        self._route = route
        self._loop = loop
        self._timeouts = timeouts
        self._seen = Position(partition_id, -1)

    def submit(self, command: Command, size: int, done: OnOutcome) -> None:
        self._call(SUBMIT, (command, size), done)

    def get(self, table: int, pk: bytes, sk: bytes, consistent: bool, done: OnItem) -> None:
        self._call(GET, (table, pk, sk, consistent), done, may_be_local=not consistent)

    def get_all(self, keys: Sequence[EncodedKey], consistent: bool, done: OnItems) -> None:
        self._call(GET_ALL, (keys, consistent), done, may_be_local=not consistent)

    def get_isolated(self, keys: Sequence[EncodedKey], since: Since, done: OnFound) -> None:
        self._call(GET_ISOLATED, (keys, since), done)

    def query(self, request: QueryRequest, done: OnPage) -> None:
        self._call(QUERY, (request,), done, may_be_local=not request.consistent)

    def scan(self, request: ScanRequest, done: OnPage) -> None:
        self._call(SCAN, (request,), done, may_be_local=not request.consistent)

    def reach(self, position: ResultPosition, done: OnReached) -> None:
        self._call(REACH, (position,), done)

    def status(self, table: int | None, done: OnStatus) -> None:
        """Return the status of the partition where it is served."""
        self._call(STATUS, (table,), done)

    def feed(self, request: FeedRequest, done: OnFed) -> None:
        """Read the feed where the partition is served. Every node that serves it has the same feed."""
        self._call(FEED, (request,), done)

    def as_of(self, cut: PartitionCut, read: PastRead, done: OnPast) -> None:
        """Read the past where the partition is served. Every node that serves it has the same past."""
        self._call(AS_OF, (cut, read), done)

    def _call(
        self,
        method: Method,
        arguments: tuple[Any, ...],
        callback: Callable[..., None],
        *,
        may_be_local: bool = False,
    ) -> None:
        deadline = self._loop.time() + self._timeouts.retry
        self._try(_Call(method, arguments, callback, deadline, may_be_local))

    def _try(self, call: _Call) -> None:
        route = self._route(self._partition_id, self._seen if call.may_be_local else None)
        if isinstance(route, Link):
            route.call(call.method, self._partition_id, call.arguments, partial(self._on_result, call))
        elif route is None:
            self._retry_later(call)
        else:
            getattr(route, call.method.name)(*call.arguments, partial(self._answer, call))

    def _on_result(self, call: _Call, call_result: CallResult) -> None:
        match call_result:
            case Answered(result, position):
                self._answer(call, result, position)
            case Lost() if not call.method.is_repeatable:
                self._refuse(call, InternalServerError())
            case Unsent(full=True):
                self._refuse(call, ThrottlingError("Rate of requests exceeds the allowed throughput."))
            case Unknown():
                self._refuse(call, ServiceUnavailableError(_EARLIER_RELEASE))
            case _:
                self._retry_later(call)

    def _retry_later(self, call: _Call) -> None:
        if self._loop.time() < call.deadline:
            self._loop.call_later(self._timeouts.poll, self._try, call)
        else:
            self._refuse(call, ServiceUnavailableError())

    def _answer(self, call: _Call, result: Any, position: ResultPosition | None = None) -> None:
        if position is None:
            call.callback(result)
            return
        if isinstance(position, Position) and position.offset > self._seen.offset:
            self._seen = replace(position, index=None)
        call.callback(result, position)

    def _refuse(self, call: _Call, error: RequestError) -> None:
        if call.method is SUBMIT:
            call.callback(Failed(error), self._seen)
        elif call.method.has_position:
            call.callback(error, self._seen)
        else:
            call.callback(error)
