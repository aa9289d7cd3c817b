"""A partition whose node is not known yet."""

from collections.abc import Callable
from typing import Any

from ...log.commands import Command, Position
from ...materializer.feed_requests import FeedRequest, OnFed
from ...materializer.fold.outcomes import Failed, Outcome
from ...materializer.partition import QueryRequest, ResultPosition, ScanRequest
from ...model.errors import RequestError, ServiceUnavailableError

_UNKNOWN = Position(0, -1)


class UnassignedPartition:
    """A `Partition` that answers every request with ServiceUnavailable, which SDKs retry."""

    def submit(self, command: Command, size: int, done: Callable[[Outcome, ResultPosition], None]) -> None:  # noqa: ARG002
        """Refuse the command."""
        done(Failed(ServiceUnavailableError()), _UNKNOWN)

    def get(self, *arguments: Any) -> None:
        """Refuse the read."""
        arguments[-1](ServiceUnavailableError(), _UNKNOWN)

    get_all = get_isolated = get

    def query(
        self,
        request: QueryRequest | ScanRequest,  # noqa: ARG002
        done: Callable[[RequestError, ResultPosition], None],
    ) -> None:
        """Refuse the read."""
        done(ServiceUnavailableError(), _UNKNOWN)

    scan = query

    def feed(self, request: FeedRequest, done: OnFed) -> None:  # noqa: ARG002
        """Refuse the read."""
        done(ServiceUnavailableError(), _UNKNOWN)

    def reach(self, position: ResultPosition, done: Callable[[RequestError | None], None]) -> None:  # noqa: ARG002
        """Refuse the wait."""
        done(ServiceUnavailableError())

    def status(self, done: Callable[[dict[str, Any] | RequestError], None]) -> None:
        """Refuse the request."""
        done(ServiceUnavailableError())
