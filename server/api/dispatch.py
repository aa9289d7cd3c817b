"""Find the operation of a request, check its rights and call its handler.

    X-Amz-Target ──► route ──► JSON ──► the service model's checks ──► rights ──► handler(node, body, reply)

A handler replies, now or from a callback, or raises a RequestError. A coroutine handler returns its answer, and only
this module replies for it. Every other exception is a bug: the client receives an InternalServerError without
details, and the log of the process receives the traceback.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias, cast

import orjson

from ...model import service
from ...model.errors import (
    InternalServerError,
    RequestError,
    ResourceNotFoundError,
    SerializationError,
    UnknownOperationError,
    ValidationError,
)
from ...model.tables import name_of
from ...model.values import ITEM_TOO_LARGE, check_kinds
from ..async_calls import RefusedAtError
from ..auth.rights import (
    EVERYTHING,
    NODE,
    Bearer,
    Catalog,
    Demand,
    Demands,
    Right,
    check,
    check_history,
    has_right,
)
from ..database import Database
from ..node import Node
from ..usage.operations import OperationUsage
from . import as_of
from .admin import ADMIN
from .min_position import READS, reach
from .operation import Answer, AsyncHandler, Body, Handler, LongAnswer, Operation
from .operations import OPERATIONS
from .operations.streams import STREAMS
from .reasons import check_reason
from .reply import Reply
from .restores import latest_time
from .strict_json import parse

_SEVERAL: Final = {"BatchExecuteStatement": "Statements", "ExecuteTransaction": "TransactStatements"}
"""The operations on several statements, and the members of their requests that hold them."""
_LONG_BYTES: Final = 16 * 1024
"""The statements of a request with a larger body are parsed in portions."""

API: Final = "DynamoDB_20120810."
STREAMS_API: Final = "DynamoDBStreams_20120810."
ADMIN_API: Final = "Foldb_20261121."

Route: TypeAlias = tuple[str | None, Handler, Demands, Right | None]
"""The name of an operation in the service model, or None; its handler; its demands; its `Operation.right`."""

logger = logging.getLogger(__name__)


def dispatch(
    node: Node,
    target: bytes,
    data: bytes,
    reply: Reply,
    validated: Body | None = None,
    *,
    caught_up: bool = False,
) -> None:
    """Handle the request in `data` for the operation `target`; `reply` is used exactly once, now or later.

    `validated` is its body, if an earlier turn has read it. `caught_up` says that the catalog has folded its log since.
    """
    try:
        route = _ROUTES.get(target) or _first_route(target)
        if route is None:
            raise fault_before_signature(target, data) or _unknown(target)
        name, handler, demands, right = route
        if validated is not None:
            body = validated
        else:
            body = parse(data)
            if name is not None:
                try:
                    service.validate(name, body)
                except ValidationError:
                    past = as_of.past_request(name, body, latest_time(node))
                    if past is None:
                        raise
                    _dispatch_past(node, route, past, body, reply)
                    return
            if len(data) > _LONG_BYTES and name in _SEVERAL:
                from .parsed_statements import portions

                # Before the rights, which are those of the parsed statements.
                proceed = partial(dispatch, node, target, data, reply, body)
                node.partitions.long_reads.add(portions(body[_SEVERAL[name]], proceed))
                return
        if name is not None:
            usage = node.metrics.operations.get((name, body.get("TableName", "")))
            reply.usage = usage or _usage_of(node, name, body.get("TableName", ""))
        if reply.record is not None:
            reply.record.note(demands(body))
        bearer = reply.bearer
        if bearer and not (right and has_right(bearer, right, body["TableName"], node.state)):
            if node.router is not None and not caught_up and _lacks_table(node, demands(body)):
                node.catch_up(partial(dispatch, node, target, data, reply, body, caught_up=True))
                return
            if not _is_admitted(node, check, demands(body), reply):
                return
        if reply.reason is not None:
            check_reason(reply.reason, node.state.level)
        if reply.after is not None and name in READS:
            reach(node, reply.after.decode("latin-1"), reply, partial(_handle, node, handler, body, reply))
        else:
            handler(node, body, reply)
    except ResourceNotFoundError as not_found:
        _refuse(node, not_found, partial(_handle, node, handler, body, reply, caught_up=True), reply)
    except ValidationError as invalid:
        reply.error(_fault_of_values(route, body, invalid) or invalid)
    except RequestError as error:
        reply.error(error)
    except Exception:
        _report(target, reply)


def _usage_of(node: Node, operation: str, table: str) -> OperationUsage:
    """Return the counters of a request; those of a table that does not exist are those of no table."""
    if table not in node.state.names:  # an ARN, or no table
        table = name_of(table)
    return node.metrics.operations[operation, table if table in node.state.names else ""]


def fault_before_signature(target: bytes, data: bytes) -> RequestError | None:
    """Return the error that DynamoDB reports before a missing signature: of the body, then of the operation."""
    try:
        if data:
            parse(data)
    except SerializationError as error:
        return error
    return None if _ROUTES.get(target) or _first_route(target) else _unknown(target)


def _fault_of_values(route: Route | None, body: Body, error: ValidationError) -> SerializationError | None:
    """Return the error for a value of the wrong JSON type in a refused request: DynamoDB reports it first.

    The values of a request that is too large stay unexamined.
    """
    if route is None or route[0] is None or error.message == ITEM_TOO_LARGE:
        return None
    try:
        for value in service.attribute_values(route[0], body):
            check_kinds(value)
    except SerializationError as fault:
        return fault
    return None


def _dispatch_past(node: Node, route: Route, past: as_of.PastRequest, body: Body, reply: Reply) -> None:
    """Handle a request whose tables are named with a cut, which the service model does not know."""
    name, _, demands, _ = route
    assert name is not None, "the service model has the operation"
    as_of.rename(body, past.present)
    service.validate(name, body)
    if reply.bearer is None or node.router is None or not _lacks_table(node, demands(body)):
        _open_past(node, route, past, body, reply)
        return

    def on_caught_up() -> None:
        try:
            _open_past(node, route, past, body, reply)
        except RequestError as error:
            reply.error(error)
        except Exception:
            _report(name.encode(), reply)

    node.catch_up(on_caught_up)


def _open_past(node: Node, route: Route, past: as_of.PastRequest, body: Body, reply: Reply) -> None:
    """Check the rights of a read of the past, and handle it."""
    name, handler, demands, _ = route
    assert name is not None, "the service model has the operation"
    if reply.bearer is not None and not _is_admitted(node, check_history, demands(body), reply):
        return
    as_of.rename(body, past.past)
    if reply.record is not None:
        reply.record.note(demands(body))

    def handle(database: Database) -> None:
        # The handlers of reads take a Database, not a Node.
        _handle(cast(Node, database), handler, body, reply, caught_up=True)

    begin = partial(as_of.open_past, node, past, name, reply, handle)
    if reply.after is not None and name in READS:
        reach(node, reply.after.decode("latin-1"), reply, begin)
    else:
        begin()


def _lacks_table(node: Node, demanded: Iterable[Demand]) -> bool:
    """Return whether the catalog, which may be behind its log, lacks a table, whose policy it would not know."""
    named = [demand[2] for demand in demanded]
    return any(
        table is not NODE and table != EVERYTHING and node.state.table_named(name_of(table)) is None
        for table in named
    )


def _is_admitted(
    node: Node,
    check_rights: Callable[[Bearer, Iterable[Demand], Catalog], None],
    demanded: Iterable[Demand],
    reply: Reply,
) -> bool:
    """Check the rights of a request, and reply with the error if they are missing.

    The error of a missing table must not reach the retry of the handler, which checks no rights.
    """
    assert reply.bearer is not None, "the request is signed"
    try:
        check_rights(reply.bearer, demanded, node.state)
    except RequestError as error:
        reply.error(error)
        return False
    return True


def _handle(node: Node, handler: Handler, body: Body, reply: Reply, *, caught_up: bool = False) -> None:
    """Call a handler that had to wait for a position or for the catalog."""
    try:
        handler(node, body, reply)
    except ResourceNotFoundError as not_found:
        retry = partial(_handle, node, handler, body, reply, caught_up=True)
        _refuse(node, not_found, None if caught_up else retry, reply)
    except RequestError as error:
        reply.error(error)
    except Exception:
        _report(handler.__name__.encode(), reply)


def _refuse(node: Node, error: ResourceNotFoundError, retry: Callable[[], None] | None, reply: Reply) -> None:
    """Reply with the error; where the catalog may be behind its log, retry once it has caught up."""
    if retry is None or node.router is None:
        reply.error(error)
    else:
        node.catch_up(retry)


def _unknown(target: bytes) -> UnknownOperationError:
    """Return DynamoDB's error, which has no message, or one with a message if only DynamoDB has the operation."""
    name = target.decode("latin-1").partition(".")[2]
    if name not in service.ABSENT:
        return UnknownOperationError()
    return UnknownOperationError(f"foldb does not have the operation {name}: see docs/limitations.md")


def _report(name: bytes, reply: Reply) -> None:
    logger.exception(
        "request %s: %s failed; the client receives InternalServerError",
        reply.request_id,
        name.decode("latin-1"),
    )
    reply.error(InternalServerError())


# Coroutine handlers

_tasks: set[asyncio.Task[None]] = set()  # the event loop keeps only weak references to tasks


def _callback_handler(operation: Operation) -> Handler:
    """Return a handler that runs the operation's coroutine handler in a task."""
    handler = cast(AsyncHandler, operation.handler)

    def handle(node: Node, body: Body, reply: Reply) -> None:
        work = _answer(operation.name, handler, node, body, reply)
        if operation.is_eager:
            try:
                awaited = work.send(None)
            except StopIteration:
                return
            work = _rest(work, awaited)
        task = node.loop.create_task(work)
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)

    return handle


async def _answer(name: str, handler: AsyncHandler, node: Node, body: Body, reply: Reply) -> None:
    try:
        try:
            answer = await handler(node, body, reply)
        except ResourceNotFoundError:
            if node.router is None:
                raise
            await node.caught_up()
            answer = await handler(node, body, reply)
        if isinstance(answer, dict):
            answer = Answer(orjson.dumps(answer))
    except RefusedAtError as refused:
        reply.error(refused.error, refused.position)
    except RequestError as error:
        reply.error(error)
    except Exception:
        _report(name.encode(), reply)
    else:
        if isinstance(answer, LongAnswer):
            reply.ok_pieces(answer.pieces, answer.position)
        else:
            reply.ok(answer.body, answer.position)


class _Rest:
    """The steps of a coroutine after its first, which returned `awaited`."""

    def __init__(self, work: Coroutine[Any, Any, None], awaited: Any) -> None:
        self._work = work
        self._awaited = awaited

    def __await__(self) -> Generator[Any, Any, None]:
        awaited = self._awaited
        while True:
            try:
                sent = yield awaited
            except BaseException as error:
                step = partial(self._work.throw, error)
            else:
                step = partial(self._work.send, sent)
            try:
                awaited = step()
            except StopIteration:
                return


async def _rest(work: Coroutine[Any, Any, None], awaited: Any) -> None:
    await _Rest(work, awaited)


# foldb's own operations are in no service model: they validate their requests themselves.
_APIS: dict[str, Mapping[str, Operation]] = {API: OPERATIONS, STREAMS_API: STREAMS, ADMIN_API: ADMIN}

_ROUTES: dict[bytes, Route] = {}
"""The routes of the operations that were requested before."""


def _first_route(target: bytes) -> Route | None:
    """Import the operation at its first request. Return its route, or None for an unknown target."""
    api, dot, name = target.decode("latin-1").partition(".")
    operations = _APIS.get(api + dot)
    if operations is None or name not in operations:
        return None
    operation = operations[name]
    route: Route = (
        None if operations is ADMIN else name,
        _callback_handler(operation) if operation.is_async else cast(Handler, operation.handler),
        operation.demands,
        operation.right,
    )
    _ROUTES[target] = route
    return route
