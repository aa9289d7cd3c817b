"""Waiting until subscriptions have handled everything, and everything that handling it made.

    ends of all partitions now ──► each active subscription gets there ──► again, until nobody had to wait

What a trigger writes while it handles a change stands in the log before that change counts as handled, so it is before
the ends that are looked at next. No chain of triggers is longer than MAX_DEPTH, so others who go on writing cannot
keep this from coming to an end.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from ...model.errors import ResourceNotFoundError, ValidationError
from ...streams.delivery.delivery_policy import MAX_DEPTH
from ...streams.delivery.dispatcher import Dispatcher
from . import lag
from .async_partition import ends
from .context import SubscriptionContext
from .reconciler import TriggerReconciler
from .runner import RunningSubscription

_LINE: Final = "\n"


async def settle(
    node: SubscriptionContext,
    running: Mapping[str, RunningSubscription],
    declared: TriggerReconciler | None,
    timeout_ms: int,
) -> dict[str, Any]:
    """Wait so long at most, also for what files declare by now.

    Raises:
        ValidationError: Some are not there, or nobody knows what a file declares: they are named.
    """
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            for _ in range(MAX_DEPTH + 1):
                if declared is not None:
                    await declared.look()
                had_to_wait = await _pass(node, running)
                if not (had_to_wait or (declared is not None and declared.has_to_wait)):
                    break
    except TimeoutError:
        behind = await _behind(node, running, "ACTIVE")
        raise _not_settled(f"not settled within {timeout_ms:,} ms", behind) from None
    if declared is not None and declared.unknown:
        raise _not_settled("what cannot be loaded cannot settle", declared.unknown)
    if behind := await _behind(node, running, "PAUSED", "STOPPED"):
        raise _not_settled("what does not run cannot settle", behind)
    return {"Subscriptions": len(node.state.subscriptions)}


async def _pass(node: SubscriptionContext, running: Mapping[str, RunningSubscription]) -> bool:
    """Wait until what is written now is handled; True if somebody had to."""
    active = [each for each in node.state.subscriptions.values() if each.status == "ACTIVE"]
    if not active:
        return False
    now = await ends(node.partitions_of_feed(), active[0].table_ids[0])
    waits = [asyncio.ensure_future(lag.reach(node, running, each, now)) for each in active]
    try:
        results = await asyncio.gather(*waits, return_exceptions=True)
    finally:
        for wait in waits:
            wait.cancel()
    for result in results:
        if isinstance(result, BaseException) and not isinstance(
            result, ResourceNotFoundError
        ):  # removed since
            raise result
    return any(result is True for result in results)


async def _behind(
    node: SubscriptionContext, running: Mapping[str, RunningSubscription], *statuses: str
) -> list[str]:
    found = []
    for name, subscription in sorted(node.state.subscriptions.items()):
        if subscription.status not in statuses:
            continue
        lags = await lag.measure(node, running, subscription)
        records = sum(each["Records"] for each in lags.values())
        if records:
            here = running.get(name)
            changes = "1 change" if records == 1 else f"{records:,} changes"
            blocked, error = _why(None if here is None else here.dispatcher)
            found.append(f"{name} is {subscription.status}{blocked}, {changes} behind{error}")
    return found


def _why(dispatcher: Dispatcher | None) -> tuple[str, str]:
    """What keeps it from going on, and what it failed with, if that is known here."""
    if dispatcher is None:
        return "", ""
    if dispatcher.blocked:
        return f" and blocked ({dispatcher.blocked[0].partition(_LINE)[0]})", ""
    return "", f" (last error: {dispatcher.metrics.error})" if dispatcher.metrics.error else ""


def _not_settled(what: str, behind: list[str]) -> ValidationError:
    return ValidationError(f"{what}: {'; '.join(behind) or 'all are there by now'}")
