"""Dead letters are delivered again, one at a time, those of a key in their order, or dropped.

A letter is removed when its change is handled. The first of a key that fails again keeps those behind it where they
are; other keys go on. What is edited meanwhile is delivered as it is then, what is dropped is not, and what follows a
letter into the table meanwhile is delivered too.
"""

from pathlib import Path
from typing import Any, Final

from ...model.errors import FoldbError, RequestError, ValidationError
from ...model.subscriptions import Subscription, milliseconds
from ...model.values import Item
from ...streams.formats.table_view import Delivery
from ...streams.sinks.sink import Batch, Failure, PartialFailure, Sink, Success
from .context import SubscriptionContext
from .dead_letters import UNREADABLE, DeadLetterTable, Place, attempts_of, delivery_of
from .runner import sink_of, view_at

MARK: Final = "~retry"
"""Who delivers letters is called as the subscription and this, which no subscription's name has in it."""

_OF_WINDOWS: Final = (
    "Letters of a tumbling window cannot be delivered again, because its state is over: `foldb trigger replay {name}` "
    "counts the windows anew, `foldb dlq drop {name}` removes the letters"
)


class Redelivery:
    """Letters of one subscription on their way again.

    Attributes:
        depth: How many triggers led to the letter that is under way.
    """

    def __init__(self, node: SubscriptionContext, subscription: Subscription, scratch: Path) -> None:
        self.depth = 0
        self._node = node
        self._subscription = subscription
        self._scratch = scratch
        self._table = _table(node, subscription)

    async def run(self, key: str | None, limit: int | None) -> dict[str, Any]:
        """Deliver letters: of one key or of all, and no more than `limit`.

        Raises:
            ValidationError: What is to be called cannot be started, or is called with windows.
        """
        if milliseconds(self._subscription.settings["TumblingWindowInSeconds"]):
            raise ValidationError(_OF_WINDOWS.format(name=self._subscription.name))
        if not await self._table.places(key):
            return {"Delivered": 0, "Failed": 0, "Left": 0}
        subscription = self._subscription
        name = subscription.name
        sink = sink_of(self._node, self._scratch, name, subscription.settings, f"{name}{MARK}")
        try:
            await _start(sink)
            delivered, failed = await self._deliver(sink, key, limit)
        finally:
            await sink.close()
        return {"Delivered": delivered, "Failed": failed, "Left": len(await self._table.places(key))}

    async def _deliver(self, sink: Sink, key: str | None, limit: int | None) -> tuple[int, int]:
        """Deliver until nothing is left that may be: how many letters were, and how many keys failed."""
        delivered = 0
        stuck: set[str] = set()
        while places := [place for place in await self._table.places(key) if place[0] not in stuck]:
            for place in places:
                if delivered == limit:
                    return delivered, len(stuck)
                if place[0] in stuck:
                    continue
                is_handled = await self._bring_to_end(sink, place)
                if is_handled:
                    delivered += 1
                elif is_handled is not None:
                    stuck.add(place[0])
        return delivered, len(stuck)

    async def _bring_to_end(self, sink: Sink, place: Place) -> bool | None:
        """Deliver a letter as often as it is edited meanwhile: whether it was handled; None if somebody dropped it."""
        while (letter := await self._table.at(place)) is not None:
            error, traceback = await self._call(sink, letter)
            if error is None:
                if await self._table.drop(place, letter):
                    return True
            elif await self._table.failed_again(letter, error, traceback, self._node.clock()):
                return False
        return None

    async def _call(self, sink: Sink, letter: Item) -> tuple[str | None, str | None]:
        """Deliver one; what went wrong, and its traceback."""
        try:
            delivery = _delivery(self._node, letter)
        except UNREADABLE as error:
            return f"the payload cannot be read: {error!r}", None
        self.depth = delivery.change.context.depth
        replay = self._subscription.settings["Replay"]
        batch = Batch(self._subscription.name, [delivery], 0, attempts_of(letter) + 1, replay)
        try:
            verdict = await sink.deliver(batch)
        except Exception as error:  # as in a lane: whatever a sink raises is a failure of this call
            return f"{type(error).__name__}: {error}", None
        if isinstance(verdict, Success):
            return None, None
        if isinstance(verdict, Failure | PartialFailure):
            return verdict.error, verdict.traceback
        return verdict.reason, None


async def drop(node: SubscriptionContext, subscription: Subscription, key: str | None) -> dict[str, Any]:
    """Remove the letters of one key, or all."""
    table = _table(node, subscription)
    places = await table.places(key)
    for place in reversed(places):  # the last first: while one is there, its key's later changes follow it
        await table.drop(place)
    return {"Dropped": len(places)}


def _table(node: SubscriptionContext, subscription: Subscription) -> DeadLetterTable:
    return DeadLetterTable(node, subscription.settings["DeadLetterTable"], subscription.name)


async def _start(sink: Sink) -> None:
    try:
        await sink.start()
    except (FoldbError, OSError) as error:
        raise ValidationError(f"No letter was delivered: {error}") from error


def _delivery(node: SubscriptionContext, letter: Item) -> Delivery:
    name = letter["payload"]["M"]["table"]["S"]
    try:
        table = node.table_in_any_status(name)
    except RequestError as error:
        raise ValueError(str(error)) from None
    stream = table.definition.stream
    label = stream.created_ms if stream is not None and stream.enabled else 0
    return delivery_of(letter, view_at(node, table.definition.id, label))
