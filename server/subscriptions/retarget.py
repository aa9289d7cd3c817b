"""Where a subscription continues when its tables change.

    tables that stay        all of their changes up to here are handled ──┐
    tables that are added   none of their changes is before this          ├──► the minimum, in each partition
    tables made again       none of their changes is before this        ──┘

A subscription reads all its tables from one position. So the tables that stay lose nothing, and of their changes those
are delivered again that were handled since another table was added.
"""

from collections.abc import Collection, Mapping
from typing import Any

from ...model.lazy_dataclass import dataclass
from ...model.sequence_numbers import SequenceNumbers, number_texts
from ...model.subscriptions import Subscription
from ...streams.delivery.source import remaining_range
from . import lag
from .async_partition import AsyncFeed
from .context import SubscriptionContext
from .running_subscription import RunningSubscription


@dataclass(frozen=True, slots=True)
class Retarget:
    """A change of a subscription's tables.

    Attributes:
        kept_tables: The ids of the tables that the subscription continues to read.
        before: By partition, a sequence number before all wanted changes of the added tables.
        recreated_ms: Log time at which the first of the tables was created that were deleted and created again; None
            without such a table.
    """

    kept_tables: Collection[int]
    before: Mapping[int, int]
    recreated_ms: int | None = None


async def is_through(
    node: SubscriptionContext,
    running: Mapping[str, RunningSubscription],
    subscription: Subscription,
    tables: Collection[int],
) -> bool:
    """Return whether a subscription has handled all changes of these deleted tables."""
    if lag.is_finished(subscription):
        return True
    checkpoints = lag.checkpoints(running, subscription)
    for partition_id, partition in node.partitions_of_feed().items():
        after = checkpoints.get(partition_id, remaining_range(subscription, partition_id).after)
        if await _quiet_until(AsyncFeed(partition), tables, after) is None:
            return False
    return True


async def start_of(
    node: SubscriptionContext, subscription: Subscription, retarget: Retarget
) -> dict[str, Any]:
    """Return the Start with which the same subscription on other tables continues."""
    start: dict[str, Any] = subscription.settings["Start"]
    numbers: SequenceNumbers = {}
    for partition_id, partition in node.partitions_of_feed().items():
        feed, read_range = AsyncFeed(partition), remaining_range(subscription, partition_id)
        if read_range.snapshot is not None:
            return start  # its checkpoints count items: it repeats the snapshot
        after = read_range.after
        if read_range.skips_trimmed:
            after = max(after, min([await feed.trim_horizon(table) for table in retarget.kept_tables]))
        quiet_until = await _quiet_until(feed, retarget.kept_tables, after)
        candidates = [after if quiet_until is None else quiet_until]
        if partition_id in retarget.before:
            candidates.append(retarget.before[partition_id])
        if retarget.recreated_ms is not None:
            candidates.append(
                max([await _before(feed, table, retarget.recreated_ms) for table in retarget.kept_tables])
            )
        numbers[partition_id] = min(candidates)
    # With a Start at a time, earlier changes are skipped as before.
    return (start if start["At"] == "TIME" else {"At": "NUMBERS"}) | {"Numbers": number_texts(numbers)}


async def _quiet_until(feed: AsyncFeed, tables: Collection[int], after: int) -> int | None:
    """Return the sequence number up to which the tables have no change behind `after`.

    None if they have a change there, or if the feed was trimmed beyond `after`.
    """
    ends = []
    for table in tables:
        count = await feed.count(table, after)
        if count.changes or await feed.trim_horizon(table) > after:
            return None
        ends.append(count.end)
    return min(ends)


async def _before(feed: AsyncFeed, table: int, time_ms: int) -> int:
    """Return a sequence number below all that were produced at that log time or later, by a table watched by then."""
    found = await feed.find(table, time_ms)
    # For a table without changes the feed returns its current end as `after`.
    return found.after if (await feed.count(table, 0)).changes else found.trim_horizon
