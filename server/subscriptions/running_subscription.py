"""A subscription that runs on this node: its dispatcher, connected to the node.

Dead letters and checkpoints are commands of the log. Changes are read through the partitions' interface, so the
partition may be on another node.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from ...log.commands import Checkpoint
from ...log.local import disk_of
from ...materializer.fold.feed.capture import WATCHED, CapturePeriod
from ...model.errors import ValidationError
from ...model.subscriptions import Subscription
from ...model.subscriptions.setting_types import milliseconds
from ...model.values import load
from ...streams.delivery.checkpoints import Progress
from ...streams.delivery.dispatcher import Dispatcher, DispatcherContext
from ...streams.delivery.filter import ChangeFilter
from ...streams.formats.table_view import Delivery, TableView, view_in, view_of
from ...streams.sinks import check_shared_target, outdated_tables, sink_kind, tracing
from ...streams.sinks.sink import Sink, SinkContext
from ...streams.workers.code_folder import CodeFolder
from ..settings import Settings
from .async_partition import AsyncPartition
from .context import SubscriptionContext
from .dead_letters import DeadLetterTable

CHECKPOINT_BYTES: Final = 256
"""The approximate size of a Checkpoint command."""

_ONE: Final = 2**32  # four random bytes divided by this are in [0, 1)


class RunningSubscription:
    """One subscription at work.

    Attributes:
        subscription: The subscription as it was when it was started.
        dispatcher: Reads and delivers its changes.
    """

    def __init__(
        self,
        node: SubscriptionContext,
        subscription: Subscription,
        scratch: Path,
        on_end: Callable[["RunningSubscription", str], None],
    ) -> None:
        """`on_end` is called with the reason when the dispatcher ends by itself."""
        self.subscription = subscription
        self._node = node
        context = DispatcherContext(
            partitions=node.partitions_of_feed,
            key_of=partial(key_at, node),
            table_exists=lambda table: table in node.state.tables,
            view=lambda table, label: view_at(node, table, label),
            dead_letters=DeadLetterTable(node, subscription.settings["DeadLetterTable"], subscription.name),
            checkpoint=self._checkpoint,
            on_end=lambda reason: on_end(self, reason),
            clock=node.clock,
            seconds=time.perf_counter,
            jitter=lambda: int.from_bytes(node.random_bytes(4)) / _ONE,
        )
        sink = sink_of(
            node,
            scratch,
            subscription.name,
            subscription.settings,
            outdated=outdated_tables(subscription, node.state.subscriptions.values()),
        )
        self.dispatcher = Dispatcher(subscription, sink, context, ChangeFilter(subscription.settings).test)
        self._problem: Callable[[], str | None] = lambda: sink.problem

    def is_as(self, subscription: Subscription) -> bool:
        """Return whether this runs `subscription` with its present epoch and settings."""
        mine = self.subscription
        return (
            mine.id == subscription.id
            and mine.epoch == subscription.epoch
            and mine.settings == subscription.settings
        )

    def figures(self) -> dict[str, Any]:
        """Return the metrics of the dispatcher."""
        dispatcher = self.dispatcher
        failing = [
            {"Key": _key(delivery), "Table": delivery.table.name, "Attempts": attempts}
            for delivery, attempts in dispatcher.failing()
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
        checkpoints = sorted(progress.checkpoints.items())
        command = Checkpoint(
            subscription.id,
            subscription.epoch,
            checkpoints,
            progress.version,
            progress.handled,
            progress.dead,
        )
        await AsyncPartition(self._node.partition).submit(command, CHECKPOINT_BYTES)


def sink_of(
    node: SubscriptionContext,
    scratch: Path,
    name: str,
    given: Mapping[str, Any],
    instance: str | None = None,
    outdated: tuple[str, ...] = (),
) -> Sink:
    """Return the sink of a subscription with these settings, not started yet.

    `instance` names a second sink of a subscription that runs. Temporary files are in `scratch`. `outdated` is as in
    SinkContext.

    Raises:
        ValidationError: The sink cannot be called from this server.
    """
    settings = node.settings
    context = SinkContext(
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
    return tracing.traced(sink_kind(given["Sink"]).make(given["Sink"], context))


def check_runnable(node: SubscriptionContext, scratch: Path, name: str, settings: dict[str, Any]) -> None:
    """Refuse settings from which no dispatcher can be made.

    Raises:
        ValidationError: The sink, the filter or a combination of settings is invalid.
    """
    sink = settings["Sink"]
    kind = sink_kind(sink)
    kind.check(sink)
    check_shared_target(name, settings, node.state.subscriptions.values())
    folder = node.settings.triggers
    if kind.runs_code and folder is None:
        raise ValidationError(
            f"Sink.Kind {sink['Kind']} runs code on the server, which comes from the folder of --triggers alone: "
            "start the server with one"
        )
    if node.settings.runs_triggers:
        sink_of(node, scratch, name, settings)
        if folder is not None and kind.function is not None:
            CodeFolder(folder).module(kind.function(sink))
    ChangeFilter(settings)
    if settings["Transactions"] == "together" and settings["ParallelizationFactor"] > 1:
        raise ValidationError("Transactions together go one after the other: ParallelizationFactor must be 1")
    if settings["TumblingWindowInSeconds"] not in (0, "0"):
        if len(settings["TableNames"]) > 1:
            raise ValidationError("A tumbling window is of one table: TableNames must have one")
        if settings["Transactions"] == "together":
            raise ValidationError("A transaction may be in two windows: Transactions must be separate")


def endpoint(settings: Settings) -> str:
    """Return the URL at which processes of this machine reach the node."""
    scheme = "http" if settings.tls_cert is None else "https"
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104  # all addresses
    return f"{scheme}://[{host}]:{settings.port}" if ":" in host else f"{scheme}://{host}:{settings.port}"


def view_at(node: SubscriptionContext, table_id: int, label: int) -> TableView:
    """Return the view that formats have of a table during the stream with that label, or during none.

    The table may be deleted by now.
    """
    state = node.state
    log_id, partitions = node.log.genesis(0).log_id, node.partitions.count
    table = state.tables.get(table_id)
    periods: list[CapturePeriod] = state.capture_periods(table_id)
    period = next((each for each in periods if each.label == label), periods[-1] if periods else None)
    if period is None or period.label != label:
        if table is not None:
            return view_of(table.definition, log_id, partitions)
        assert period is not None, "a table whose changes are read was captured"
    return view_in(period, log_id, partitions, 0 if table is None else table.definition.created_ms)


def key_at(node: SubscriptionContext, table_id: int, item: bytes) -> tuple[bytes, bytes]:
    """Return the key of an item, or of a LastEvaluatedKey, of a table that is captured or exists."""
    return view_at(node, table_id, WATCHED).key.item_key(load(item), node.state.limits)


def _key(delivery: Delivery) -> dict[str, Any]:
    return delivery.table.key.decode(delivery.change.pk, delivery.change.sk)
