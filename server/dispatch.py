"""From the name of an operation to the function that does it.

    X-Amz-Target ──► route ──► JSON ──► the service model's checks ──► handler(node, body, reply)

A handler either answers, or raises a RequestError, or keeps the reply for later. Anything else that it raises
is a bug: the caller learns no more than that, and the log of the process learns the rest.
"""

import logging

from ..model import service
from ..model.errors import InternalServerError, RequestError, UnknownOperationError
from .admin import ADMIN
from .node import Handler, Node
from .operations import OPERATIONS
from .reply import Reply
from .strict import parse

API = "DynamoDB_20120810."
ADMIN_API = "Foldb_20261121."

logger = logging.getLogger(__name__)


def dispatch(node: Node, target: bytes, data: bytes, reply: Reply) -> None:
    """Do what `target` names with the request in `data`; `reply` is used exactly once, perhaps later."""
    try:
        route = _ROUTES.get(target)
        if route is None:
            raise UnknownOperationError
        name, handler = route
        body = parse(data)
        if name is not None:
            service.validate(name, body)
        handler(node, body, reply)
    except RequestError as error:
        reply.error(error)
    except Exception:
        logger.exception("request %s (%s) failed", reply.request_id, target.decode("latin-1"))
        reply.error(InternalServerError())


# Our own operations are in no service model: they check for themselves.
_ROUTES: dict[bytes, tuple[str | None, Handler]] = {
    **{(API + name).encode(): (name, handler) for name, handler in OPERATIONS.items()},
    **{(ADMIN_API + name).encode(): (None, handler) for name, handler in ADMIN.items()},
}
