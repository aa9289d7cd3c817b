"""Dead letters are delivered again, one at a time, those of a key in their order, or dropped.

A letter is removed when its change is handled. The first of a key that fails again keeps those behind it where they
are; other keys go on.
"""

from typing import TYPE_CHECKING, Any

from ...model.errors import RequestError
from ...model.subscriptions import Subscription
from ...model.values import Item
from ...streams.formats.delivery import Delivery
from ...streams.sinks.sink import Batch, Failed, Handled, Partly, Sink
from .letters import LetterTable, delivery_of
from .running import sink_of, view_at

if TYPE_CHECKING:
    from ..node import Node


async def retry(
    node: "Node", subscription: Subscription, key: str | None, limit: int | None
) -> dict[str, Any]:
    """Deliver letters: of one key or of all, and no more than `limit`."""
    table = LetterTable(node, subscription.settings["DeadLetterTable"], subscription.name)
    letters = _in_order(await (table.all() if key is None else table.of_key(key)))
    if not letters:
        return {"Delivered": 0, "Failed": 0, "Left": 0}
    sink = sink_of(node, subscription.name, subscription.settings)
    await sink.start()
    try:
        return await _deliver(node, subscription, table, sink, letters, limit)
    finally:
        await sink.close()


async def drop(node: "Node", subscription: Subscription, key: str | None) -> dict[str, Any]:
    """Remove the letters of one key, or all."""
    table = LetterTable(node, subscription.settings["DeadLetterTable"], subscription.name)
    letters = await (table.all() if key is None else table.of_key(key))
    for letter in reversed(letters):  # the last first: while one is there, its key's later changes follow it
        await table.drop(letter)
    return {"Dropped": len(letters)}


async def _deliver(
    node: "Node",
    subscription: Subscription,
    table: LetterTable,
    sink: Sink,
    letters: list[Item],
    limit: int | None,
) -> dict[str, Any]:
    delivered = 0
    stuck: set[str] = set()
    for letter in letters:
        if delivered == limit:
            break
        key = letter["key"]["S"]
        if key in stuck:
            continue
        error, traceback = await _call(node, subscription, sink, letter)
        if error is None:
            await table.drop(letter)
            delivered += 1
        else:
            await table.failed_again(letter, error, traceback, node.clock())
            stuck.add(key)
    return {"Delivered": delivered, "Failed": len(stuck), "Left": len(letters) - delivered}


async def _call(
    node: "Node", subscription: Subscription, sink: Sink, letter: Item
) -> tuple[str | None, str | None]:
    """Deliver one; what went wrong, and its traceback."""
    try:
        delivery = _delivery(node, letter)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return f"the payload cannot be read: {error!r}", None
    attempt = int(letter["attempts"]["N"]) + 1
    batch = Batch(subscription.name, [delivery], 0, attempt, subscription.settings["Replay"])
    try:
        verdict = await sink.deliver(batch)
    except Exception as error:  # as in a lane: whatever a sink raises is a failure of this call
        return f"{type(error).__name__}: {error}", None
    if isinstance(verdict, Handled):
        return None, None
    if isinstance(verdict, Failed | Partly):
        return verdict.error, verdict.traceback
    return verdict.reason, None


def _delivery(node: "Node", letter: Item) -> Delivery:
    name = letter["payload"]["M"]["table"]["S"]
    try:
        table = node.table_in_any_status(name)
    except RequestError as error:
        raise ValueError(str(error)) from None
    stream = table.definition.stream
    label = stream.created_ms if stream is not None and stream.enabled else 0
    return delivery_of(letter, view_at(node, table.definition.id, label))


def _in_order(letters: list[Item]) -> list[Item]:
    return sorted(letters, key=lambda letter: (letter["key"]["S"], int(letter["number"]["S"])))
