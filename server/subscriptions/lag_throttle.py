"""The MaximumLag of subscriptions: past it, writes to their tables are refused with a ThrottlingException.

Each node measures the lag of such subscriptions twice a second, and refuses the writes that it receives for their
tables. `ThrottledPartition` does that; this module decides which tables it refuses.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from ...model.errors import RequestError
from . import lag
from .context import SubscriptionContext
from .running_subscription import RunningSubscription

_POLL_S: Final = 0.5


class LagThrottle:
    """Measures the lag of all subscriptions that have a MaximumLag, and throttles their tables."""

    def __init__(self, node: SubscriptionContext, running: Mapping[str, RunningSubscription]) -> None:
        self._node = node
        self._running = running
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to measure if a subscription has a MaximumLag. The task ends when none has one."""
        if self._task is None and self._limits():
            self._task = self._node.loop.create_task(self._poll())

    def stop(self) -> None:
        """Accept all writes from now on."""
        if self._task is not None:
            self._task.cancel()

    def _limits(self) -> dict[str, int]:
        return {
            name: subscription.settings["MaximumLag"]
            for name, subscription in self._node.state.subscriptions.items()
            if subscription.settings["MaximumLag"] is not None and subscription.status == "ACTIVE"
        }

    async def _poll(self) -> None:
        try:
            while limits := self._limits():
                self._node.partition.throttle(await self._behind(limits))
                await asyncio.sleep(_POLL_S)
        finally:
            self._node.partition.throttle({})
            self._task = None

    async def _behind(self, limits: dict[str, int]) -> dict[int, str]:
        """Return the tables of the subscriptions past their limit, each with the subscription's name."""
        found: dict[int, str] = {}
        for name, limit in limits.items():
            subscription = self._node.state.subscriptions.get(name)
            if subscription is None:
                continue
            try:
                lags = await lag.measure(self._node, self._running, subscription)
            except RequestError:
                continue  # a partition is moving to another node: until it has arrived, no write is refused for it
            if sum(each["Records"] for each in lags.values()) > limit:
                found.update(dict.fromkeys(subscription.table_ids, name))
        return found
