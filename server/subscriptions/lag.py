"""How far a subscription is behind, by its checkpoints in the catalog or, where it runs, by its dispatcher's."""

import asyncio
from collections.abc import Mapping
from typing import Final

from ...model.subscriptions import Subscription
from ...model.subscriptions.subscription import Checkpoints
from ...streams.delivery.dispatcher import END_REACHED, TABLES_DELETED, Dispatcher
from ...streams.delivery.source import remaining_range
from .async_partition import AsyncFeed
from .context import SubscriptionContext
from .running_subscription import RunningSubscription

_POLL_S: Final = 0.02
_CHECK_S: Final = 0.25


async def measure(
    node: SubscriptionContext, running: Mapping[str, RunningSubscription], subscription: Subscription
) -> dict[str, dict[str, int]]:
    """Return by partition the number of unhandled changes, filtered or not, and the age of the oldest."""
    if is_finished(subscription):
        return {str(each): {"Records": 0, "Milliseconds": 0} for each in node.partitions_of_feed()}
    here, own = _dispatcher(running, subscription), checkpoints(running, subscription)
    found: dict[str, dict[str, int]] = {}
    for partition_id, partition in node.partitions_of_feed().items():
        feed, read_range = AsyncFeed(partition), remaining_range(subscription, partition_id)
        after = own.get(partition_id, read_range.after)
        records, oldest = 0, node.clock()
        for table in subscription.table_ids:
            count = await feed.count(table, after)
            records += count.changes
            if not read_range.skips_trimmed and await _is_trimmed(node, feed, table, after):
                records += 1  # a lower bound: changes that the feed does not keep are not counted
            if count.changes and count.oldest_ms is not None:
                oldest = min(oldest, count.oldest_ms)
        if not records and here is not None and here.holds(partition_id):
            records = 1  # a lower bound, for a change of a table that is deleted by now
        found[str(partition_id)] = {"Records": records, "Milliseconds": max(0, node.clock() - oldest)}
    return found


def is_finished(subscription: Subscription) -> bool:
    """Return whether a subscription has delivered its last change: it receives none that is written from now on."""
    return subscription.status == "STOPPED" and subscription.reason in (END_REACHED, TABLES_DELETED)


async def _is_trimmed(node: SubscriptionContext, feed: AsyncFeed, table: int, after: int) -> bool:
    """Return whether the feed lacks changes right behind `after`; False for a deleted table."""
    return table in node.state.tables and await feed.trim_horizon(table) > after


async def reach(
    node: SubscriptionContext,
    running: Mapping[str, RunningSubscription],
    subscription: Subscription,
    ends: Mapping[int, int],
) -> bool:
    """Wait until a subscription has handled all changes up to `ends` on any node, or is not ACTIVE.

    Return False if it had handled them before.
    """
    had_to_wait = False
    while True:
        here = _dispatcher(running, subscription)
        if here is not None:
            handled = here.metrics.handled
            reaching = node.loop.create_task(here.reach(ends))
            try:
                while not reaching.done() and _dispatcher(running, subscription) is here:
                    await asyncio.wait((reaching,), timeout=_CHECK_S)
            finally:
                is_reached_here = reaching.done()
                reaching.cancel()
            if is_reached_here:
                reaching.result()
                return had_to_wait or here.metrics.handled > handled
        elif await is_reached(node, subscription, ends):
            return had_to_wait
        else:
            await asyncio.sleep(_POLL_S)
        had_to_wait = True
        subscription = node.subscription(subscription.name)
        if subscription.status != "ACTIVE":
            return had_to_wait


async def is_reached(node: SubscriptionContext, subscription: Subscription, ends: Mapping[int, int]) -> bool:
    """Return whether all changes up to `ends` are handled, by the checkpoints in the catalog."""
    for partition_id, partition in node.partitions_of_feed().items():
        feed, read_range = AsyncFeed(partition), remaining_range(subscription, partition_id)
        after = subscription.checkpoints.get(partition_id, read_range.after)
        if after >= ends[partition_id]:
            continue
        for table in subscription.table_ids:
            if (await feed.count(table, after, ends[partition_id])).changes:
                return False
            if not read_range.skips_trimmed and await _is_trimmed(node, feed, table, after):
                return False
    return True


def checkpoints(running: Mapping[str, RunningSubscription], subscription: Subscription) -> Checkpoints:
    """Return the checkpoints of the catalog, with the later ones of the dispatcher where the subscription runs here."""
    here = _dispatcher(running, subscription)
    return subscription.checkpoints if here is None else {**subscription.checkpoints, **here.checkpoints()}


def _dispatcher(running: Mapping[str, RunningSubscription], subscription: Subscription) -> Dispatcher | None:
    """Return the dispatcher that runs a subscription here, if there is one."""
    found = running.get(subscription.name)
    return found.dispatcher if found is not None and found.is_as(subscription) else None
