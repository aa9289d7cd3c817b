"""Replays: a subscription like the first, with a Start, an End and `Replay`, delivers changes again.

The first subscription continues beside it, with its own checkpoints. A dry run reads and filters the same changes and
loads the function, but calls no target. A target with effects outside the database is called only if the request has
SideEffects: a mail that is sent twice cannot be taken back. A function sees `replay` in each change, so it is called.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from ...materializer.feed_requests import LONGEST_WAIT_MS
from ...materializer.fold.outcomes import Change
from ...model.errors import ValidationError
from ...model.sequence_numbers import number_texts
from ...model.subscriptions import Subscription
from ...model.subscriptions.settings import check
from ...streams.delivery.delivery_policy import DeliveryPolicy
from ...streams.delivery.filter import ChangeFilter
from ...streams.delivery.source import ChangeConsumer, ChangeSource, ReadRange, TableReader, remaining_range
from ...streams.formats.table_view import Delivery
from ...streams.sinks import sink_kind
from ...streams.workers.worker_pool import LoadError
from .async_partition import end_sequence_numbers
from .context import SubscriptionContext
from .running_subscription import key_at, sink_of, view_at

_OWN: Final = ("Start", "End", "Replay", "DeadLetterTable", "MaximumLag", "DeclaredIn", "Filter")
_COUNT_SUFFIX: Final = "~count"


async def replay_of(
    node: SubscriptionContext,
    subscription: Subscription,
    begin: Mapping[str, Any],
    end: Mapping[str, Any] | None,
    key: dict[str, Any] | None,
) -> tuple[str, dict[str, Any]]:
    """Return the name and the settings of a replay."""
    settings = {name: value for name, value in subscription.settings.items() if name not in _OWN}
    settings["Start"] = {"At": "TIME" if "Time" in begin else "NUMBERS", **begin}
    if end is None:
        ends = await end_sequence_numbers(node.partitions_of_feed(), subscription.table_ids[0])
        end = {"Numbers": number_texts(ends)}
    settings |= {"End": dict(end), "Replay": True, "Filter": _only(subscription.settings["Filter"], key)}
    return _name(node, subscription), settings


def check_effects(subscription: Subscription) -> None:
    """Check that a replay has no effects outside the database.

    Raises:
        ValidationError: The sink has such effects.
    """
    sink = subscription.settings["Sink"]
    if sink_kind(sink).acts_outside:
        raise ValidationError(
            f"{subscription.name} is a {sink['Kind']} trigger: a replay would repeat its effects outside the database. "
            "Nothing was called. To call it again, give SideEffects (`foldb trigger replay --side-effects`)"
        )


def _name(node: SubscriptionContext, subscription: Subscription) -> str:
    nth = 1
    while (name := f"{subscription.name[:110]}.replay-{nth}") in node.state.subscriptions:
        nth += 1
    return name


def _only(given: Mapping[str, Any] | None, key: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the filter, narrowed to the item with this key (its attributes in DynamoDB JSON)."""
    if key is None:
        return None if given is None else dict(given)
    tests, names, values = [], {}, {}
    for nth, (attribute, value) in enumerate(key.items()):
        tests.append(f"(NEW.#replayed{nth} = :replayed{nth} OR OLD.#replayed{nth} = :replayed{nth})")
        names[f"#replayed{nth}"] = attribute
        values[f":replayed{nth}"] = value
    if given is not None:
        tests.append(f"({given['Expression']})")
        names |= given.get("ExpressionAttributeNames", {})
        values |= given.get("ExpressionAttributeValues", {})
    return {
        "Expression": " AND ".join(tests),
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values,
    }


def _until(read_range: ReadRange, end: int) -> ReadRange:
    """Return the range up to `end` at most: a count does not wait for later changes."""
    return replace(read_range, until=end if read_range.until is None else min(end, read_range.until))


async def count(
    node: SubscriptionContext, subscription: Subscription, name: str, settings: dict[str, Any], scratch: Path
) -> dict[str, Any]:
    """Count the changes, keys and calls of a replay, and return whether its calls have side effects.

    Calls are calls of a function, or requests, where each takes one change. With batches the count is a lower bound:
    a batch that has waited for long enough is delivered before it is full.

    Raises:
        ValidationError: The function cannot be loaded.
    """
    subscription = replace(subscription, settings=check(name, settings), checkpoints={})
    is_single = await _is_single(node, scratch, name, subscription.settings)
    passes, policy = ChangeFilter(subscription.settings).chooses, DeliveryPolicy.of(subscription.settings)
    keys: set[tuple[int, bytes, bytes]] = set()
    lanes = Counter[tuple[int, int]]()

    def take(source: ChangeSource, page: Sequence[Change]) -> None:
        for change in page:
            if passes(Delivery(change, source.partition, view_at(node, change.table, change.stream))):
                lanes[source.partition, policy.lane_of(change.pk)] += 1
                keys.add((change.table, change.pk, change.sk))

    def exists(table: int) -> bool:
        return table in node.state.tables

    async def room() -> None:
        """Return at once: a count buffers nothing."""

    ends = await end_sequence_numbers(node.partitions_of_feed(), subscription.table_ids[0])
    sources = [
        ChangeSource(
            partition_id,
            table,
            _until(remaining_range(subscription, partition_id), ends[partition_id]),
            TableReader(
                partial(node.peers.__getitem__, partition_id),
                partial(key_at, node, table),
                partial(exists, table),
                node.clock,
            ),
            ChangeConsumer(take, room, lambda: LONGEST_WAIT_MS, lambda _: None),
        )
        for partition_id in node.partitions_of_feed()
        for table in subscription.table_ids
    ]
    await asyncio.gather(*(source.run() for source in sources))
    batch = 1 if is_single else policy.batch
    calls = sum(-(-changes // batch) for changes in lanes.values())
    acts_outside = sink_kind(subscription.settings["Sink"]).acts_outside
    return {"Changes": lanes.total(), "Keys": len(keys), "Calls": calls, "SideEffects": acts_outside}


async def _is_single(
    node: SubscriptionContext, scratch: Path, name: str, settings: Mapping[str, Any]
) -> bool:
    """Return whether each change is a call of its own. For a function this requires loading its code."""
    if not node.settings.runs_triggers or not sink_kind(settings["Sink"]).may_be_single:
        return False
    sink = sink_of(node, scratch, name, settings, f"{name}{_COUNT_SUFFIX}")
    try:
        await sink.start()
        return sink.is_single
    except LoadError as error:
        raise ValidationError(str(error)) from None
    finally:
        await sink.close()
