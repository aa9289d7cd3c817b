"""Where a subscription goes on that is to read other tables.

    tables that stay    up to here all of theirs is handled ──┐
    tables that come    nothing of theirs is before this      ├──► the lowest of these, in each partition
    tables made anew    nothing of theirs is before this    ──┘

A subscription reads all its tables from one place. So what stays loses nothing, and what of it is delivered again is
what was handled since another table came.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ...materializer.feed_requests import FedPartition, FindNumber, Number
from ...model.subscriptions import Subscription
from ...streams.delivery.source import remaining_range
from . import lag
from .async_partition import counted, fed
from .context import SubscriptionContext
from .runner import RunningSubscription


@dataclass(frozen=True, slots=True)
class Retarget:
    """How the tables of a subscription change.

    Attributes:
        stays: The ids of those that it goes on reading.
        before: Of each partition a number before all that is wanted of those that come.
        anew_ms: When the first of those came that were deleted and made anew, by log time; None without such.
    """

    stays: Collection[int]
    before: Mapping[int, int]
    anew_ms: int | None = None


async def is_through(
    node: SubscriptionContext,
    running: Mapping[str, RunningSubscription],
    subscription: Subscription,
    tables: Collection[int],
) -> bool:
    """Whether all changes of these tables, which are gone, are handled."""
    if lag.is_finished(subscription):
        return True
    marks = lag.marks(running, subscription)
    for number, partition in node.partitions_of_feed().items():
        after = marks.get(number, remaining_range(subscription, number).after)
        if await _quiet_until(partition, tables, after) is None:
            return False
    return True


async def start_of(node: SubscriptionContext, subscription: Subscription, move: Retarget) -> dict[str, Any]:
    """The Start with which one that is like it, but for its tables, goes on where it is."""
    start: dict[str, Any] = subscription.settings["Start"]
    numbers: dict[str, str] = {}
    for number, partition in node.partitions_of_feed().items():
        read_range = remaining_range(subscription, number)
        if read_range.snapshot is not None:
            return start  # its marks count items: it begins the snapshot anew
        after = read_range.after
        if read_range.skips_trimmed:
            after = max(after, min([await lag.trim_horizon(partition, table) for table in move.stays]))
        quiet_until = await _quiet_until(partition, move.stays, after)
        places = [after if quiet_until is None else quiet_until]
        if number in move.before:
            places.append(move.before[number])
        if move.anew_ms is not None:
            places.append(max([await _before(partition, table, move.anew_ms) for table in move.stays]))
        numbers[str(number)] = str(min(places))
    # What is earlier than its time it passes over as before.
    return {**start, "Numbers": numbers} if start["At"] == "TIME" else {"At": "NUMBERS", "Numbers": numbers}


async def _quiet_until(partition: FedPartition, tables: Collection[int], after: int) -> int | None:
    """The number up to which the tables have no change behind `after`; None if they have one, or nobody knows."""
    ends = []
    for table in tables:
        count = await counted(partition, table, after)
        if count.changes or await lag.trim_horizon(partition, table) > after:
            return None
        ends.append(count.end)
    return min(ends)


async def _before(partition: FedPartition, table: int, time_ms: int) -> int:
    """A number that none has that was given at that log time or later, by a table which was watched by then."""
    found = await fed(partition, FindNumber(table, time_ms))
    assert isinstance(found, Number), "a number was asked for"
    # Of a table without changes the feed tells where it ends now.
    return found.after if (await counted(partition, table, 0)).changes else found.trim_horizon
