"""Waiting until subscriptions have handled every change, and every change that handling wrote.

    ends of all partitions ──► each active subscription reaches them ──► again, until no subscription had to catch up

A write of a trigger is in the log before the change that caused it counts as handled, so the next pass includes it.
A chain of triggers has at most MAX_DEPTH links, so clients that keep writing cannot prolong the wait.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from ...model.errors import ResourceNotFoundError, ValidationError
from ...streams.delivery.delivery_policy import MAX_DEPTH
from ...streams.delivery.dispatcher import Dispatcher
from . import lag
from .async_partition import end_sequence_numbers
from .context import SubscriptionContext
from .reconciler import TriggerReconciler
from .running_subscription import RunningSubscription

_LINE: Final = "\n"


async def wait_for_triggers(
    node: SubscriptionContext,
    running: Mapping[str, RunningSubscription],
    reconciler: TriggerReconciler | None,
    timeout_ms: int,
) -> dict[str, Any]:
    """Wait at most `timeout_ms` until all subscriptions, those just declared in files included, have caught up.

    Raises:
        ValidationError: Subscriptions are behind, or the declarations of a file are unknown. The message names them.
    """
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            for _ in range(MAX_DEPTH + 1):
                if reconciler is not None:
                    await reconciler.reconcile()
                had_to_wait = await _pass(node, running)
                if not (had_to_wait or (reconciler is not None and reconciler.has_to_wait)):
                    break
    except TimeoutError:
        behind = await _behind(node, running, "ACTIVE")
        raise _incomplete(f"triggers are not done within {timeout_ms:,} ms", behind) from None
    if reconciler is not None and reconciler.unknown:
        raise _incomplete("files of triggers cannot be loaded", reconciler.unknown)
    if behind := await _behind(node, running, "PAUSED", "STOPPED"):
        raise _incomplete("subscriptions that do not run are behind", behind)
    return {"Subscriptions": len(node.state.subscriptions)}


async def _pass(node: SubscriptionContext, running: Mapping[str, RunningSubscription]) -> bool:
    """Wait until all changes written by now are handled. Return whether a subscription had to catch up."""
    active = [each for each in node.state.subscriptions.values() if each.status == "ACTIVE"]
    if not active:
        return False
    ends = await end_sequence_numbers(node.partitions_of_feed(), active[0].table_ids[0])
    waits = [asyncio.ensure_future(lag.reach(node, running, each, ends)) for each in active]
    try:
        results = await asyncio.gather(*waits, return_exceptions=True)
    finally:
        for wait in waits:
            wait.cancel()
    for result in results:
        is_removed = isinstance(result, ResourceNotFoundError)
        if isinstance(result, BaseException) and not is_removed:
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
            blocked, error = _reasons(None if here is None else here.dispatcher)
            found.append(f"{name} is {subscription.status}{blocked}, {changes} behind{error}")
    return found


def _reasons(dispatcher: Dispatcher | None) -> tuple[str, str]:
    """Return why a subscription is blocked and its last error, each empty if this node does not know it."""
    if dispatcher is None:
        return "", ""
    if dispatcher.blocked:
        return f" and blocked ({dispatcher.blocked[0].partition(_LINE)[0]})", ""
    return "", f" (last error: {dispatcher.metrics.error})" if dispatcher.metrics.error else ""


def _incomplete(problem: str, behind: list[str]) -> ValidationError:
    return ValidationError(f"{problem}: {'; '.join(behind) or 'all have caught up by now'}")
