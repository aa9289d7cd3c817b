"""The subscriptions that run on this node.

    catalog's subscriptions ──► ACTIVE, and this node leads their home partition ──► running here

The runner compares the catalog with what runs, and starts and stops dispatchers until both agree.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

from ...log.commands import SubscriptionOperation, new_context
from ...model.errors import RequestError, ResourceInUseError
from ...model.subscriptions import Subscription
from ...streams.delivery.delivery_policy import MAX_DEPTH
from ...streams.delivery.dispatcher import TABLES_DELETED
from ...streams.temp_dirs import make_temp_dir
from .context import SubscriptionContext
from .definitions import define
from .lag_throttle import LagThrottle
from .redelivery import RETRY_SUFFIX, Redelivery
from .running_subscription import RunningSubscription

_POLL_S: Final = 0.5
_LANE: Final = re.compile("[0-9]{1,4}")
_CONTEXT: Final = new_context("triggers", source="trigger")

OnRunning: TypeAlias = Callable[[Callable[[bytes], int] | None], None]

logger = logging.getLogger(__name__)


class SubscriptionRunner:
    """Starts and stops subscriptions, so that those run here that the catalog assigns to this node.

    Attributes:
        running: The subscriptions that run here, by name.
    """

    def __init__(self, node: SubscriptionContext) -> None:
        """Nothing runs before `start`."""
        self.running: dict[str, RunningSubscription] = {}
        self._on_running: OnRunning = lambda _: None
        self._node = node
        self._is_serving = False
        self._throttle = LagThrottle(node, self.running)
        self._reconciling: asyncio.Task[None] | None = None
        self._is_outdated = False
        self._stopping: set[str] = set()
        self._halts: dict[str, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._start_errors: dict[str, str] = {}  # by name, until the subscription runs
        self._redeliveries: dict[str, Redelivery] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._scratch: tuple[Path, Callable[[], None]] | None = None

    @property
    def scratch(self) -> Path:
        """The folder of temporary files, which `stop` removes."""
        if self._scratch is None:
            self._scratch = make_temp_dir()
        folder, _ = self._scratch
        return folder

    def start(self, on_running: OnRunning) -> None:
        """Begin to run subscriptions: the node answers requests.

        `on_running` receives `depth` while a subscription runs here, and None while none runs.
        """
        self._on_running = on_running
        self._is_serving = self._node.settings.runs_triggers
        self.reconcile()
        if self._is_serving:
            self._poll()

    async def stop(self) -> None:
        """Stop all subscriptions. Their handled changes are in checkpoints when this returns."""
        self._is_serving = False
        self._throttle.stop()
        if self._timer is not None:
            self._timer.cancel()
        self.reconcile()
        while tasks := [*self._ending, *filter(None, (self._reconciling,))]:
            await asyncio.wait(tasks)
        if self._scratch is not None:
            _, remove = self._scratch
            self._scratch = None
            remove()

    def reconcile(self) -> None:
        """Start and stop subscriptions in a task, because the catalog or a partition's leader has changed."""
        if self._is_serving:
            self._throttle.start()
        self._is_outdated = True
        if self._reconciling is None:
            self._reconciling = self._node.loop.create_task(self._reconcile())

    async def halt(self, name: str) -> None:
        """Stop a subscription if it runs, and wait until it has stopped.

        Its calls count as those of a running subscription until then.
        """
        if name in self.running:
            if name not in self._halts:
                self._halts[name] = self._node.loop.create_task(self._end(name))
            await asyncio.shield(self._halts[name])

    @asynccontextmanager
    async def halted(self, name: str) -> AsyncIterator[None]:
        """Keep a subscription stopped within the block, after all Stop commands under way."""
        self._stopping.add(name)
        try:
            await self.halt(name)
            while self._ending:  # a Stop that is under way must not reach the next subscription of that name
                await asyncio.wait(self._ending)
            self._stopping.add(name)
            yield
        finally:
            self._stopping.discard(name)
            self.reconcile()

    async def redeliver(
        self, subscription: Subscription, key: str | None, limit: int | None
    ) -> dict[str, Any]:
        """Deliver dead letters again: of one key or of all, at most `limit`.

        Raises:
            ResourceInUseError: Dead letters of the subscription are being delivered already.
        """
        name = subscription.name
        if name in self._redeliveries:
            raise ResourceInUseError(f"The dead letters of {name} are being delivered already")
        redelivery = self._redeliveries[name] = Redelivery(self._node, subscription, self.scratch)
        self._report_running()
        try:
            return await redelivery.run(key, limit)
        finally:
            del self._redeliveries[name]
            self._report_running()

    def leads(self, subscription: Subscription) -> bool:
        """Return whether this node leads the subscription's home partition, and runs it while it is ACTIVE."""
        partitions = self._node.partitions
        hosted = partitions.hosted.get(subscription.home(partitions.count))
        return hosted is not None and hosted.leading

    def figures(self) -> dict[str, dict[str, Any]]:
        """Return the metrics of the subscriptions that run here, by name."""
        return {name: running.figures() for name, running in self.running.items()}

    def start_error(self, name: str) -> str | None:
        """Return why a subscription that should run here does not, if its last start failed."""
        return self._start_errors.get(name)

    def depth(self, agent: bytes) -> int:
        """Return how many triggers led to a request with this user agent; 0 if no subscription here sent it."""
        _, found, rest = agent.partition(b"app/foldb.")
        if not found:
            return 0
        caller, _, lane = rest.split(b" ", 1)[0].decode("latin-1").rpartition(".")
        redelivery = (
            self._redeliveries.get(caller.removesuffix(RETRY_SUFFIX))
            if caller.endswith(RETRY_SUFFIX)
            else None
        )
        if redelivery is not None:  # a dead letter of a loop keeps its depth, and the loop is not restarted
            return min(redelivery.depth + 1, MAX_DEPTH)
        running = self.running.get(caller)
        return 0 if running is None or not _LANE.fullmatch(lane) else running.dispatcher.depth(int(lane)) + 1

    def _poll(self) -> None:
        """Reconcile regularly: on a shared log other nodes define subscriptions, and leaders and files change."""
        subscriptions = self._node.state.subscriptions
        is_shared = self._node.settings.log is not None
        is_incomplete = self._start_errors or any(map(self._is_orphaned, subscriptions.values()))
        if (is_shared and (subscriptions or self.running)) or is_incomplete:
            self.reconcile()
        self._timer = self._node.loop.call_later(_POLL_S, self._poll)

    async def _reconcile(self) -> None:
        try:
            while self._is_outdated:
                self._is_outdated = False
                wanted = self._wanted()
                over = [
                    name
                    for name, running in self.running.items()
                    if name not in wanted or not running.is_as(wanted[name])
                ]
                await asyncio.gather(*(self.halt(name) for name in over))
                for name in self._start_errors.keys() - wanted.keys():
                    del self._start_errors[name]
                for name in self._wanted():  # read again: the stop may have appended a checkpoint
                    if name not in self.running:
                        self._run(self._node.state.subscriptions[name])
                self._report_running()
                for subscription in filter(self._is_orphaned, [*self._node.state.subscriptions.values()]):
                    self._halt_and_define("Remove", subscription, {})
        finally:
            self._reconciling = None

    def _report_running(self) -> None:
        self._on_running(self.depth if self.running or self._redeliveries else None)

    def _wanted(self) -> dict[str, Subscription]:
        return {
            name: subscription
            for name, subscription in self._node.state.subscriptions.items()
            if self._is_serving
            and subscription.status == "ACTIVE"
            and name not in self._stopping
            and self.leads(subscription)
        }

    def _is_orphaned(self, subscription: Subscription) -> bool:
        """Return whether this node has to remove a Kinesis destination whose table was deleted.

        Changes written before the deletion are sent first, unless the destination is disabled. A destination that
        stopped for another reason stays.
        """
        [table, *_] = subscription.table_ids
        return (
            self._is_serving
            and subscription.name not in self._stopping
            and table not in self._node.state.tables
            and subscription.settings["Sink"]["Kind"] == "kinesis"
            and subscription.name.startswith(destination_prefix(table))
            and (subscription.status == "PAUSED" or subscription.reason == TABLES_DELETED)
            and self.leads(subscription)
        )

    def _run(self, subscription: Subscription) -> None:
        name = subscription.name
        try:
            running = RunningSubscription(self._node, subscription, self.scratch, self._on_end)
        except (
            Exception
        ) as error:  # valid when it was created, or with other server options, but not here and now
            if self._start_errors.get(name) != str(error):
                logger.error("subscription %s cannot run here: %s", name, error)
            self._start_errors[name] = str(error)
            return
        self._start_errors.pop(name, None)
        self.running[name] = running
        running.dispatcher.start()

    async def _end(self, name: str) -> None:
        try:
            await self.running[name].dispatcher.stop()
        except (
            Exception,
            asyncio.CancelledError,
        ):  # a failing sink must not keep other subscriptions from running
            logger.exception("subscription %s: the dispatcher failed to stop; it counts as stopped", name)
        finally:
            del self.running[name], self._halts[name]

    def _on_end(self, running: RunningSubscription, reason: str) -> None:
        """Append the stop of a subscription whose dispatcher has ended by itself."""
        request = {"Reason": reason, "Epoch": running.subscription.epoch}
        self._halt_and_define("Stop", running.subscription, request)

    def _halt_and_define(
        self, operation: SubscriptionOperation, subscription: Subscription, request: Mapping[str, Any]
    ) -> None:
        """Halt a subscription and append the operation, in a task."""
        name = subscription.name

        async def run() -> None:
            await self.halt(name)
            try:
                await define(self._node, operation, name, request, _CONTEXT)
            except (
                RequestError
            ) as error:  # the subscription may be removed by now; else the next leader repeats this
                logger.warning("subscription %s: cannot append %s to the log: %s", name, operation, error)
            finally:
                self._stopping.discard(name)
                self.reconcile()

        self._stopping.add(name)
        task = self._node.loop.create_task(run())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


def destination_prefix(table: int) -> str:
    """Return the prefix of the names of a table's Kinesis destinations, which are subscriptions."""
    return f"kinesis-{table}-"
