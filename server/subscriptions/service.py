"""Which subscriptions this node runs, and what can be done about them.

    catalog's subscriptions ──► ACTIVE, and this node leads their home ──► running here
    request ──► checked ──► DefineSubscription in the log ──► looked at again

What is asked for is a command first: whoever leads the home sees it in the catalog and does it, this node or another.
"""

import asyncio
import contextlib
import logging
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from ...log.commands import Checkpoint, Context, DefineSubscription, SubscriptionOperation
from ...materializer.fold.outcomes import Subscribed
from ...model.errors import (
    RequestError,
    ResourceInUseError,
    ResourceNotFoundError,
    ServiceUnavailableError,
    ValidationError,
)
from ...model.subscriptions import Subscription, check, check_asked
from ...model.subscriptions.settings import invalid
from ...streams.delivery.delivery_policy import MAX_DEPTH
from ...streams.sinks.sink_settings import shown
from ...streams.temp_dirs import scratch
from ...streams.workers.code_folder import Folder
from . import lag, replays
from .async_partition import NO_TABLE, Done, answer, ends, submitted
from .context import SubscriptionContext
from .dead_letters import DeadLetterTable
from .drain import settle
from .kinesis_destinations import is_left
from .lag_throttle import LagThrottle
from .reconciler import TriggerReconciler
from .redelivery import MARK, Redelivery, drop
from .retarget import Retarget, start_of
from .runner import RunningSubscription, check_runnable

_LOOK_S: Final = 0.5
_TRIES: Final = 100
_TRY_AGAIN_S: Final = 0.05
_CHECKPOINT_BYTES: Final = 256
_DRAIN_S: Final = 50.0
_DISABLE_S: Final = 10.0
_LANE: Final = re.compile("[0-9]{1,4}")
_OURS: Final = Context("triggers", source="trigger")

logger = logging.getLogger(__name__)


class Triggers:
    """The subscriptions of a node.

    Attributes:
        running: Those that run here, by name.
        declared: Who looks after those that files declare, if anybody does.
        on_running: Told who knows `depth` while something runs here, and None while nothing does.
    """

    def __init__(self, node: SubscriptionContext) -> None:
        """Nothing runs before `start`."""
        self.running: dict[str, RunningSubscription] = {}
        self.declared: TriggerReconciler | None = None
        self.on_running: Callable[[Callable[[bytes], int] | None], None] = lambda _: None
        self._node = node
        self._looking: asyncio.Task[None] | None = None
        self._looks_again = False
        self._stopping: set[str] = set()
        self._refused: dict[str, str] = {}  # why those do not run that should, until they do
        self._halts: dict[str, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._retries: dict[str, Redelivery] = {}
        self._throttle = LagThrottle(node, self.running)
        self._is_serving = False
        self._scratch: tuple[Path, Callable[[], None]] | None = None

    @property
    def scratch(self) -> Path:
        """A folder for what need not stay; it goes with the node."""
        if self._scratch is None:
            self._scratch = scratch()
        folder, _ = self._scratch
        return folder

    # Running

    def start(self) -> None:
        """The node answers requests: run what is to run here."""
        self._is_serving = self._node.settings.runs_triggers
        self.look()
        folder = self._node.settings.triggers
        if self._is_serving and folder is not None:
            user = self._node.settings.trigger_user
            self.declared = TriggerReconciler(self._node, self, Folder(folder, user), self.scratch)
            self.declared.start()
        if self._is_serving:
            self._look_often()

    async def stop(self) -> None:
        """Run nothing any more; what was handled is in a checkpoint."""
        self._is_serving = False
        self._throttle.stop()
        if self.declared is not None:
            await self.declared.stop()
        if self._timer is not None:
            self._timer.cancel()
        self.look()
        while under_way := [*self._ending, *filter(None, (self._looking,))]:
            await asyncio.wait(under_way)
        if self._scratch is not None:
            _, remove = self._scratch
            self._scratch = None
            remove()

    def look(self) -> None:
        """The catalog has changed, or who leads what: run what is to run here, and nothing else."""
        if self._is_serving:
            self._throttle.look()
        self._looks_again = True
        if self._looking is None:
            self._looking = self._node.loop.create_task(self._look())

    def _look_often(self) -> None:
        """On a log that others write to, others define subscriptions too, and leads come and go; so do files."""
        subscriptions = self._node.state.subscriptions
        is_shared = self._node.settings.log is not None
        is_lacking = self._refused or any(map(self._is_left, subscriptions.values()))
        if (is_shared and (subscriptions or self.running)) or is_lacking:
            self.look()
        self._timer = self._node.loop.call_later(_LOOK_S, self._look_often)

    async def _look(self) -> None:
        try:
            while self._looks_again:
                self._looks_again = False
                wanted = self._wanted()
                over = [
                    name
                    for name, running in self.running.items()
                    if name not in wanted or not running.is_as(wanted[name])
                ]
                await asyncio.gather(*(self._halt(name) for name in over))
                for name in self._refused.keys() - wanted.keys():
                    del self._refused[name]
                for name in self._wanted():  # as it is now: a checkpoint may have come with the stop
                    if name not in self.running:
                        self._run(self._node.state.subscriptions[name])
                self._tell_running()
                for subscription in filter(self._is_left, [*self._node.state.subscriptions.values()]):
                    self._soon("Remove", subscription, {})
        finally:
            self._looking = None

    def _tell_running(self) -> None:
        self.on_running(self.depth if self.running or self._retries else None)

    def _wanted(self) -> dict[str, Subscription]:
        return {
            name: subscription
            for name, subscription in self._node.state.subscriptions.items()
            if self._is_serving
            and subscription.status == "ACTIVE"
            and name not in self._stopping
            and self.leads(subscription)
        }

    def leads(self, subscription: Subscription) -> bool:
        """Whether it is this node's to run, once it is to run at all."""
        partitions = self._node.partitions
        hosted = partitions.hosted.get(subscription.home(partitions.count))
        return hosted is not None and hosted.leading

    def _is_left(self, subscription: Subscription) -> bool:
        return (
            self._is_serving
            and subscription.name not in self._stopping
            and is_left(subscription, self._node.state.tables)
            and self.leads(subscription)
        )

    def _run(self, subscription: Subscription) -> None:
        try:
            running = RunningSubscription(self._node, subscription, self.scratch, self._ended)
        except (
            Exception
        ) as error:  # what was fine when it was made, or with other options, is not here and now
            if self._refused.get(subscription.name) != str(error):
                logger.error("subscription %s cannot run here: %s", subscription.name, error)
            self._refused[subscription.name] = str(error)
            return
        self._refused.pop(subscription.name, None)
        self.running[subscription.name] = running
        running.dispatcher.start()

    async def _halt(self, name: str) -> None:
        """Stop one, and wait until it is stopped; until then its calls are those of a subscription that runs."""
        if name in self.running:
            if name not in self._halts:
                self._halts[name] = self._node.loop.create_task(self._end(name))
            await asyncio.shield(self._halts[name])

    async def _end(self, name: str) -> None:
        try:
            await self.running[name].dispatcher.stop()
        except (Exception, asyncio.CancelledError):  # its sink's troubles must not keep others from running
            logger.exception("subscription %s could not be stopped as it should", name)
        finally:
            del self.running[name], self._halts[name]

    def _ended(self, running: RunningSubscription, reason: str) -> None:
        self._stop_soon(running.subscription, reason)

    def _stop_soon(self, subscription: Subscription, reason: str) -> None:
        self._soon("Stop", subscription, {"Reason": reason, "Epoch": subscription.epoch})

    def _soon(
        self, operation: SubscriptionOperation, subscription: Subscription, request: Mapping[str, Any]
    ) -> None:
        """Halt it, and have the log say so."""

        async def do() -> None:
            await self._halt(subscription.name)
            try:
                await self._define(operation, subscription.name, request, _OURS)
            except RequestError as error:  # it may be removed by now; else whoever leads next finds the same
                logger.warning("subscription %s: no %s in the log: %s", subscription.name, operation, error)
            finally:
                self._stopping.discard(subscription.name)
                self.look()

        self._stopping.add(subscription.name)
        task = self._node.loop.create_task(do())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    # What can be done about them

    def create(self, name: str, settings: Mapping[str, Any], context: Context, done: Done) -> None:
        """A new subscription; answered when all that is written from then on will be delivered."""
        answer(self._node.loop, self._create(name, settings, context), done)

    def update(self, name: str, some: Mapping[str, Any], context: Context, done: Done) -> None:
        """Other settings for one."""
        answer(self._node.loop, self._update(name, some, context), done)

    def move(
        self, name: str, settings: Mapping[str, Any], move: Retarget | None, context: Context, done: Done
    ) -> None:
        """All other settings for one, also other tables: it goes on where it is, or without `move` at their Start."""
        answer(self._node.loop, self._move(name, settings, move, context), done)

    def pause(
        self, name: str, context: Context, done: Done, *, drain: bool = False, reason: str | None = None
    ) -> None:
        """Deliver nothing until it is resumed; with `drain`, what was written before is delivered first."""
        answer(self._node.loop, self._pause(name, context, drain, reason), done)

    def disable(self, name: str, context: Context, done: Done) -> None:
        """Pause a destination. What was written before is sent first, if that takes no longer than a moment."""
        answer(self._node.loop, self._disable(name, context), done)

    def resume(self, name: str, context: Context, done: Done) -> None:
        """Go on after a pause or a stop; what is blocked is tried again."""
        answer(self._node.loop, self._resume(name, context), done)

    def reset(self, name: str, start: Mapping[str, Any], context: Context, done: Done) -> None:
        """Begin anew from another place."""
        answer(self._node.loop, self._reset(name, start, context), done)

    def remove(self, name: str, context: Context, done: Done) -> None:
        """Forget a subscription. The table of its dead letters stays."""
        answer(self._node.loop, self._changed("Remove", name, {}, context), done)

    def describe(self, name: str, done: Done) -> None:
        """All that is known of one, with its lag."""
        answer(self._node.loop, self._describe(name), done)

    def list(self, done: Done) -> None:
        """All of them, as the catalog knows them."""
        each = sorted(self._node.state.subscriptions.items())
        done({"Subscriptions": [self._shown(subscription) for _, subscription in each]})

    def lag(self, name: str, done: Done) -> None:
        """How far behind one is, by partition."""
        answer(self._node.loop, self._lag(name), done)

    def replay(
        self,
        name: str,
        begin: Mapping[str, Any],
        end: Mapping[str, Any] | None,
        key: dict[str, Any] | None,
        dry_run: bool,
        context: Context,
        done: Done,
    ) -> None:
        """Deliver again what was, or say what that would be; `begin` and `end` have Time or Numbers."""
        work = self._replay(self._node.subscription(name), begin, end, key, dry_run, context)
        answer(self._node.loop, work, done)

    def retry(self, name: str, key: str | None, limit: int | None, done: Done) -> None:
        """Deliver dead letters again, those of a key in order, each removed when it is handled."""
        answer(self._node.loop, self._retry(name, key, limit), done)

    def drop(self, name: str, key: str | None, done: Done) -> None:
        """Remove dead letters undelivered."""
        answer(self._node.loop, drop(self._node, self._node.subscription(name), key), done)

    def settle(self, timeout_ms: int, done: Done) -> None:
        """Answered when everything written before is handled, and what was written by handling it."""
        answer(self._node.loop, settle(self._node, self.running, self.declared, timeout_ms), done)

    # What others ask without waiting

    def figures(self) -> dict[str, dict[str, Any]]:
        """How those that run here are doing."""
        return {name: running.figures() for name, running in self.running.items()}

    def depth(self, agent: bytes) -> int:
        """How many triggers lead to a request from a client that calls itself so; 0 if it is none of ours."""
        _, found, rest = agent.partition(b"app/foldb.")
        if not found:
            return 0
        caller, _, lane = rest.split(b" ", 1)[0].decode("latin-1").rpartition(".")
        retry = self._retries.get(caller.removesuffix(MARK)) if caller.endswith(MARK) else None
        if retry is not None:  # what somebody wants delivered of a loop does not begin it anew
            return min(retry.depth + 1, MAX_DEPTH)
        running = self.running.get(caller)
        return 0 if running is None or not _LANE.fullmatch(lane) else running.dispatcher.depth(int(lane)) + 1

    # How it is done

    async def _create(self, name: str, given: Mapping[str, Any], context: Context) -> dict[str, Any]:
        settings = check_asked(name, given)
        check_runnable(self._node, self.scratch, name, settings)
        for table in settings["TableNames"]:
            self._node.table_in_any_status(table)
        if name in self._node.state.subscriptions:
            raise ResourceInUseError(f"Subscription already exists: {name}")
        settings["Start"] = await self._placed(settings["Start"], settings["TableNames"])
        await self._make_letters(name, settings, context)
        subscription = await self._define("Create", name, settings, context, looks=False)
        if settings["Start"]["At"] == "NOW":
            marks = sorted((await ends(self._node.partitions_of_feed(), subscription.table_ids[0])).items())
            begun = Checkpoint(subscription.id, subscription.epoch, marks, "", 0, 0)
            await submitted(self._node.partition, begun, _CHECKPOINT_BYTES)
        self.look()
        return {"Subscription": self._shown(self._node.subscription(name))}

    async def _update(self, name: str, some: Mapping[str, Any], context: Context) -> dict[str, Any]:
        settings = check_asked(name, {**self._node.subscription(name).settings, **some})
        check_runnable(self._node, self.scratch, name, settings)
        await self._make_letters(name, settings, context)
        return await self._changed("Update", name, some, context)

    async def _move(
        self, name: str, given: Mapping[str, Any], move: Retarget | None, context: Context
    ) -> dict[str, Any]:
        settings = check_asked(name, given)
        check_runnable(self._node, self.scratch, name, settings)
        await self._make_letters(name, settings, context)
        running = self.running.get(name)
        self._stopping.add(name)
        try:
            await self._halt(name)
            while self._ending:  # a Stop that is under way must not be one of the new subscription
                await asyncio.wait(self._ending)
            self._stopping.add(name)
            there = self._node.subscription(name)
            if running is not None and running.is_as(there):
                there = there.checkpointed(_risen(running.dispatcher.checkpoints()), there.version, 0, 0)
            settings["Start"] = (
                await self._placed(settings["Start"], settings["TableNames"])
                if move is None
                else await start_of(self._node, there, move)
            )
            await self._make_anew(there, settings, context)
        finally:
            self._stopping.discard(name)
            self.look()
        return {"Subscription": self._shown(self._node.subscription(name))}

    async def _make_anew(self, there: Subscription, settings: Mapping[str, Any], context: Context) -> None:
        """Remove it and create it again. One entry of the log has both: its place is never forgotten.

        Raises:
            ResourceNotFoundError: A table is about to be deleted: it could not be created.
        """
        for name in settings["TableNames"]:
            if self._node.table_in_any_status(name).definition.status == "DELETING":
                raise ResourceNotFoundError(f"Requested resource not found: Table: {name} not found")
        commands = [self._command("Remove", there.name, {}, context)]
        commands.append(self._command("Create", there.name, settings, context))
        if there.status == "PAUSED":
            reason = {} if there.reason is None else {"Reason": there.reason}
            commands.append(self._command("Pause", there.name, reason, context))
        partition = self._node.partition
        await asyncio.gather(*(submitted(partition, each, len(each.request)) for each in commands))

    async def _make_letters(self, name: str, settings: Mapping[str, Any], context: Context) -> None:
        # One that blocks has none, as a rule, and a replay that goes well is to leave nothing behind.
        if settings["OnFailure"] != "block" and not settings["Replay"]:
            await DeadLetterTable(self._node, settings["DeadLetterTable"], name).make(context)

    async def _pause(self, name: str, context: Context, drain: bool, reason: str | None) -> dict[str, Any]:
        subscription = self._node.subscription(name)
        if drain and subscription.status != "ACTIVE":
            raise ValidationError(
                f"{name} is {subscription.status} already, and nothing was delivered: resume it, and drain it then"
            )
        if drain:
            await self._drain(subscription, _DRAIN_S)
        return await self._changed("Pause", name, {} if reason is None else {"Reason": reason}, context)

    async def _disable(self, name: str, context: Context) -> dict[str, Any]:
        with contextlib.suppress(ValidationError):  # brokers that are away do not keep it from being disabled
            await self._drain(self._node.subscription(name), _DISABLE_S)
        return await self._pause(name, context, drain=False, reason="disabled")

    async def _drain(self, subscription: Subscription, seconds: float) -> None:
        """Wait until what is written now is handled.

        Raises:
            ValidationError: That takes too long, or it does not run any more.
        """
        name = subscription.name
        now = await ends(self._node.partitions_of_feed(), subscription.table_ids[0])
        try:
            async with asyncio.timeout(seconds):
                await lag.reach(self._node, self.running, subscription, now)
        except TimeoutError:
            raise ValidationError(f"{name} is not drained yet, and runs on: ask again, or pause it") from None
        if self._node.subscription(name).status != "ACTIVE":
            raise ValidationError(
                f"{name} is {self._node.subscription(name).status} meanwhile: it was not drained"
            )

    async def _resume(self, name: str, context: Context) -> dict[str, Any]:
        running = self.running.get(name)
        if running is not None and running.dispatcher.blocked:
            await self._halt(name)
        return await self._changed("Resume", name, {}, context)

    async def _replay(
        self,
        subscription: Subscription,
        begin: Mapping[str, Any],
        end: Mapping[str, Any] | None,
        key: dict[str, Any] | None,
        dry_run: bool,
        context: Context,
    ) -> dict[str, Any]:
        name, settings = await replays.replay_of(self._node, subscription, begin, end, key)
        if dry_run:
            return await replays.count(self._node, subscription, name, settings, self.scratch)
        await self._create(name, settings, context)
        return {"Name": name}

    async def _retry(self, name: str, key: str | None, limit: int | None) -> dict[str, Any]:
        subscription = self._node.subscription(name)
        if name in self._retries:
            raise ResourceInUseError(f"The letters of {name} are being delivered already")
        retry = self._retries[name] = Redelivery(self._node, subscription, self.scratch)
        self._tell_running()
        try:
            return await retry.run(key, limit)
        finally:
            del self._retries[name]
            self._tell_running()

    async def _reset(self, name: str, start: Mapping[str, Any], context: Context) -> dict[str, Any]:
        subscription = self._node.subscription(name)
        check(name, {**subscription.settings, "Start": start})
        placed = await self._placed(dict(start), [table for table, _ in subscription.tables])
        return await self._changed("Reset", name, {"Start": placed}, context)

    async def _describe(self, name: str) -> dict[str, Any]:
        subscription = self._node.subscription(name)
        running = self.running.get(name)
        return {
            "Subscription": {
                **self._shown(subscription),
                "Lag": await lag.measure(self._node, self.running, subscription),
                "RunsHere": running is not None,
                **({} if running is None else running.figures()),
            }
        }

    async def _lag(self, name: str) -> dict[str, Any]:
        return {"Lag": await lag.measure(self._node, self.running, self._node.subscription(name))}

    def _shown(self, subscription: Subscription) -> dict[str, Any]:
        settings = subscription.settings
        return {
            "Name": subscription.name,
            "Status": subscription.status,
            "Reason": subscription.reason,
            "Settings": {**settings, "Sink": shown(settings["Sink"])},
            "Epoch": subscription.epoch,
            "Checkpoints": {
                str(partition): str(number) for partition, number in sorted(subscription.checkpoints.items())
            },
            "Version": subscription.version,
            "TotalHandled": subscription.handled,
            "TotalDead": subscription.dead,
            "Created": subscription.created_ms,
            "Changed": subscription.changed_ms,
            "LastError": self._refused.get(subscription.name),
        }

    async def _placed(self, start: dict[str, Any], tables: Sequence[str]) -> dict[str, Any]:
        """A start that goes by where the partitions are now says where that is.

        Raises:
            ValidationError: It is where nothing is yet: what is written until then would be passed over.
        """
        if "Numbers" in start:
            now = await ends(self._node.partitions_of_feed(), NO_TABLE)
            for partition, number in start["Numbers"].items():
                if int(number) > now.get(int(partition), int(number)):
                    raise invalid(f"Start, in partition {partition}, is beyond the end of the log")
            return start
        if start["At"] not in ("NOW", "SNAPSHOT"):
            return start
        table = self._node.table_in_any_status(tables[0])
        now = await ends(self._node.partitions_of_feed(), table.definition.id)
        return {**start, "Numbers": {str(partition): str(number) for partition, number in now.items()}}

    async def _changed(
        self, operation: SubscriptionOperation, name: str, request: Mapping[str, Any], context: Context
    ) -> dict[str, Any]:
        return {"Subscription": self._shown(await self._define(operation, name, request, context))}

    async def _define(
        self,
        operation: SubscriptionOperation,
        name: str,
        request: Mapping[str, Any],
        context: Context,
        *,
        looks: bool = True,
    ) -> Subscription:
        command = self._command(operation, name, request, context)
        for tries in range(_TRIES):  # a log of an older level is raised by its owner, in a moment
            try:
                outcome = await submitted(self._node.partition, command, len(command.request))
                break
            except ServiceUnavailableError:
                if tries == _TRIES - 1:
                    raise
                await asyncio.sleep(_TRY_AGAIN_S)
        assert isinstance(outcome, Subscribed), "a command about a subscription has no other outcome"
        if looks:
            self.look()
        return outcome.subscription

    def _command(
        self, operation: SubscriptionOperation, name: str, request: Mapping[str, Any], context: Context
    ) -> DefineSubscription:
        data = orjson.dumps(request, option=orjson.OPT_SORT_KEYS)
        drawn = str(uuid.UUID(bytes=self._node.random_bytes(16), version=4))
        return DefineSubscription(operation, name, data, drawn, context)


def _risen(marks: Mapping[int, int]) -> dict[int, int]:
    """Without those of partitions in which nothing was read."""
    return {partition: number for partition, number in marks.items() if number}
