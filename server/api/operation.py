"""The declaration of an API operation: its name, its handler, and the right that a request needs.

    @operation("GetItem", Right.READ)
    def get_item(database: Database, body: dict[str, Any], reply: Reply) -> None: ...

A handler of items or tables replies through callbacks, because a future and a task per request would cost a read half
its rate. Every other handler is a coroutine function that returns its answer; dispatch.py replies with it.
"""

import inspect
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, NamedTuple, TypeAlias, cast

from ...materializer.partition import ResultPosition
from ...model.lazy_dataclass import dataclass
from ..auth.rights import EVERYTHING, Demand, Demands, ItemDemand, Right
from ..node import Node
from .long_answers import Piece
from .policy_facts import FACTS
from .reply import Caller, Reply


class Answer(NamedTuple):
    """The body of a successful answer, a JSON object, and the position that it is true of if that is known."""

    body: bytes
    position: ResultPosition | None = None


class LongAnswer(NamedTuple):
    """The body of a successful answer that may be long, in pieces (long_answers.py), and its position."""

    pieces: list[Piece]
    position: ResultPosition


Body: TypeAlias = dict[str, Any]
Handler: TypeAlias = Callable[[Node, Body, Reply], None]
"""Validates a request and replies, now or from a callback; or raises a RequestError before it returns."""
AsyncHandler: TypeAlias = Callable[[Node, Body, Caller], Coroutine[Any, Any, Answer | LongAnswer | Body]]
"""Returns the answer, or raises a RequestError. A dict is an answer without a position."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of the API.

    Attributes:
        name: The name behind the prefix in X-Amz-Target.
        handler: Answers requests.
        demands: Returns the rights that a request needs.
        right: The right on its table, if it is the only one that a request needs, and the request one on items.
        is_eager: Whether a coroutine takes its first step in the turn of the request, so that the fair scheduler counts
            its time; such a step must not use `asyncio.timeout` or another function that needs a task.
    """

    name: str
    handler: Handler | AsyncHandler
    demands: Demands
    is_eager: bool = False
    right: Right | None = None

    @property
    def is_async(self) -> bool:
        """Whether the handler is a coroutine function."""
        return inspect.iscoroutinefunction(self.handler)


Declare: TypeAlias = Callable[[Handler | AsyncHandler], Operation]


def operation(
    name: str, right: Right | Demands, *, member: str = "TableName", eager: bool = False
) -> Declare:
    """Declare an operation of DynamoDB.

    It needs `right` on the table in `member`, or the rights that a function returns. With Right.NONE every key may use
    it.
    """
    action, facts = f"dynamodb:{name}", FACTS.get(name)

    def table_demands(body: Body) -> Iterable[Demand]:
        return () if right is Right.NONE else ((action, cast(Right, right), body[member]),)

    def item_demands(body: Body) -> Iterable[Demand]:
        assert facts is not None, "the operation is one on items"
        index = body.get("IndexName")
        return (ItemDemand(action, cast(Right, right), body["TableName"], body, facts, index),)

    def declare(handler: Handler | AsyncHandler) -> Operation:
        if not isinstance(right, Right):
            return Operation(name, handler, right, eager)
        if facts is None:
            return Operation(name, handler, table_demands, eager)
        return Operation(name, handler, item_demands, eager, right)

    return declare


def admin_operation(name: str, right: Right | Demands, *, resource: str | None = EVERYTHING) -> Declare:
    """Declare an operation of foldb's own.

    It needs `right` on all tables or on another `resource`, or the rights that a function returns.
    """
    action = f"foldb:{name}"

    def resource_demands(_: Body) -> Iterable[Demand]:
        return ((action, cast(Right, right), resource),)

    def declare(handler: Handler | AsyncHandler) -> Operation:
        return Operation(name, handler, resource_demands if isinstance(right, Right) else right)

    return declare
