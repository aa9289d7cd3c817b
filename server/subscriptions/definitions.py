"""Changes of subscriptions as commands of the log.

    request ──► validated ──► DefineSubscription in the log ──► catalog ──► the node that leads the home runs it

The service appends the commands that clients request; the runner appends Stop and Remove.
"""

import asyncio
import uuid
from collections.abc import Mapping
from typing import Any, Final

import orjson

from ...log.commands import Context, DefineSubscription, SubscriptionOperation
from ...materializer.fold.outcomes import Subscribed
from ...model.errors import ServiceUnavailableError
from ...model.subscriptions import Subscription
from .async_partition import AsyncPartition
from .context import SubscriptionContext

_ATTEMPTS: Final = 100
_RETRY_S: Final = 0.05


async def define(
    node: SubscriptionContext,
    operation: SubscriptionOperation,
    name: str,
    request: Mapping[str, Any],
    context: Context,
) -> Subscription:
    """Append a change of a subscription, and return the subscription after it.

    Raises:
        RequestError: The fold refuses the change, or its outcome is unknown.
    """
    command = command_of(node, operation, name, request, context)
    for attempt in range(_ATTEMPTS):  # the owner raises a log of an older level within a moment
        try:
            outcome = await AsyncPartition(node.partition).submit(command, len(command.request))
            break
        except ServiceUnavailableError:
            if attempt == _ATTEMPTS - 1:
                raise
            await asyncio.sleep(_RETRY_S)
    assert isinstance(outcome, Subscribed), "a command about a subscription has no other outcome"
    return outcome.subscription


def command_of(
    node: SubscriptionContext,
    operation: SubscriptionOperation,
    name: str,
    request: Mapping[str, Any],
    context: Context,
) -> DefineSubscription:
    """Return the command of a change, with a new random id."""
    data = orjson.dumps(request, option=orjson.OPT_SORT_KEYS)
    drawn = str(uuid.UUID(bytes=node.random_bytes(16), version=4))
    return DefineSubscription(operation, name, data, drawn, context)
