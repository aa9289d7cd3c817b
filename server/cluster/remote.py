"""The seam of a partition that another node serves: calls go to whoever serves it now.

    its owner ──► if that cannot be reached, its standby ──► if neither can, wait, and look again

A call that is known not to have been made is made again until somebody takes it. One whose fate is unknown is made
again if it only reads; a write is answered with an InternalServerError, which means just that, and which SDKs retry.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from ...log.commands import Command, Position
from ...materializer.feed_requests import FeedRequest, OnFed
from ...materializer.fold.outcomes import Failed, Outcome
from ...materializer.fold.storage import Stored
from ...materializer.partition import (
    EncodedKey,
    Found,
    Page,
    Partition,
    QueryRequest,
    ResultPosition,
    ScanRequest,
)
from ...model.errors import InternalServerError, RequestError, ServiceUnavailableError, ThrottlingError
from .link import Answer, Fate, Link, Lost, Timeouts, Unsent
from .wire import FEED, GET, GET_ALL, GET_ISOLATED, QUERY, REACH, SCAN, STATUS, SUBMIT, Method

PartitionRoute: TypeAlias = Partition | Link | None
"""Who serves a partition: this process, another node, or nobody at the moment."""


class _Asked(NamedTuple):
    method: Method
    arguments: tuple[Any, ...]
    done: Callable[..., None]
    until: float


class RemotePartition:
    """A `Partition` on another node.

    Args:
        number: Which.
        way: Who serves it now. Given a position, a read may be answered by this process too, if it has folded that.
        loop: Where everything happens.
        patience: How long requests wait.
    """

    def __init__(
        self,
        number: int,
        way: Callable[[int, Position | None], PartitionRoute],
        loop: asyncio.AbstractEventLoop,
        patience: Timeouts,
    ) -> None:
        self._number = number
        self._way = way
        self._loop = loop
        self._patience = patience
        self._seen = Position(number, -1)

    def submit(self, command: Command, size: int, done: Callable[[Outcome, ResultPosition], None]) -> None:
        """Have a command appended and folded by the owner."""
        self._ask(SUBMIT, (command, size), done)

    def get(
        self,
        table: int,
        pk: bytes,
        sk: bytes,
        consistent: bool,
        done: Callable[[Stored | RequestError | None, ResultPosition], None],
    ) -> None:
        """Read an item."""
        self._ask(GET, (table, pk, sk, consistent), done, local=not consistent)

    def get_all(
        self,
        keys: Sequence[EncodedKey],
        consistent: bool,
        done: Callable[[list[Stored | None] | RequestError, ResultPosition], None],
    ) -> None:
        """Read items at one position of the log."""
        self._ask(GET_ALL, (keys, consistent), done, local=not consistent)

    def get_isolated(
        self,
        keys: Sequence[EncodedKey],
        since: Position | None,
        done: Callable[[list[Found] | RequestError, ResultPosition], None],
    ) -> None:
        """Read items for TransactGetItems."""
        self._ask(GET_ISOLATED, (keys, since), done)

    def query(
        self, request: QueryRequest, done: Callable[[Page | RequestError, ResultPosition], None]
    ) -> None:
        """Read a page of one item collection."""
        self._ask(QUERY, (request,), done, local=not request.consistent)

    def scan(self, request: ScanRequest, done: Callable[[Page | RequestError, ResultPosition], None]) -> None:
        """Read a page in hash order."""
        self._ask(SCAN, (request,), done, local=not request.consistent)

    def reach(self, position: ResultPosition, done: Callable[[RequestError | None], None]) -> None:
        """Wait until a position is folded, and what was sent up to there has arrived."""
        self._ask(REACH, (position,), done)

    def status(self, done: Callable[[dict[str, Any] | RequestError], None]) -> None:
        """How the partition is, where it is served."""
        self._ask(STATUS, (), done)

    def feed(self, request: FeedRequest, done: OnFed) -> None:
        """Read the feed where the partition is served; whoever serves it next has the same."""
        self._ask(FEED, (request,), done)

    def _ask(
        self, method: Method, arguments: tuple[Any, ...], done: Callable[..., None], *, local: bool = False
    ) -> None:
        self._try(_Asked(method, arguments, done, self._loop.time() + self._patience.retry), local)

    def _try(self, asked: _Asked, local: bool) -> None:
        way = self._way(self._number, self._seen if local else None)
        if isinstance(way, Link):
            way.ask(asked.method, self._number, asked.arguments, partial(self._answered, asked, local))
        elif way is None:
            self._later(asked, local)
        else:
            getattr(way, asked.method.name)(*asked.arguments, partial(self._answer, asked))

    def _answered(self, asked: _Asked, local: bool, fate: Fate) -> None:
        match fate:
            case Answer(result, place):
                self._answer(asked, result, place)
            case Lost() if not asked.method.is_repeatable:
                self._refuse(asked, InternalServerError())
            case Unsent(full=True):
                self._refuse(asked, ThrottlingError("Rate of requests exceeds the allowed throughput."))
            case _:
                self._later(asked, local)

    def _later(self, asked: _Asked, local: bool) -> None:
        if self._loop.time() < asked.until:
            self._loop.call_later(self._patience.look, self._try, asked, local)
        else:
            self._refuse(asked, ServiceUnavailableError())

    def _answer(self, asked: _Asked, result: Any, place: ResultPosition | None = None) -> None:
        if place is None:
            asked.done(result)
            return
        if isinstance(place, Position) and place.offset > self._seen.offset:
            self._seen = replace(place, index=None)
        asked.done(result, place)

    def _refuse(self, asked: _Asked, error: RequestError) -> None:
        if asked.method is SUBMIT:
            asked.done(Failed(error), self._seen)
        elif asked.method.is_placed:
            asked.done(error, self._seen)
        else:
            asked.done(error)
