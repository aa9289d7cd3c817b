"""A partition whose node is not known yet."""

from collections.abc import Callable
from typing import Any

from ...log.commands import Command, Position
from ...materializer.feed_requests import FeedRequest, OnFed
from ...materializer.fold.outcomes import Failed
from ...materializer.history.history import PartitionCut
from ...materializer.history.requests import OnPast, PastRead
from ...materializer.partition import (
    OnOutcome,
    OnReached,
    OnStatus,
    QueryRequest,
    ResultPosition,
    ScanRequest,
)
from ...model.errors import RequestError, ServiceUnavailableError

_UNKNOWN = Position(0, -1)


class UnassignedPartition:
    """A `Partition` that answers every request with ServiceUnavailable, which SDKs retry."""

    def submit(self, command: Command, size: int, done: OnOutcome) -> None:  # noqa: ARG002
        done(Failed(ServiceUnavailableError()), _UNKNOWN)

    def get(self, *arguments: Any) -> None:
        arguments[-1](ServiceUnavailableError(), _UNKNOWN)

    get_all = get_isolated = get

    def query(
        self,
        request: QueryRequest | ScanRequest,  # noqa: ARG002
        done: Callable[[RequestError, ResultPosition], None],
    ) -> None:
        done(ServiceUnavailableError(), _UNKNOWN)

    scan = query

    def feed(self, request: FeedRequest, done: OnFed) -> None:  # noqa: ARG002
        done(ServiceUnavailableError(), _UNKNOWN)

    def as_of(self, cut: PartitionCut, read: PastRead, done: OnPast) -> None:  # noqa: ARG002
        done(ServiceUnavailableError(), _UNKNOWN)

    def reach(self, position: ResultPosition, done: OnReached) -> None:  # noqa: ARG002
        done(ServiceUnavailableError())

    def status(self, table: int | None, done: OnStatus) -> None:  # noqa: ARG002
        done(ServiceUnavailableError())
