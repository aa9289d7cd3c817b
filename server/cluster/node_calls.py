"""Calls to a node itself, by name: its snapshots, the digests of its states, its part of a rebuild.

    Cluster.call(address, name, body) ──► CALL frame ──► the handler of that name on the other node ──► result

A node lists the names that it handles in its figures, so no node sends a call that an earlier release does not know.
"""

import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, TypeAlias

from ...model.errors import InternalServerError, RequestError, ServiceUnavailableError
from ..async_calls import call
from .codec import PlainValue
from .link import Answered, CallResult, Link
from .wire import CALL

logger = logging.getLogger(__name__)

NodeHandler: TypeAlias = Callable[[PlainValue], Awaitable[PlainValue]]
"""Handles a call. The body and the result are values that msgpack packs. It may raise a RequestError."""


class NodeHandlers:
    """The handlers of this node's calls.

    Attributes:
        handlers: The handlers by name. Services add theirs before the node joins its cluster.
    """

    def __init__(self, in_background: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        self.handlers: dict[str, NodeHandler] = {}
        self._in_background = in_background

    def call(self, name: str, body: PlainValue, done: Callable[[PlainValue | RequestError], None]) -> None:
        """Run a handler, and call `done` with its result."""
        self._in_background(self._run(name, body, done))

    async def _run(
        self, name: str, body: PlainValue, done: Callable[[PlainValue | RequestError], None]
    ) -> None:
        done(await self.result(name, body))

    async def result(self, name: str, body: PlainValue) -> PlainValue | RequestError:
        try:
            return await self.handlers[name](body)
        except RequestError as error:
            return error
        except Exception:
            logger.exception("the call %s of another node failed", name)
            return InternalServerError()


async def call_node(link: Link, name: str, body: Mapping[str, Any]) -> PlainValue:
    """Return the result of a call to another node.

    Raises:
        ServiceUnavailableError: The node did not answer in time.
        RequestError: The handler's error.
    """
    result: CallResult = await call(partial(link.call, CALL, 0, (name, dict(body))))
    if not isinstance(result, Answered):
        raise ServiceUnavailableError("The node did not answer in time")
    if isinstance(result.result, RequestError):
        raise result.result
    return result.result
