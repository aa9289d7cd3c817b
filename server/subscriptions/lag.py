"""How far behind a subscription is: by what the catalog says, or by more than that where it runs here."""

import asyncio
from collections.abc import Mapping
from typing import Final

from ...materializer.feed_requests import FedPartition, FindNumber, Number
from ...model.subscriptions import Subscription
from ...model.subscriptions.subscription import Checkpoints
from ...streams.delivery.dispatcher import END_REACHED, TABLES_DELETED, Dispatcher
from ...streams.delivery.source import remaining_range
from .async_partition import counted, fed
from .context import SubscriptionContext
from .runner import RunningSubscription

_LOOK_S: Final = 0.02
_STILL_S: Final = 0.25


async def measure(
    node: SubscriptionContext, running: Mapping[str, RunningSubscription], subscription: Subscription
) -> dict[str, dict[str, int]]:
    """Of each partition how many changes are not handled, filtered or not, and how long ago the oldest was made."""
    if is_finished(subscription):
        return {str(number): {"Records": 0, "Milliseconds": 0} for number in node.partitions_of_feed()}
    here, own = _here(running, subscription), marks(running, subscription)
    found: dict[str, dict[str, int]] = {}
    for number, partition in node.partitions_of_feed().items():
        read_range = remaining_range(subscription, number)
        after = own.get(number, read_range.after)
        records, oldest = 0, node.clock()
        for table in subscription.table_ids:
            count = await counted(partition, table, after)
            records += count.changes
            if not read_range.skips_trimmed and await _begins_after(node, partition, table, after):
                records += 1  # at least: what the feed does not keep is counted by nobody
            if count.changes and count.oldest_ms is not None:
                oldest = min(oldest, count.oldest_ms)
        if not records and here is not None and here.holds(number):
            records = 1  # at least, and of a table that is gone by now
        found[str(number)] = {"Records": records, "Milliseconds": max(0, node.clock() - oldest)}
    return found


def is_finished(subscription: Subscription) -> bool:
    """Whether it has delivered all that it ever will: what is written now is none of its."""
    return subscription.status == "STOPPED" and subscription.reason in (END_REACHED, TABLES_DELETED)


async def _begins_after(node: SubscriptionContext, partition: FedPartition, table: int, after: int) -> bool:
    """Whether the feed keeps only what comes later than right behind a number; of a table that is gone, nothing."""
    return table in node.state.tables and await trim_horizon(partition, table) > after


async def trim_horizon(partition: FedPartition, table: int) -> int:
    """The number behind which the feed keeps all of a table's changes."""
    found = await fed(partition, FindNumber(table, 0))
    assert isinstance(found, Number), "a number was asked for"
    return found.trim_horizon


async def reach(
    node: SubscriptionContext,
    running: Mapping[str, RunningSubscription],
    subscription: Subscription,
    numbers: Mapping[int, int],
) -> bool:
    """Wait until all up to these numbers is handled, wherever it runs, or until it is to run no more.

    False if it was so already.
    """
    had_to_wait = False
    while True:
        here = _here(running, subscription)
        if here is not None:
            handled = here.metrics.handled
            reaching = node.loop.create_task(here.reach(numbers))
            try:
                while not reaching.done() and _here(running, subscription) is here:
                    await asyncio.wait((reaching,), timeout=_STILL_S)
            finally:
                is_there = reaching.done()
                reaching.cancel()
            if is_there:
                reaching.result()
                return had_to_wait or here.metrics.handled > handled
        elif await is_reached(node, subscription, numbers):
            return had_to_wait
        else:
            await asyncio.sleep(_LOOK_S)
        had_to_wait = True
        subscription = node.subscription(subscription.name)
        if subscription.status != "ACTIVE":
            return had_to_wait


async def is_reached(
    node: SubscriptionContext, subscription: Subscription, numbers: Mapping[int, int]
) -> bool:
    """Whether all up to these numbers is handled, by what the catalog says."""
    for number, partition in node.partitions_of_feed().items():
        read_range = remaining_range(subscription, number)
        after = subscription.checkpoints.get(number, read_range.after)
        if after >= numbers[number]:
            continue
        for table in subscription.table_ids:
            if (await counted(partition, table, after, numbers[number])).changes:
                return False
            if not read_range.skips_trimmed and await _begins_after(node, partition, table, after):
                return False
    return True


def marks(running: Mapping[str, RunningSubscription], subscription: Subscription) -> Checkpoints:
    """How far it is: by what the catalog says, or by more than that."""
    here = _here(running, subscription)
    return subscription.checkpoints if here is None else {**subscription.checkpoints, **here.checkpoints()}


def _here(running: Mapping[str, RunningSubscription], subscription: Subscription) -> Dispatcher | None:
    """What runs it, if that is here."""
    found = running.get(subscription.name)
    return found.dispatcher if found is not None and found.is_as(subscription) else None
