"""Redelivery of dead letters, one at a time and in order within a key, and their removal.

A dead letter is removed when its change is handled. If the first of a key fails again, the later ones of that key stay
in the table; other keys continue. A dead letter that is edited during its delivery is delivered again in its new form.
A dropped one is not delivered, and one that is added during the redelivery is.
"""

from pathlib import Path
from typing import Any, Final

from ...model.errors import FoldbError, RequestError, ValidationError
from ...model.subscriptions import Subscription
from ...model.subscriptions.setting_types import milliseconds
from ...model.values import Item
from ...streams.formats.table_view import Delivery
from ...streams.sinks.sink import Batch, Failure, PartialFailure, Sink, Success
from .context import SubscriptionContext
from .dead_letters import UNREADABLE, DeadLetterKey, DeadLetterTable, attempts_of, delivery_of
from .running_subscription import sink_of, view_at

RETRY_SUFFIX: Final = "~retry"
"""The suffix of the caller's name during a redelivery. No subscription's name contains it."""

_TUMBLING_WINDOW: Final = (
    "Dead letters of a tumbling window cannot be delivered again, because its state is over: "
    "`foldb trigger replay {name}` counts the windows again, `foldb dlq drop {name}` removes the dead letters"
)


class Redelivery:
    """The redelivery of one subscription's dead letters.

    Attributes:
        depth: How many triggers led to the dead letter that is being delivered.
    """

    def __init__(self, node: SubscriptionContext, subscription: Subscription, scratch: Path) -> None:
        self.depth = 0
        self._node = node
        self._subscription = subscription
        self._scratch = scratch
        self._table = _table(node, subscription)

    async def run(self, key: str | None, limit: int | None) -> dict[str, Any]:
        """Deliver dead letters: of one key or of all, at most `limit`.

        Raises:
            ValidationError: The sink cannot be started, or the subscription has tumbling windows.
        """
        if milliseconds(self._subscription.settings["TumblingWindowInSeconds"]):
            raise ValidationError(_TUMBLING_WINDOW.format(name=self._subscription.name))
        if not await self._table.keys_in_order(key):
            return {"Delivered": 0, "Failed": 0, "Left": 0}
        subscription = self._subscription
        name = subscription.name
        sink = sink_of(self._node, self._scratch, name, subscription.settings, f"{name}{RETRY_SUFFIX}")
        try:
            await _start(sink)
            delivered, failed = await self._deliver(sink, key, limit)
        finally:
            await sink.close()
        return {"Delivered": delivered, "Failed": failed, "Left": len(await self._table.keys_in_order(key))}

    async def _deliver(self, sink: Sink, key: str | None, limit: int | None) -> tuple[int, int]:
        """Deliver until no dead letter is left to try. Return the counts of delivered ones and of failed keys."""
        delivered = 0
        failed: set[str] = set()
        while rest := [each for each in await self._table.keys_in_order(key) if each[0] not in failed]:
            for dead_letter_key in rest:
                if delivered == limit:
                    return delivered, len(failed)
                if dead_letter_key[0] in failed:
                    continue
                is_handled = await self._deliver_one(sink, dead_letter_key)
                if is_handled:
                    delivered += 1
                elif is_handled is not None:
                    failed.add(dead_letter_key[0])
        return delivered, len(failed)

    async def _deliver_one(self, sink: Sink, key: DeadLetterKey) -> bool | None:
        """Deliver a dead letter, again if it is edited during the call.

        Return whether it was handled; None if it was dropped by a client.
        """
        while (dead_letter := await self._table.at(key)) is not None:
            error, traceback = await self._call(sink, dead_letter)
            if error is None:
                if await self._table.drop(key, dead_letter):
                    return True
            elif await self._table.failed_again(dead_letter, error, traceback, self._node.clock()):
                return False
        return None

    async def _call(self, sink: Sink, dead_letter: Item) -> tuple[str | None, str | None]:
        """Deliver a dead letter once. Return the error and its traceback."""
        try:
            delivery = _delivery(self._node, dead_letter)
        except UNREADABLE as error:
            return f"the payload cannot be read: {error!r}", None
        self.depth = delivery.change.context.depth
        replay = self._subscription.settings["Replay"]
        batch = Batch(self._subscription.name, [delivery], 0, attempts_of(dead_letter) + 1, replay)
        try:
            result = await sink.deliver(batch)
        except Exception as error:  # as in a lane, any exception of a sink is a failure of this call
            return f"{type(error).__name__}: {error}", None
        if isinstance(result, Success):
            return None, None
        if isinstance(result, Failure | PartialFailure):
            return result.error, result.traceback
        return result.reason, None


async def drop(node: SubscriptionContext, subscription: Subscription, key: str | None) -> dict[str, Any]:
    """Remove the dead letters of one key, or all, without delivering them."""
    table = _table(node, subscription)
    keys = await table.keys_in_order(key)
    for each in reversed(keys):  # the last first: while a key has a dead letter, its later changes are added
        await table.drop(each)
    return {"Dropped": len(keys)}


def _table(node: SubscriptionContext, subscription: Subscription) -> DeadLetterTable:
    return DeadLetterTable(node, subscription.settings["DeadLetterTable"], subscription.name)


async def _start(sink: Sink) -> None:
    try:
        await sink.start()
    except (FoldbError, OSError) as error:
        raise ValidationError(f"No dead letter was delivered: {error}") from error


def _delivery(node: SubscriptionContext, dead_letter: Item) -> Delivery:
    name = dead_letter["payload"]["M"]["table"]["S"]
    try:
        table = node.table_in_any_status(name)
    except RequestError as error:
        raise ValueError(str(error)) from None
    stream = table.definition.stream
    label = stream.created_ms if stream is not None and stream.enabled else 0
    return delivery_of(dead_letter, view_at(node, table.definition.id, label))
