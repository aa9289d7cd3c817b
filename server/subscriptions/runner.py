"""A subscription that runs on this node: its dispatcher, with the node around it.

Letters and checkpoints are commands like all others; what is read is read through the seam, wherever the partition is.
"""

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ...log.commands import Checkpoint
from ...log.local import disk_of
from ...materializer.feed_requests import FeedRequest, OnFed
from ...materializer.fold.feed.capture import CapturePeriod
from ...model.errors import ValidationError
from ...model.subscriptions import Subscription, milliseconds
from ...streams.delivery.checkpoints import Progress
from ...streams.delivery.dispatcher import Dispatcher, DispatcherContext
from ...streams.delivery.filter import ChangeFilter
from ...streams.formats.table_view import Delivery, TableView, view_in, view_of
from ...streams.sinks import RUNNING, module_of, tracing
from ...streams.sinks.process_sink import function_of
from ...streams.sinks.sink import Sink, SinkContext
from ...streams.workers.code_folder import Folder
from ..settings import Settings
from . import sqlite_views
from .async_partition import submitted
from .context import SubscriptionContext
from .dead_letters import DeadLetterTable

_CHECKPOINT_BYTES = 256
_OF_ONE = 2**32

logger = logging.getLogger(__name__)


class RunningSubscription:
    """One subscription at work.

    Attributes:
        subscription: As it was when this began.
        dispatcher: What runs it.
    """

    def __init__(
        self,
        node: SubscriptionContext,
        subscription: Subscription,
        scratch: Path,
        ended: Callable[["RunningSubscription", str], None],
    ) -> None:
        """`ended` is told that it has come to its end by itself, and why."""
        self.subscription = subscription
        self._node = node
        context = DispatcherContext(
            readers={number: partial(_read, node, number) for number in node.partitions_of_feed()},
            histories=node.histories,
            table_exists=lambda table: table in node.state.tables,
            view=lambda table, label: view_at(node, table, label),
            dead_letters=DeadLetterTable(node, subscription.settings["DeadLetterTable"], subscription.name),
            checkpoint=self._checkpoint,
            on_end=lambda reason: ended(self, reason),
            clock=node.clock,
            seconds=time.perf_counter,
            jitter=lambda: int.from_bytes(node.random_bytes(4)) / _OF_ONE,
        )
        sink = sink_of(
            node,
            scratch,
            subscription.name,
            subscription.settings,
            outdated=sqlite_views.outdated(node, subscription),
        )
        self.dispatcher = Dispatcher(subscription, sink, context, ChangeFilter(subscription.settings).test)
        self._problem: Callable[[], str | None] = lambda: getattr(sink, "problem", None)

    def is_as(self, subscription: Subscription) -> bool:
        """Whether it runs what `subscription` is now: its marks and counts may have changed."""
        mine = self.subscription
        return (
            mine.id == subscription.id
            and mine.epoch == subscription.epoch
            and mine.settings == subscription.settings
        )

    def figures(self) -> dict[str, Any]:
        """How it is doing."""
        dispatcher = self.dispatcher
        failing = [
            {"Key": _key(delivery), "Table": delivery.table.name, "Attempts": tries}
            for delivery, tries in dispatcher.failing()
        ]
        return {
            **dispatcher.metrics.to_json(time.perf_counter()),
            "IsStarted": dispatcher.is_started,
            "Blocked": dispatcher.blocked,
            "Failing": failing,
            "Problem": self._problem(),
        }

    async def _checkpoint(self, progress: Progress) -> None:
        subscription = self.subscription
        marks = sorted(progress.checkpoints.items())
        command = Checkpoint(
            subscription.id, subscription.epoch, marks, progress.version, progress.handled, progress.dead
        )
        await submitted(self._node.partition, command, _CHECKPOINT_BYTES)


def _read(node: SubscriptionContext, partition: int, request: FeedRequest, done: OnFed) -> None:
    """Read a partition's feed, wherever the partition is by now."""
    node.peers[partition].feed(request, done)


def sink_of(
    node: SubscriptionContext,
    scratch: Path,
    name: str,
    given: Mapping[str, Any],
    instance: str | None = None,
    outdated: tuple[str, ...] = (),
) -> Sink:
    """What a subscription with these settings calls, yet to be started; `instance` if another does so beside it.

    What need not stay is in `scratch`; `outdated` is as in Surroundings.

    Raises:
        ValidationError: It cannot be called from here.
    """
    settings = node.settings
    surroundings = SinkContext(
        loop=node.loop,
        clock=node.clock,
        subscription=name,
        instance=instance or name,
        timeout_s=(milliseconds(given["TimeoutSeconds"]) or 0) / 1000,
        endpoint=lambda: endpoint(node.settings),
        folder=settings.triggers,
        trigger_user=settings.trigger_user,
        webhooks=settings.webhooks,
        destinations=settings.kafka_sink or settings.log,
        kafka=settings.kafka_settings,
        kafka_variables=settings.kafka_variables,
        scratch=scratch,
        data=settings.path,
        disk=disk_of(node.log),
        outdated=outdated,
        reports_failures="ReportBatchItemFailures" in given["FunctionResponseTypes"],
    )
    return tracing.traced(module_of(given["Sink"]).make(given["Sink"], surroundings))


def check_runnable(node: SubscriptionContext, scratch: Path, name: str, settings: dict[str, Any]) -> None:
    """Refuse what no dispatcher could be made of.

    Raises:
        ValidationError: Its sink, its filter, or what does not go together.
    """
    sink = settings["Sink"]
    module_of(sink).check(sink)
    sqlite_views.check(node, name, settings)
    folder = node.settings.triggers
    if sink["Kind"] in RUNNING and folder is None:
        raise ValidationError(
            f"Sink.Kind {sink['Kind']} runs code on the server, which comes from the folder of --triggers alone: "
            "start the server with one"
        )
    if node.settings.runs_triggers:
        sink_of(node, scratch, name, settings)
        function = function_of(sink)
        if folder is not None and function is not None:
            Folder(folder).module(function)
    ChangeFilter(settings)
    if settings["Transactions"] == "together" and settings["ParallelizationFactor"] > 1:
        raise ValidationError("Transactions together go one after the other: ParallelizationFactor must be 1")
    if settings["TumblingWindowInSeconds"] not in (0, "0"):
        if len(settings["TableNames"]) > 1:
            raise ValidationError("A tumbling window is of one table: TableNames must have one")
        if settings["Transactions"] == "together":
            raise ValidationError("A transaction may be in two windows: Transactions must be separate")


def endpoint(settings: Settings) -> str:
    """Where this node answers."""
    scheme = "http" if settings.tls_cert is None else "https"
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104  # that is: all
    return f"{scheme}://[{host}]:{settings.port}" if ":" in host else f"{scheme}://{host}:{settings.port}"


def view_at(node: SubscriptionContext, table_id: int, label: int) -> TableView:
    """What formats say of a table while the stream with that label was enabled, or none; it may be gone by now."""
    state = node.state
    log_id, partitions = node.log.genesis(0).log_id, node.partitions.count
    table = state.tables.get(table_id)
    windows: list[CapturePeriod] = state.windows_of(table_id)
    window = next((each for each in windows if each.label == label), windows[-1] if windows else None)
    if window is None or window.label != label:
        if table is not None:
            return view_of(table.definition, log_id, partitions)
        assert window is not None, "a table whose changes are read was captured"
    return view_in(window, log_id, partitions, 0 if table is None else table.definition.created_ms)


def _key(delivery: Delivery) -> dict[str, Any]:
    return delivery.table.key.decode(delivery.change.pk, delivery.change.sk)
