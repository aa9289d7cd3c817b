"""From the name of an operation to the function that does it.

    X-Amz-Target ──► route ──► JSON ──► the service model's checks ──► rights ──► handler(node, body, reply)

A handler either answers, or raises a RequestError, or keeps the reply for later. Anything else that it raises
is a bug: the caller learns no more than that, and the log of the process learns the rest.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from ...model import service
from ...model.errors import InternalServerError, RequestError, ResourceNotFoundError, UnknownOperationError
from ..auth.rights import DEMANDS, Demands, check, of_admin
from ..node import Handler, Node
from .admin import ADMIN
from .min_position import READS, reach
from .operations import OPERATIONS
from .operations.streams import STREAMS
from .reply import Reply
from .strict_json import parse

API = "DynamoDB_20120810."
STREAMS_API = "DynamoDBStreams_20120810."
ADMIN_API = "Foldb_20261121."

logger = logging.getLogger(__name__)


def dispatch(node: Node, target: bytes, data: bytes, reply: Reply) -> None:
    """Do what `target` names with the request in `data`; `reply` is used exactly once, perhaps later."""
    try:
        route = _ROUTES.get(target)
        if route is None:
            raise _unknown(target)
        name, handler, demands = route
        body = parse(data)
        if name is not None:
            service.validate(name, body)
        if reply.record is not None:
            reply.record.note(demands(body))
        if reply.bearer is not None:
            check(reply.bearer, demands(body))
        if reply.after is not None and name in READS:
            reach(node, reply.after.decode("latin-1"), reply, partial(_handle, node, handler, body, reply))
        else:
            handler(node, body, reply)
    except ResourceNotFoundError as error:
        _refuse(node, error, partial(_handle, node, handler, body, reply, caught_up=True), reply)
    except RequestError as error:
        reply.error(error)
    except Exception:
        _report(target, reply)


def _handle(
    node: Node, handler: Handler, body: dict[str, Any], reply: Reply, *, caught_up: bool = False
) -> None:
    """Do what had to wait."""
    try:
        handler(node, body, reply)
    except ResourceNotFoundError as error:
        again = partial(_handle, node, handler, body, reply, caught_up=True)
        _refuse(node, error, None if caught_up else again, reply)
    except RequestError as error:
        reply.error(error)
    except Exception:
        _report(handler.__name__.encode(), reply)


def _refuse(node: Node, error: ResourceNotFoundError, again: Callable[[], None] | None, reply: Reply) -> None:
    """Say that something is not there; where the catalog may be behind its log, only once it is not."""
    if node.router is None or again is None:
        reply.error(error)
    else:
        node.catch_up(again)


def _unknown(target: bytes) -> UnknownOperationError:
    """Return DynamoDB's error, which has no message, with one where DynamoDB has the operation and foldb has not."""
    name = target.decode("latin-1").partition(".")[2]
    if name not in service.ABSENT:
        return UnknownOperationError()
    return UnknownOperationError(f"foldb does not have the operation {name}: see docs/limitations.md")


def _report(what: bytes, reply: Reply) -> None:
    logger.exception("request %s (%s) failed", reply.request_id, what.decode("latin-1"))
    reply.error(InternalServerError())


# Our own operations are in no service model: they check for themselves.
_ROUTES: dict[bytes, tuple[str | None, Handler, Demands]] = {
    **{(API + name).encode(): (name, handler, DEMANDS[name]) for name, handler in OPERATIONS.items()},
    **{(STREAMS_API + name).encode(): (name, handler, DEMANDS[name]) for name, handler in STREAMS.items()},
    **{(ADMIN_API + name).encode(): (None, handler, of_admin(name)) for name, handler in ADMIN.items()},
}
