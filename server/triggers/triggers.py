"""Which subscriptions this node runs, and what can be done about them.

    catalog's subscriptions ──► ACTIVE, and this node leads their home ──► running here
    request ──► checked ──► DefineSubscription in the log ──► looked at again

What is asked for is a command first: whoever leads the home sees it in the catalog and does it, this node or another.
"""

import asyncio
import logging
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

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
from ...model.subscriptions import Subscription, check
from ...streams.children.folder import Folder
from ...streams.sinks import RUNNING, module_of
from ...streams.sinks.settings import shown
from ...streams.subscriptions.choosing import Chooser
from . import lags, redelivery, replays
from .asking import Done, answer, ends, submitted
from .declared import DeclaredTriggers
from .letters import LetterTable
from .running import Running, sink_of
from .settling import settle
from .throttling import Throttle

if TYPE_CHECKING:
    from ..node import Node

_LOOK_S: Final = 0.5
_TRIES: Final = 100
_TRY_AGAIN_S: Final = 0.05
_CHECKPOINT_BYTES: Final = 256
_OURS: Final = Context("triggers", source="trigger")

logger = logging.getLogger(__name__)


class Triggers:
    """The subscriptions of a node.

    Attributes:
        running: Those that run here, by name.
        declared: Who looks after those that files declare, if anybody does.
        on_running: Told who knows `depth` while something runs here, and None while nothing does.
    """

    def __init__(self, node: "Node") -> None:
        """Nothing runs before `start`."""
        self.running: dict[str, Running] = {}
        self.declared: DeclaredTriggers | None = None
        self.on_running: Callable[[Callable[[bytes], int] | None], None] = lambda _: None
        self._node = node
        self._looking: asyncio.Task[None] | None = None
        self._looks_again = False
        self._stopping: set[str] = set()
        self._ending: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._throttle = Throttle(self, node)
        self._is_serving = False
        self._scratch: tempfile.TemporaryDirectory[str] | None = None

    @property
    def scratch(self) -> Path:
        """A folder for what need not stay; it goes with the node."""
        if self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="foldb-triggers-")
        return Path(self._scratch.name)

    # Running

    def start(self) -> None:
        """The node answers requests: run what is to run here."""
        self._is_serving = self._node.settings.runs_triggers
        self.look()
        folder = self._node.settings.triggers
        if self._is_serving and folder is not None:
            self.declared = DeclaredTriggers(self._node, self, Folder(folder))
            self.declared.start()
        if self._is_serving and self._node.settings.log is not None:
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
        while self._looking is not None:
            await self._looking
        for task in self._ending:
            task.cancel()
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None

    def look(self) -> None:
        """The catalog has changed, or who leads what: run what is to run here, and nothing else."""
        if self._is_serving:
            self._throttle.look()
        self._looks_again = True
        if self._looking is None:
            self._looking = self._node.loop.create_task(self._look())

    def _look_often(self) -> None:
        """On a log that others write to, others define subscriptions too, and leads come and go."""
        if self._node.state.subscriptions or self.running:
            self.look()
        self._timer = self._node.loop.call_later(_LOOK_S, self._look_often)

    async def _look(self) -> None:
        while self._looks_again:
            self._looks_again = False
            wanted = self._wanted()
            over = [
                name
                for name, running in self.running.items()
                if name not in wanted or not running.is_as(wanted[name])
            ]
            await asyncio.gather(*(self._halt(name) for name in over))
            for name in self._wanted():  # as it is now: a checkpoint may have come with the stop
                if name not in self.running:
                    self._run(self._node.state.subscriptions[name])
            self.on_running(self.depth if self.running else None)
        self._looking = None

    def _wanted(self) -> dict[str, Subscription]:
        return {
            name: subscription
            for name, subscription in self._node.state.subscriptions.items()
            if self._is_serving
            and subscription.status == "ACTIVE"
            and name not in self._stopping
            and self._leads(subscription)
        }

    def _leads(self, subscription: Subscription) -> bool:
        partitions = self._node.partitions
        hosted = partitions.hosted.get(subscription.home(partitions.count))
        return hosted is not None and hosted.leading

    def _run(self, subscription: Subscription) -> None:
        try:
            running = Running(self._node, subscription, self._ended)
        except Exception as error:  # what was fine when it was made, or on another node, is not here
            logger.error("subscription %s cannot run here: %s", subscription.name, error)
            self._stop_soon(subscription, f"it cannot run: {error}")
            return
        self.running[subscription.name] = running
        running.dispatcher.start()

    async def _halt(self, name: str) -> None:
        running = self.running.pop(name, None)
        if running is not None:
            try:
                await running.dispatcher.stop()
            except Exception:  # a sink that cannot be closed must not keep others from running
                logger.exception("subscription %s could not be stopped as it should", name)

    def _ended(self, running: Running, reason: str) -> None:
        self._stop_soon(running.subscription, reason)

    def _stop_soon(self, subscription: Subscription, reason: str) -> None:
        async def stop() -> None:
            await self._halt(subscription.name)
            request = {"Reason": reason, "Epoch": subscription.epoch}
            try:
                await self._define("Stop", subscription.name, request, _OURS)
            except RequestError as error:  # it may be removed by now; else whoever leads next finds the same
                logger.warning("subscription %s is not stopped in the log: %s", subscription.name, error)
            finally:
                self._stopping.discard(subscription.name)
                self.look()

        self._stopping.add(subscription.name)
        task = self._node.loop.create_task(stop())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    # What can be done about them

    def create(self, name: str, settings: Mapping[str, Any], context: Context, done: Done) -> None:
        """A new subscription; answered when all that is written from then on will be delivered."""
        answer(self._node.loop, self._create(name, settings, context), done)

    def update(self, name: str, some: Mapping[str, Any], context: Context, done: Done) -> None:
        """Other settings for one."""
        answer(self._node.loop, self._update(name, some, context), done)

    def pause(
        self, name: str, context: Context, done: Done, *, drain: bool = False, reason: str | None = None
    ) -> None:
        """Deliver nothing until it is resumed; with `drain`, what was written before is delivered first."""
        answer(self._node.loop, self._pause(name, context, drain, reason), done)

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
        work = replays.replay(self, self._node, self.named(name), begin, end, key, dry_run, context)
        answer(self._node.loop, work, done)

    def retry(self, name: str, key: str | None, limit: int | None, done: Done) -> None:
        """Deliver dead letters again, those of a key in order, each removed when it is handled."""
        answer(self._node.loop, redelivery.retry(self._node, self.named(name), key, limit), done)

    def drop(self, name: str, key: str | None, done: Done) -> None:
        """Remove dead letters undelivered."""
        answer(self._node.loop, redelivery.drop(self._node, self.named(name), key), done)

    def settle(self, timeout_ms: int, done: Done) -> None:
        """Answered when everything written before is handled, and what was written by handling it."""
        answer(self._node.loop, settle(self, self._node, timeout_ms), done)

    # What others ask without waiting

    def figures(self) -> dict[str, dict[str, Any]]:
        """How those that run here are doing."""
        return {name: running.figures() for name, running in self.running.items()}

    def depth(self, agent: bytes) -> int:
        """How many triggers lead to a request from a client that calls itself so; 0 if it is none of ours."""
        _, found, rest = agent.partition(b"app/foldb.")
        if not found:
            return 0
        name, _, lane = rest.split(b" ", 1)[0].decode("latin-1").rpartition(".")
        running = self.running.get(name)
        return 0 if running is None or not lane.isdigit() else running.dispatcher.depth(int(lane)) + 1

    def named(self, name: str) -> Subscription:
        """The subscription of that name.

        Raises:
            ResourceNotFoundError: There is none.
        """
        subscription = self._node.state.subscriptions.get(name)
        if subscription is None:
            raise ResourceNotFoundError(f"Requested resource not found: Subscription: {name} not found")
        return subscription

    async def define(
        self, operation: SubscriptionOperation, name: str, request: Mapping[str, Any], context: Context
    ) -> Subscription:
        """Have a command about a subscription folded, and do what it asks for."""
        return await self._define(operation, name, request, context)

    # How it is done

    async def _create(self, name: str, given: Mapping[str, Any], context: Context) -> dict[str, Any]:
        settings = check(name, given)
        self._check(name, settings)
        for table in settings["TableNames"]:
            self._node.table_in_any_status(table)
        if name in self._node.state.subscriptions:
            raise ResourceInUseError(f"Subscription already exists: {name}")
        if settings["OnFailure"] != "block":  # then it has none, as a rule
            await LetterTable(self._node, settings["DeadLetterTable"], name).make(context)
        settings["Start"] = await self._placed(settings["Start"], settings["TableNames"])
        subscription = await self._define("Create", name, settings, context, looks=False)
        if settings["Start"]["At"] == "NOW":
            marks = sorted((await ends(self._node, subscription.table_ids[0])).items())
            begun = Checkpoint(subscription.id, subscription.epoch, marks, "", 0, 0)
            await submitted(self._node, begun, _CHECKPOINT_BYTES)
        self.look()
        return {"Subscription": self._shown(self.named(name))}

    async def _update(self, name: str, some: Mapping[str, Any], context: Context) -> dict[str, Any]:
        self._check(name, check(name, {**self.named(name).settings, **some}))
        return await self._changed("Update", name, some, context)

    async def _pause(self, name: str, context: Context, drain: bool, reason: str | None) -> dict[str, Any]:
        subscription = self.named(name)
        if drain and subscription.status == "ACTIVE":
            await lags.reach(
                self, self._node, subscription, await ends(self._node, subscription.table_ids[0])
            )
        return await self._changed("Pause", name, {} if reason is None else {"Reason": reason}, context)

    async def _resume(self, name: str, context: Context) -> dict[str, Any]:
        running = self.running.get(name)
        if running is not None and running.dispatcher.blocked:
            await self._halt(name)
        return await self._changed("Resume", name, {}, context)

    async def _reset(self, name: str, start: Mapping[str, Any], context: Context) -> dict[str, Any]:
        subscription = self.named(name)
        check(name, {**subscription.settings, "Start": start})
        placed = await self._placed(dict(start), [table for table, _ in subscription.tables])
        return await self._changed("Reset", name, {"Start": placed}, context)

    async def _describe(self, name: str) -> dict[str, Any]:
        subscription = self.named(name)
        running = self.running.get(name)
        return {
            "Subscription": {
                **self._shown(subscription),
                "Lag": await lags.lag(self, self._node, subscription),
                "RunsHere": running is not None,
                **({} if running is None else running.figures()),
            }
        }

    async def _lag(self, name: str) -> dict[str, Any]:
        return {"Lag": await lags.lag(self, self._node, self.named(name))}

    def _shown(self, subscription: Subscription) -> dict[str, Any]:
        settings = subscription.settings
        return {
            "Name": subscription.name,
            "Status": subscription.status,
            "Reason": subscription.reason,
            "Settings": {**settings, "Sink": shown(settings["Sink"])},
            "Epoch": subscription.epoch,
            "Marks": {
                str(partition): str(number) for partition, number in sorted(subscription.marks.items())
            },
            "Version": subscription.version,
            "TotalHandled": subscription.handled,
            "TotalDead": subscription.dead,
            "Created": subscription.created_ms,
            "Changed": subscription.changed_ms,
        }

    def _check(self, name: str, settings: dict[str, Any]) -> None:
        """Refuse what no dispatcher could be made of.

        Raises:
            ValidationError: Its sink, its filter, or what does not go together.
        """
        sink = settings["Sink"]
        module_of(sink).check(sink)
        if sink["Kind"] in RUNNING and self._node.settings.triggers is None:
            raise ValidationError(
                f"Sink.Kind {sink['Kind']} runs code on the server, which comes from the folder of --triggers alone: "
                "start the server with one"
            )
        if self._node.settings.runs_triggers:
            sink_of(self._node, name, settings)
        Chooser(settings)
        if settings["Transactions"] == "together" and settings["ParallelizationFactor"] > 1:
            raise ValidationError(
                "Transactions together go one after the other: ParallelizationFactor must be 1"
            )
        if settings["TumblingWindowInSeconds"] not in (0, "0"):
            if len(settings["TableNames"]) > 1:
                raise ValidationError("A tumbling window is of one table: TableNames must have one")
            if settings["Transactions"] == "together":
                raise ValidationError("A transaction may be in two windows: Transactions must be separate")

    async def _placed(self, start: dict[str, Any], tables: Sequence[str]) -> dict[str, Any]:
        """A start that goes by where the partitions are now says where that is."""
        if start["At"] not in ("NOW", "SNAPSHOT") or "Numbers" in start:
            return start
        table = self._node.table_in_any_status(tables[0])
        now = await ends(self._node, table.definition.id)
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
        data = orjson.dumps(request, option=orjson.OPT_SORT_KEYS)
        drawn = str(uuid.UUID(bytes=self._node.random_bytes(16), version=4))
        command = DefineSubscription(operation, name, data, drawn, context)
        for tries in range(_TRIES):  # a log of an older level is raised by its owner, in a moment
            try:
                outcome = await submitted(self._node, command, len(data))
                break
            except ServiceUnavailableError:
                if tries == _TRIES - 1:
                    raise
                await asyncio.sleep(_TRY_AGAIN_S)
        assert isinstance(outcome, Subscribed), "a command about a subscription has no other outcome"
        if looks:
            self.look()
        return outcome.subscription
