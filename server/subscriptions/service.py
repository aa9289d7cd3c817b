"""The operations on subscriptions, as the API calls them.

    request ──► validated ──► DefineSubscription in the log ──► the runner of the node that leads its home starts it

Every change is a command of the log first. This node may not be the one that runs the subscription.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...log.commands import Checkpoint, Context, SubscriptionOperation
from ...model.errors import ResourceInUseError, ResourceNotFoundError, ValidationError
from ...model.sequence_numbers import number_texts, parse_numbers
from ...model.subscriptions import Subscription
from ...model.subscriptions.setting_types import invalid
from ...model.subscriptions.settings import check, check_request
from ...streams.sinks import sink_kind
from ...streams.workers.code_folder import CodeFolder
from . import drain, lag, replays
from .async_partition import NO_TABLE, AsyncPartition, end_sequence_numbers
from .context import SubscriptionContext
from .dead_letters import DeadLetterTable
from .definitions import command_of, define
from .reconciler import TriggerReconciler
from .redelivery import drop
from .retarget import Retarget, start_of
from .runner import OnRunning, SubscriptionRunner
from .running_subscription import CHECKPOINT_BYTES, check_runnable

_DRAIN_S: Final = 50.0
_DISABLE_S: Final = 10.0


class SubscriptionService:
    """The subscriptions of a node: their operations, and the runner and the reconciler behind them.

    Every operation raises a RequestError if the subscription does not exist, or if the log refuses the change.

    Attributes:
        runner: Runs the subscriptions that this node leads.
        reconciler: Applies the declarations of the folder of triggers; None without a folder, and before `start`.
    """

    def __init__(self, node: SubscriptionContext) -> None:
        self.runner = SubscriptionRunner(node)
        self.reconciler: TriggerReconciler | None = None
        self._node = node

    def start(self, on_running: OnRunning) -> None:
        """Begin to run subscriptions and to apply declarations: the node answers requests.

        `on_running` receives the runner's `depth` while a subscription runs here, and None while none runs.
        """
        settings = self._node.settings
        self.runner.start(on_running)
        if settings.runs_triggers and settings.triggers is not None:
            folder = CodeFolder(settings.triggers, settings.trigger_user)
            self.reconciler = TriggerReconciler(
                self._node, self, self.runner.running, folder, self.runner.scratch
            )
            self.reconciler.start()

    async def stop(self) -> None:
        """Stop the reconciler and all subscriptions. Their handled changes are in checkpoints when this returns."""
        if self.reconciler is not None:
            await self.reconciler.stop()
        await self.runner.stop()

    async def create(self, name: str, settings: Mapping[str, Any], context: Context) -> dict[str, Any]:
        """Create a subscription. It receives every change that is written after this returns."""
        complete = check_request(name, settings)
        self._check_runnable(name, complete)
        for table in complete["TableNames"]:
            self._node.table_in_any_status(table)
        if name in self._node.state.subscriptions:
            raise ResourceInUseError(f"Subscription already exists: {name}")
        complete["Start"] = await self._resolved(complete["Start"], complete["TableNames"])
        await self._create_dead_letter_table(name, complete, context)
        subscription = await define(self._node, "Create", name, complete, context)
        if complete["Start"]["At"] == "NOW":
            checkpoints = sorted((await self._ends(subscription.table_ids[0])).items())
            command = Checkpoint(subscription.id, subscription.epoch, checkpoints, "", 0, 0)
            await AsyncPartition(self._node.partition).submit(command, CHECKPOINT_BYTES)
        self.runner.reconcile()
        return self._described(self._node.subscription(name))

    async def update(self, name: str, changes: Mapping[str, Any], context: Context) -> dict[str, Any]:
        """Change some settings of a subscription."""
        settings = check_request(name, {**self._node.subscription(name).settings, **changes})
        self._check_runnable(name, settings)
        await self._create_dead_letter_table(name, settings, context)
        return await self._define("Update", name, changes, context)

    async def retarget(
        self, name: str, settings: Mapping[str, Any], retarget: Retarget | None, context: Context
    ) -> dict[str, Any]:
        """Replace all settings of a subscription, its tables included.

        It continues from its checkpoints as `retarget` says, or without `retarget` begins at the Start of `settings`.
        """
        complete = check_request(name, settings)
        self._check_runnable(name, complete)
        await self._create_dead_letter_table(name, complete, context)
        running = self.runner.running.get(name)
        async with self.runner.halted(name):
            current = self._node.subscription(name)
            if running is not None and running.is_as(current):
                checkpoints = running.dispatcher.checkpoints()
                read = {partition_id: after for partition_id, after in checkpoints.items() if after}
                current = current.checkpointed(read, current.version, 0, 0)
            complete["Start"] = (
                await self._resolved(complete["Start"], complete["TableNames"])
                if retarget is None
                else await start_of(self._node, current, retarget)
            )
            await self._recreate(current, complete, context)
        return self._described(self._node.subscription(name))

    async def pause(
        self, name: str, context: Context, *, drain: bool = False, reason: str | None = None
    ) -> dict[str, Any]:
        """Deliver nothing until `resume`; with `drain`, deliver every change written before first."""
        subscription = self._node.subscription(name)
        if drain and subscription.status != "ACTIVE":
            raise ValidationError(
                f"{name} is {subscription.status} already, and its changes were not delivered: resume it, then drain it"
            )
        if drain:
            await self._drain(subscription, _DRAIN_S)
        return await self._define("Pause", name, {} if reason is None else {"Reason": reason}, context)

    async def disable(self, name: str, context: Context) -> dict[str, Any]:
        """Pause a Kinesis destination, after it has sent the changes written before if that takes at most 10 s."""
        with contextlib.suppress(ValidationError):  # unreachable brokers must not prevent the pause
            await self._drain(self._node.subscription(name), _DISABLE_S)
        return await self.pause(name, context, reason="disabled")

    async def resume(self, name: str, context: Context) -> dict[str, Any]:
        """Continue after a pause or a stop. A blocked subscription is restarted, and retries its blocking change."""
        running = self.runner.running.get(name)
        if running is not None and running.dispatcher.blocked:
            await self.runner.halt(name)
        return await self._define("Resume", name, {}, context)

    async def reset(self, name: str, start: Mapping[str, Any], context: Context) -> dict[str, Any]:
        """Continue from another position."""
        subscription = self._node.subscription(name)
        check(name, {**subscription.settings, "Start": start})
        resolved = await self._resolved(dict(start), [table for table, _ in subscription.tables])
        return await self._define("Reset", name, {"Start": resolved}, context)

    async def remove(self, name: str, context: Context) -> dict[str, Any]:
        """Remove a subscription. The table of its dead letters stays."""
        return await self._define("Remove", name, {}, context)

    async def replay(
        self,
        name: str,
        begin: Mapping[str, Any],
        end: Mapping[str, Any] | None,
        key: dict[str, Any] | None,
        *,
        dry_run: bool,
        side_effects: bool,
        context: Context,
    ) -> dict[str, Any]:
        """Deliver a range of changes again, or with `dry_run` count them.

        `begin` and `end` have a Time or Numbers. `key` limits the replay to one item.

        Raises:
            ValidationError: The sink has effects outside the database, and `side_effects` is false.
        """
        subscription = self._node.subscription(name)
        replay, settings = await replays.replay_of(self._node, subscription, begin, end, key)
        if dry_run:
            return await replays.count(self._node, subscription, replay, settings, self.runner.scratch)
        if not side_effects:
            replays.check_effects(subscription)
        await self.create(replay, settings, context)
        return {"Name": replay}

    async def retry(self, name: str, key: str | None, limit: int | None) -> dict[str, Any]:
        """Deliver at most `limit` dead letters again, those of a key in order. Each is removed when it is handled."""
        return await self.runner.redeliver(self._node.subscription(name), key, limit)

    async def drop(self, name: str, key: str | None) -> dict[str, Any]:
        """Remove dead letters without delivering them."""
        return await drop(self._node, self._node.subscription(name), key)

    async def describe(self, name: str) -> dict[str, Any]:
        """Return a subscription with its lag and, if it runs here, with its metrics."""
        subscription = self._node.subscription(name)
        running = self.runner.running.get(name)
        found = self._described(subscription)
        found["Subscription"] |= {
            "Lag": await lag.measure(self._node, self.runner.running, subscription),
            "RunsHere": running is not None,
            **({} if running is None else running.figures()),
        }
        return found

    def shown_sink(self, subscription: Subscription, *, to_reader: bool = False) -> dict[str, Any]:
        """Return the sink of a subscription without its secrets, or with `to_reader` as readers may see it."""
        sink = subscription.settings["Sink"]
        kind = sink_kind(sink)
        return kind.shown_to_readers(sink) if to_reader else kind.shown(sink)

    def list(self) -> dict[str, Any]:
        """Return all subscriptions as the catalog has them, by name."""
        subscriptions = sorted(self._node.state.subscriptions.items())
        return {"Subscriptions": [self._to_json(subscription) for _, subscription in subscriptions]}

    async def lag(self, name: str) -> dict[str, dict[str, int]]:
        """Return by partition how many changes a subscription has not handled, and how old the oldest is."""
        return await lag.measure(self._node, self.runner.running, self._node.subscription(name))

    async def wait_for_triggers(self, timeout_ms: int) -> dict[str, Any]:
        """Wait until subscriptions have handled all changes written before, and the changes that handling wrote."""
        return await drain.wait_for_triggers(self._node, self.runner.running, self.reconciler, timeout_ms)

    async def _define(
        self, operation: SubscriptionOperation, name: str, request: Mapping[str, Any], context: Context
    ) -> dict[str, Any]:
        subscription = await define(self._node, operation, name, request, context)
        self.runner.reconcile()
        return self._described(subscription)

    async def _recreate(self, current: Subscription, settings: Mapping[str, Any], context: Context) -> None:
        """Remove a subscription and create it again. Both are in one log entry: no reader sees it absent.

        Raises:
            ResourceNotFoundError: A table of `settings` is being deleted.
        """
        name = current.name
        for table in settings["TableNames"]:
            if self._node.table_in_any_status(table).definition.status == "DELETING":
                raise ResourceNotFoundError(f"Requested resource not found: Table: {table} not found")
        commands = [
            command_of(self._node, "Remove", name, {}, context),
            command_of(self._node, "Create", name, settings, context),
        ]
        if current.status == "PAUSED":
            reason = {} if current.reason is None else {"Reason": current.reason}
            commands.append(command_of(self._node, "Pause", name, reason, context))
        partition = AsyncPartition(self._node.partition)
        await asyncio.gather(*(partition.submit(command, len(command.request)) for command in commands))

    async def _create_dead_letter_table(
        self, name: str, settings: Mapping[str, Any], context: Context
    ) -> None:
        # With OnFailure "block" dead letters are rare, and a successful replay should leave nothing behind.
        if settings["OnFailure"] != "block" and not settings["Replay"]:
            await DeadLetterTable(self._node, settings["DeadLetterTable"], name).create(context)

    async def _drain(self, subscription: Subscription, seconds: float) -> None:
        """Wait until every change written by now is handled.

        Raises:
            ValidationError: The drain takes longer than `seconds`, or the subscription stops.
        """
        name = subscription.name
        ends = await self._ends(subscription.table_ids[0])
        try:
            async with asyncio.timeout(seconds):
                await lag.reach(self._node, self.runner.running, subscription, ends)
        except TimeoutError:
            raise ValidationError(
                f"{name} is not drained yet and continues to run: repeat the request, or pause it without Drain"
            ) from None
        status = self._node.subscription(name).status
        if status != "ACTIVE":
            raise ValidationError(f"{name} is {status} since the drain began: it was not drained")

    async def _resolved(self, start: dict[str, Any], tables: Sequence[str]) -> dict[str, Any]:
        """Return a Start with the current ends of the partitions, if it depends on them.

        Raises:
            ValidationError: A number of Start is beyond the end of the log: changes up to there would be skipped.
        """
        if "Numbers" in start:
            ends = await self._ends(NO_TABLE)
            for partition_id, after in parse_numbers(start["Numbers"]).items():
                if after > ends.get(partition_id, after):
                    raise invalid(f"Start, in partition {partition_id}, is beyond the end of the log")
            return start
        if start["At"] not in ("NOW", "SNAPSHOT"):
            return start
        ends = await self._ends(self._node.table_in_any_status(tables[0]).definition.id)
        return {**start, "Numbers": number_texts(ends)}

    async def _ends(self, table: int) -> dict[int, int]:
        return await end_sequence_numbers(self._node.partitions_of_feed(), table)

    def _check_runnable(self, name: str, settings: dict[str, Any]) -> None:
        check_runnable(self._node, self.runner.scratch, name, settings)

    def _described(self, subscription: Subscription) -> dict[str, Any]:
        return {"Subscription": self._to_json(subscription)}

    def _to_json(self, subscription: Subscription) -> dict[str, Any]:
        settings = subscription.settings
        return {
            "Name": subscription.name,
            "Status": subscription.status,
            "Reason": subscription.reason,
            "Settings": {**settings, "Sink": self.shown_sink(subscription)},
            "Epoch": subscription.epoch,
            "Checkpoints": number_texts(dict(sorted(subscription.checkpoints.items()))),
            "Version": subscription.version,
            "TotalHandled": subscription.handled,
            "TotalDead": subscription.dead,
            "Created": subscription.created_ms,
            "Changed": subscription.changed_ms,
            "LastError": self.runner.start_error(subscription.name),
        }
