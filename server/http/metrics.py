"""GET /metrics: the metrics of this node in the text format of Prometheus.

Requests increment plain integers (usage/). The page is made when it is requested, of these and of values that exist in
any case. CloudWatch's metrics have its names in snake case: ConsumedReadCapacityUnits becomes
foldb_consumed_read_capacity_units_total. With access keys the page needs a key with the right `monitor`, as the user
name and password of HTTP's Basic scheme, which Prometheus supports. That scheme does not encrypt the secret, so other
machines need TLS.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from itertools import accumulate
from operator import add
from typing import Any, TypeAlias, get_args

from prometheus_client import CollectorRegistry, Metric, generate_latest

from ...materializer.feed_requests import ChangeCount
from ...materializer.fold.outbox import oldest_entry_time
from ...materializer.worker import status_of
from ...model.errors import RequestError
from ...model.keys import SLOTS
from ...model.lazy_dataclass import dataclass
from ...model.slots import CATALOG
from ...model.subscriptions.subscription import Status, Subscription
from ...version import __version__, build
from ..clock import refused_ms
from ..node import Node
from ..partitions.scrub_process import KINDS, ScrubProcess
from ..subscriptions.async_partition import AsyncFeed
from ..usage.metrics import LATENCY, METRICS, prometheus_name
from ..usage.operations import BUCKETS, Operations

logger = logging.getLogger(__name__)

Samples: TypeAlias = Iterable[tuple[Mapping[str, object], float]]
"""The values of a metric, each with its labels."""


@dataclass(slots=True)
class Collected:
    """The values that partitions were asked for.

    Attributes:
        feeds: The kept changes of a table, by partition id and name of the table.
        lags: The lag of a subscription, by partition; None if a partition did not answer.
    """

    feeds: dict[tuple[int, str], ChangeCount] = field(default_factory=dict)
    lags: dict[str, dict[str, dict[str, int]] | None] = field(default_factory=dict)


def metrics(node: Node, callback: Callable[[bytes | None], None]) -> None:
    """Collect all metrics and pass the page to `callback`; None if that fails."""

    async def answer() -> None:
        page = None
        try:
            page = _page(node, await _collect(node))
        except Exception:
            logger.exception("failed to collect metrics; the client receives status 500")
        callback(page)

    task = node.loop.create_task(answer())
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


_tasks: set[object] = set()  # the event loop keeps only weak references to tasks


async def _collect(node: Node) -> Collected:
    collected = Collected()
    for partition_id, hosted in list(node.partitions.hosted.items()):
        for table, windows in list(hosted.state.periods.items()):
            if table in node.state.tables:
                with suppress(
                    RequestError
                ):  # a segment is damaged, which foldb_feed_damaged_segments reports
                    collected.feeds[partition_id, windows[-1].name] = await AsyncFeed(hosted.partition).count(
                        table, 0
                    )
    for name in _own(node):
        try:
            collected.lags[name] = await node.triggers.lag(name)
        except RequestError:  # a partition has no owner now, which foldb_subscription_lag_known reports
            collected.lags[name] = None
    return collected


def _page(node: Node, collected: Collected) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(node, collected))
    return generate_latest(registry)


class _Collector:
    """Returns the metrics of a node to the Prometheus client."""

    def __init__(self, node: Node, collected: Collected) -> None:
        self._node = node
        self._collected = collected

    def collect(self) -> Iterator[Metric]:
        node = self._node
        labels = {"release": __version__, "build": build()}
        yield _metric("build_info", "1; the labels name the release and the build.", [(labels, 1)])
        yield from _of_partitions(node)
        yield from _of_requests(node)
        refused_s = refused_ms(node.clock) / 1000
        yield _metric(
            "clock_refused_seconds",
            "Refused step of the system clock, in seconds.",
            [({}, refused_s)],
        )
        yield _metric(
            "memory_bytes",
            "Approximate memory of items and index entries, in bytes.",
            [({}, node.partitions.bytes())],
        )
        if limit := node.settings.memory_limit_bytes:
            yield _metric("memory_limit_bytes", "Limit of that memory, in bytes.", [({}, limit)])
        yield from _of_read_lags(node)
        yield from _of_feeds(self._collected.feeds)
        yield from _of_repairs(node)
        yield from _of_scrubs(node.scrubbing)
        yield _statuses(_own(node))
        yield _dead_letters(node)
        yield from _of_subscriptions(node.triggers.runner.figures())
        yield from _of_lags(self._collected.lags)


# From the status of a partition: the name of the metric and its help text.
_OF_PARTITION = {
    "position": ("log_offset", "Offset of the last folded entry."),
    "waiting": ("queued_commands", "Commands that wait for an append to the log."),
    "waiting_bytes": ("queued_bytes", "Size of the commands that wait for an append, in bytes."),
    "entries": ("entries_total", "Entries that this process appended."),
    "commands": ("commands_total", "Commands in the entries that this process appended."),
    "refolded": ("refolded_commands_total", "Commands that this process folded but did not append."),
    "items": ("items", "Items of all tables."),
    "item_bytes": ("item_bytes", "Size of the items of all tables, in bytes."),
    "stopped": ("stopped", "1 if the partition has stopped after an error, else 0."),
}


def _of_partitions(node: Node) -> Iterator[Metric]:
    hosted = node.partitions.hosted
    own = {partition_id: status_of(each.worker) for partition_id, each in hosted.items()}
    owned = [({"partition": partition_id}, each.leading) for partition_id, each in hosted.items()]
    yield _metric("owner", "1 if this node is the owner of the partition, else 0.", owned)
    times = [({"partition": partition_id}, each["log_time"] / 1000) for partition_id, each in own.items()]
    yield _metric("log_time_seconds", "Log time, in seconds since 1970.", times)
    begins = [({"partition": partition_id}, node.log.begin(partition_id)) for partition_id in hosted]
    yield _metric("log_begin_offset", "Offset of the first record: 0, or the history horizon.", begins)
    horizon_s = (node.log.horizon_ms or 0) / 1000
    yield _metric(
        "history_horizon_seconds",
        "Log time of the history horizon, in seconds since 1970; 0 if the log has its whole history.",
        [({}, horizon_s)],
    )
    leads = [
        ({"partition": partition_id}, lead / 1000) for partition_id, lead in node.log_time_lead_ms.items()
    ]
    yield _metric("log_time_lead_seconds", "Lead of log time over this node's clock, in seconds.", leads)
    for figure, (name, text) in _OF_PARTITION.items():
        yield _metric(
            name, text, [({"partition": partition_id}, each[figure]) for partition_id, each in own.items()]
        )
    unacknowledged = [
        ({"partition": partition_id, "receiver": receiver}, count)
        for partition_id, each in own.items()
        for receiver, count in each["unacknowledged"].items()
    ]
    yield _metric(
        "unacknowledged_messages",
        "Messages to another partition that it has not acknowledged.",
        unacknowledged,
    )
    yield _metric(
        "index_lag_seconds",
        "Age of the oldest entry of a global index that another partition has not acknowledged, in seconds.",
        _index_lags(node),
    )


def _index_lags(node: Node) -> Samples:
    """Yield the lag of the partitions that this node owns, whose state has the newest acknowledgements."""
    now_ms = node.clock()
    for partition_id, hosted in node.partitions.hosted.items():
        if hosted.leading:
            oldest_ms = oldest_entry_time(hosted.state)
            yield {"partition": partition_id}, 0 if oldest_ms is None else max(0, now_ms - oldest_ms) / 1000


def _of_read_lags(node: Node) -> Iterator[Metric]:
    lags = [
        ({"partition": partition_id, "of": of}, lag)
        for partition_id, each in node.partitions.lagging.items()
        for of, lag in (("tables", each.of_tables), ("indexes", each.of_indexes))
        if lag.limit_ms
    ]
    if not lags:
        return
    limits = [(labels, lag.limit_ms / 1000) for labels, lag in lags]
    yield _metric(
        "read_lag_limit_seconds", "Maximum age of the state that a read may see, in seconds.", limits
    )
    reads = [(labels, lag.reads) for labels, lag in lags]
    yield _metric("lagging_reads_total", "Reads that drew an age of their state.", reads)
    ages = [(labels, lag.total_ms / 1000) for labels, lag in lags]
    yield _metric("read_lag_seconds_total", "Sum of these ages, in seconds.", ages)
    stale = [(labels, lag.stale_reads) for labels, lag in lags]
    yield _metric("stale_reads_total", "Reads among them whose items had been written since.", stale)


def _of_requests(node: Node) -> Iterator[Metric]:
    """Yield CloudWatch's metrics. Only the catalog's owner has provisioned units: Prometheus adds up the nodes."""
    samples: dict[str, list[tuple[Mapping[str, object], float]]] = {
        name: [] for name in METRICS if name != LATENCY
    }
    is_owner = node.partitions.hosted[CATALOG].leading
    for series, value in node.metrics.totals():
        if is_owner or not METRICS[series.metric].is_gauge:
            labels = {"table": series.table, "index": series.gsi, "operation": series.operation}
            shown = {label: each for label, each in labels.items() if each}
            samples[series.metric].append((shown, value))
    for name, each in samples.items():
        yield _metric(prometheus_name(name), METRICS[name].help, each)
    yield _latencies(node.metrics.operations)
    yield _metric(
        "online_index_percentage_progress",
        "Part of the key space that the backfill of a new global index has read in the partitions of this node.",
        _filled(node),
    )


def _latencies(operations: Operations) -> Metric:
    """Return the histogram of durations by operation, over all tables."""
    counts: dict[str, list[int]] = {}
    sums: dict[str, int] = {}
    for (operation, _), usage in operations.items():
        own = usage.latencies
        sums[operation] = sums.get(operation, 0) + own.sum_us
        counts[operation] = [*map(add, counts.get(operation, [0] * len(own.counts)), own.counts)]
    metric = Metric(
        "foldb_successful_request_latency_seconds",
        "Duration of successful requests, in seconds.",
        "histogram",
    )
    bounds = [*(f"{bound / 1_000_000:g}" for bound in BUCKETS), "+Inf"]
    for operation, each in sorted(counts.items()):
        labels = {"operation": operation}
        for bound, count in zip(bounds, accumulate(each), strict=True):
            metric.add_sample(f"{metric.name}_bucket", {**labels, "le": bound}, count)
        metric.add_sample(f"{metric.name}_count", labels, sum(each))
        metric.add_sample(f"{metric.name}_sum", labels, sums[operation] / 1_000_000)
    return metric


def _filled(node: Node) -> Samples:
    led = [each.worker for each in node.partitions.hosted.values() if each.leading]
    for table_id in sorted(node.state.unsettled):
        table = node.state.tables[table_id]
        for index in table.definition.gsis:
            if index.backfilling:
                filled = [status_of(each, table_id)["filled_slots"].get(str(index.id), 0) for each in led]
                yield {"table": table.definition.name, "index": index.name}, 100 * sum(filled) / SLOTS


def _of_feeds(feeds: Mapping[tuple[int, str], ChangeCount]) -> Iterator[Metric]:
    labelled = [
        ({"partition": partition_id, "table": table}, count) for (partition_id, table), count in feeds.items()
    ]
    yield _metric(
        "feed_changes",
        "Changes of a table that the feed keeps.",
        [(each, count.changes) for each, count in labelled],
    )
    oldest = [(each, count.oldest_ms / 1000) for each, count in labelled if count.oldest_ms is not None]
    yield _metric("feed_oldest_seconds", "Log time of the oldest kept change, in seconds since 1970.", oldest)


def _of_repairs(node: Node) -> Iterator[Metric]:
    repairs = [
        ({"partition": partition_id}, each.feed.repairs)
        for partition_id, each in node.partitions.hosted.items()
    ]
    drops = [
        ({"partition": partition_id}, each.feed.drops)
        for partition_id, each in node.partitions.hosted.items()
    ]
    yield _metric(
        "feed_drops_total",
        "Times that the feed of a table dropped its oldest changes, because the disk did not take them.",
        drops,
    )
    yield _metric(
        "feed_damaged_segments",
        "Change segments that are damaged and not yet remade from the log.",
        [(labels, each.damaged) for labels, each in repairs],
    )
    yield _metric(
        "feed_repaired_segments_total",
        "Change segments that were damaged and have been remade from the log.",
        [(labels, each.repaired) for labels, each in repairs],
    )


def _of_scrubs(scrubbing: ScrubProcess | None) -> Iterator[Metric]:
    if scrubbing is None:
        return
    damaged = [({"kind": kind}, scrubbing.count(kind)) for kind in KINDS]
    yield _metric("scrub_damaged_files", "Damaged files that the last scrub found.", damaged)
    yield _metric("scrub_bytes_total", "Bytes that scrubs have read.", [({}, scrubbing.bytes)])
    finished_s = scrubbing.finished_ms / 1000
    yield _metric(
        "scrub_finished_seconds",
        "End of the last scrub, in seconds since 1970; 0 before the first.",
        [({}, finished_s)],
    )


def _own(node: Node) -> dict[str, Subscription]:
    """Return the subscriptions whose home partition this node owns, also paused and stopped ones."""
    each = sorted(node.state.subscriptions.items())
    return {name: subscription for name, subscription in each if node.triggers.runner.leads(subscription)}


def _statuses(own: Mapping[str, Subscription]) -> Metric:
    samples = [
        ({"subscription": name, "status": status}, subscription.status == status)
        for name, subscription in own.items()
        for status in get_args(Status)
    ]
    return _metric(
        "subscription_status", "1 for the current status of the subscription, 0 for the others.", samples
    )


def _dead_letters(node: Node) -> Metric:
    """Count the dead letters in the partitions that this node owns. A table of several subscriptions counts once."""
    led = [hosted.state.tables for hosted in node.partitions.hosted.values() if hosted.leading]
    names = {each.settings["DeadLetterTable"] for each in node.state.subscriptions.values()}
    tables = {name: node.state.names[name] for name in sorted(names) if name in node.state.names}
    samples = [
        ({"table": name}, sum(own[table].items.count for own in led if table in own))
        for name, table in tables.items()
    ]
    return _metric("dead_letters", "Dead letters in a dead-letter table.", samples)


# From the metrics of a subscription: the end of the metric's name and its help text.
_OF_SUBSCRIPTION = {
    "Calls": ("calls_total", "Calls of the sink."),
    "FailedCalls": ("failed_calls_total", "Calls that did not handle every change of their batch."),
    "Handled": (
        "handled_changes_total",
        "Changes that were handled or skipped by a filter.",
    ),
    "Delivered": ("delivered_changes_total", "Changes that were delivered."),
    "DeadLetters": ("dead_letters_total", "Changes that became dead letters."),
    "ChangesPerSecond": ("changes_per_second", "Changes delivered per second, over the last minute."),
}


def _of_subscriptions(running: Mapping[str, Mapping[str, Any]]) -> Iterator[Metric]:
    for figure, (name, text) in _OF_SUBSCRIPTION.items():
        samples = [({"subscription": each}, own[figure]) for each, own in running.items()]
        yield _metric(f"subscription_{name}", text, samples)
    took = [
        ({"subscription": each, "quantile": f"0.{quantile[1:]}"}, milliseconds / 1000)
        for each, own in running.items()
        for quantile, milliseconds in own["CallMilliseconds"].items()
        if milliseconds is not None
    ]
    yield _metric("subscription_call_seconds", "Duration of calls over the last minute, in seconds.", took)
    blocked = [({"subscription": each}, len(own["Failing"])) for each, own in running.items()]
    yield _metric("subscription_failing_changes", "Changes that have failed and are being retried.", blocked)


def _of_lags(lags: Mapping[str, Mapping[str, Mapping[str, int]] | None]) -> Iterator[Metric]:
    known = [({"subscription": name}, own is not None) for name, own in lags.items()]
    yield _metric("subscription_lag_known", "1 if every partition reported the lag, else 0.", known)
    each = [
        ({"subscription": name, "partition": partition}, behind)
        for name, own in lags.items()
        for partition, behind in (own or {}).items()
    ]
    behind = [(labels, lag["Records"]) for labels, lag in each]
    yield _metric("subscription_lag_changes", "Changes that are not handled yet.", behind)
    age = [(labels, lag["Milliseconds"] / 1000) for labels, lag in each]
    yield _metric(
        "subscription_lag_seconds", "Age of the oldest change that is not handled, in seconds.", age
    )


def _metric(name: str, text: str, samples: Samples) -> Metric:
    """Return a metric with the prefix foldb_. The name of a counter ends in `_total`."""
    metric = Metric(
        f"foldb_{name.removesuffix('_total')}", text, "counter" if name.endswith("_total") else "gauge"
    )
    for labels, value in samples:
        text_labels = {label: str(each) for label, each in labels.items()}
        metric.add_sample(f"foldb_{name}", text_labels, value)
    return metric
