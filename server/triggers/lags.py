"""How far behind a subscription is: by what the catalog says, or by more than that where it runs here."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ...materializer.feed import FedPartition, FindNumber, Number
from ...model.subscriptions import Subscription
from ...streams.subscriptions.source import stretch_of
from .asking import counted, fed

if TYPE_CHECKING:
    from ..node import Node
    from .triggers import Triggers

_LOOK_S: Final = 0.02
_STILL_S: Final = 0.25


async def lag(triggers: "Triggers", node: "Node", subscription: Subscription) -> dict[str, dict[str, int]]:
    """Of each partition how many changes are not handled, filtered or not, and how long ago the oldest was made."""
    marks = _marks(triggers, subscription)
    found: dict[str, dict[str, int]] = {}
    for number, partition in node.partitions_of_feed().items():
        stretch = stretch_of(subscription, number)
        after = marks.get(number, stretch.after)
        records, oldest = 0, node.clock()
        for table in subscription.table_ids:
            count = await counted(node, partition, table, after)
            records += count.changes
            if not stretch.kept and await _begins_after(node, partition, table, after):
                records += 1  # at least: what the feed does not keep is counted by nobody
            if count.changes and count.oldest_ms is not None:
                oldest = min(oldest, count.oldest_ms)
        found[str(number)] = {"Records": records, "Milliseconds": max(0, node.clock() - oldest)}
    return found


async def _begins_after(node: "Node", partition: FedPartition, table: int, after: int) -> bool:
    """Whether the feed keeps only what comes later than right behind a number; of a table that is gone, nothing."""
    if table not in node.state.tables:
        return False
    found = await fed(node, partition, FindNumber(table, 0))
    assert isinstance(found, Number), "a number was asked for"
    return found.kept_after > after


async def reach(
    triggers: "Triggers", node: "Node", subscription: Subscription, numbers: Mapping[int, int]
) -> bool:
    """Wait until all up to these numbers is handled, wherever it runs; False if it was so already."""
    had_to_wait = False
    while True:
        running = triggers.running.get(subscription.name)
        if running is not None and running.is_as(subscription):
            handled = running.dispatcher.figures.handled
            reaching = node.loop.create_task(running.dispatcher.reach(numbers))
            try:
                while not reaching.done() and triggers.running.get(subscription.name) is running:
                    await asyncio.wait((reaching,), timeout=_STILL_S)
            finally:
                is_there = reaching.done()
                reaching.cancel()
            if is_there:
                reaching.result()
                return had_to_wait or running.dispatcher.figures.handled > handled
        elif await is_reached(node, subscription, numbers):
            return had_to_wait
        else:
            await asyncio.sleep(_LOOK_S)
        had_to_wait = True
        subscription = triggers.named(subscription.name)


async def is_reached(node: "Node", subscription: Subscription, numbers: Mapping[int, int]) -> bool:
    """Whether all up to these numbers is handled, by what the catalog says."""
    for number, partition in node.partitions_of_feed().items():
        stretch = stretch_of(subscription, number)
        after = subscription.marks.get(number, stretch.after)
        if after >= numbers[number]:
            continue
        for table in subscription.table_ids:
            if (await counted(node, partition, table, after, numbers[number])).changes:
                return False
            if not stretch.kept and await _begins_after(node, partition, table, after):
                return False
    return True


def _marks(triggers: "Triggers", subscription: Subscription) -> dict[int, int]:
    running = triggers.running.get(subscription.name)
    if running is None or not running.is_as(subscription):
        return subscription.marks
    return {**subscription.marks, **running.dispatcher.marks()}
