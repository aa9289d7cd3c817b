"""Writes wait for a subscription that asks for that: past its MaximumLag they are refused with a ThrottlingException.

Each node looks at how far behind such subscriptions are, twice a second, and refuses what it is asked to write to their
tables. What triggers write themselves is let through, or a function that writes to its own table would wait for itself.
While nothing is past its bound writes go the way they always go.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from ...log.commands import Check, Command, Delete, Put, Transact, Update
from ...materializer.fold.outcomes import Failed, Outcome
from ...materializer.partition import Partition, Place
from ...model.errors import RequestError, ThrottlingError
from ..partitions.delegate import DelegatingPartition
from . import lag
from .context import SubscriptionContext
from .runner import RunningSubscription

_LOOK_S: Final = 0.5


class LagThrottle:
    """Looks after the bounds of all subscriptions that have one."""

    def __init__(self, node: SubscriptionContext, running: Mapping[str, RunningSubscription]) -> None:
        self._node = node
        self._running = running
        self._task: asyncio.Task[None] | None = None

    def look(self) -> None:
        """Subscriptions have changed: look at them if one has a bound."""
        if self._task is None and self._bounds():
            self._task = self._node.loop.create_task(self._watch())

    def stop(self) -> None:
        """Refuse nothing any more."""
        if self._task is not None:
            self._task.cancel()

    def _bounds(self) -> dict[str, int]:
        return {
            name: subscription.settings["MaximumLag"]
            for name, subscription in self._node.state.subscriptions.items()
            if subscription.settings["MaximumLag"] is not None and subscription.status == "ACTIVE"
        }

    async def _watch(self) -> None:
        partition = self._node.partition
        try:
            while bounds := self._bounds():
                behind = await self._behind(bounds)
                self._node.partition = _Throttled(self._node, partition, behind) if behind else partition
                await asyncio.sleep(_LOOK_S)
        finally:
            self._node.partition = partition
            self._task = None

    async def _behind(self, bounds: dict[str, int]) -> dict[int, str]:
        """The tables of those past their bound, and who that is."""
        found: dict[int, str] = {}
        for name, most in bounds.items():
            subscription = self._node.state.subscriptions.get(name)
            if subscription is None:
                continue
            try:
                lags = await lag.measure(self._node, self._running, subscription)
            except RequestError:
                continue  # a partition is on its way to another node: who it is asks nobody to wait
            if sum(each["Records"] for each in lags.values()) > most:
                found.update(dict.fromkeys(subscription.table_ids, name))
        return found


class _Throttled(DelegatingPartition):
    """A partition that takes no writes to some tables, but those of triggers."""

    def __init__(self, node: SubscriptionContext, partition: Partition, tables: dict[int, str]) -> None:
        super().__init__(partition)
        self._node = node
        self._tables = tables
        self.get_isolated = partition.get_isolated

    def submit(self, command: Command, size: int, done: Callable[[Outcome, Place], None]) -> None:
        """Pass the command on, unless it writes where somebody is too far behind."""
        name = self._waits_for(command)
        if name is None:
            self._partition.submit(command, size, done)
        else:
            error = ThrottlingError(
                f"The subscription {name} is further behind than its MaximumLag. Try again."
            )
            done(Failed(error), self._node.position)

    def _waits_for(self, command: Command) -> str | None:
        actions = command.actions if isinstance(command, Transact) else (command,)
        for action in actions:
            if isinstance(action, Check) or not isinstance(action, Put | Update | Delete):
                continue
            if action.table in self._tables and action.context.source != "trigger":
                return self._tables[action.table]
        return None
