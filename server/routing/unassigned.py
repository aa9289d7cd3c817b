"""A partition that nobody is known to serve yet."""

from collections.abc import Callable
from typing import Any

from ...log.commands import Command, Position
from ...materializer.feed_requests import FeedRequest, OnFed
from ...materializer.fold.outcomes import Failed, Outcome
from ...materializer.partition import QueryRequest, ResultPosition, ScanRequest
from ...model.errors import RequestError, ServiceUnavailableError

_UNKNOWN = Position(0, -1)


class UnassignedPartition:
    """A `Partition` that answers everything with an error which SDKs try again after."""

    def submit(self, command: Command, size: int, done: Callable[[Outcome, ResultPosition], None]) -> None:  # noqa: ARG002
        """Take nothing."""
        done(Failed(ServiceUnavailableError()), _UNKNOWN)

    def get(self, *asked: Any) -> None:
        """Read nothing."""
        asked[-1](ServiceUnavailableError(), _UNKNOWN)

    get_all = get_isolated = get

    def query(
        self,
        request: QueryRequest | ScanRequest,  # noqa: ARG002
        done: Callable[[RequestError, ResultPosition], None],
    ) -> None:
        """Read nothing."""
        done(ServiceUnavailableError(), _UNKNOWN)

    scan = query

    def feed(self, request: FeedRequest, done: OnFed) -> None:  # noqa: ARG002
        """Read nothing."""
        done(ServiceUnavailableError(), _UNKNOWN)

    def reach(self, position: ResultPosition, done: Callable[[RequestError | None], None]) -> None:  # noqa: ARG002
        """Reach nothing."""
        done(ServiceUnavailableError())

    def status(self, done: Callable[[dict[str, Any] | RequestError], None]) -> None:
        """Know nothing."""
        done(ServiceUnavailableError())
