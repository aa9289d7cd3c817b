"""GET /metrics: the figures of this node in the text that Prometheus reads.

Nothing is counted for it on the way of a request: all of it is there anyway, and is read when somebody asks.
With keys it takes one with the right `monitor`, by HTTP's Basic scheme, which Prometheus speaks: key id and secret.
They are not hidden in it, so over the network that takes TLS.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

from ...materializer.feed_requests import Count
from ...materializer.worker import status_of
from ...model.errors import RequestError
from ...model.subscriptions.subscription import Status, Subscription
from ..clock import refused_ms
from ..node import Node
from ..partitions.scrub_process import KINDS, ScrubProcess
from ..subscriptions.async_partition import AsyncFeed

if TYPE_CHECKING:
    from prometheus_client import Metric

logger = logging.getLogger(__name__)

Samples: TypeAlias = Iterable[tuple[Mapping[str, object], float]]
"""Labels, and the figure that they tell from the others of its name."""


@dataclass(slots=True)
class Asked:
    """What has to be asked for.

    Attributes:
        feeds: What is kept of a table's changes, by partition and name of the table.
        lags: How far behind a subscription is, by partition; None where some partition did not say.
    """

    feeds: dict[tuple[int, str], Count] = field(default_factory=dict)
    lags: dict[str, dict[str, dict[str, int]] | None] = field(default_factory=dict)


def metrics(node: Node, done: Callable[[bytes | None], None]) -> None:
    """All figures, as soon as they are there; None if they cannot be told."""

    async def answer() -> None:
        page = None
        try:
            page = _page(node, await _ask(node))
        except Exception:
            logger.exception("the figures cannot be told")
        done(page)

    task = node.loop.create_task(answer())
    _under_way.add(task)
    task.add_done_callback(_under_way.discard)


_under_way: set[object] = set()  # the loop itself keeps no hold of its tasks


async def _ask(node: Node) -> Asked:
    asked = Asked()
    for number, hosted in list(node.partitions.hosted.items()):
        for table, windows in list(hosted.state.periods.items()):
            if table in node.state.tables:
                with suppress(RequestError):  # a segment is damaged; foldb_feed_damaged_segments says so
                    asked.feeds[number, windows[-1].name] = await AsyncFeed(hosted.partition).count(table, 0)
    for name in _own(node):
        try:
            asked.lags[name] = await node.triggers.lag(name)
        except (
            RequestError
        ):  # a partition that nobody leads at the moment; foldb_subscription_lag_known says so
            asked.lags[name] = None
    return asked


def _page(node: Node, asked: Asked) -> bytes:
    from prometheus_client import CollectorRegistry, generate_latest  # as slow to import as foldb itself

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(node, asked))
    return generate_latest(registry)


class _Collector:
    """Reads the figures of a node."""

    def __init__(self, node: Node, asked: Asked) -> None:
        self._node = node
        self._asked = asked

    def collect(self) -> Iterator["Metric"]:
        """One metric after another."""
        node = self._node
        yield from _of_partitions(node)
        refused_s = refused_ms(node.clock) / 1000
        yield _metric("clock_refused_seconds", "The step of the clock that is not taken.", [({}, refused_s)])
        yield _metric("memory_bytes", "About how much memory items take.", [({}, node.partitions.bytes())])
        if limit := node.settings.memory_limit_bytes:
            yield _metric("memory_limit_bytes", "How much they may take.", [({}, limit)])
        yield from _of_feeds(self._asked.feeds)
        yield from _of_repairs(node)
        yield from _of_scrubs(node.scrubbing)
        yield _statuses(_own(node))
        yield _letters(node)
        yield from _of_subscriptions(node.triggers.runner.figures())
        yield from _of_lags(self._asked.lags)


# Of what a partition says of itself, as figures.py names it.
_OF_PARTITION = {
    "position": ("log_offset", "The last entry of the log that is folded."),
    "waiting": ("waiting_commands", "Commands that wait for the log."),
    "waiting_bytes": ("waiting_bytes", "Their size."),
    "entries": ("entries_total", "Entries that this process appended."),
    "commands": ("commands_total", "Commands in them."),
    "refolded": ("refolded_commands_total", "Commands of others that this process folded."),
    "items": ("items", "Items of all tables."),
    "item_bytes": ("item_bytes", "Their size."),
    "stopped": ("stopped", "Whether the partition can go no further."),
}


def _of_partitions(node: Node) -> Iterator["Metric"]:
    hosted = node.partitions.hosted
    own = {number: status_of(each.worker) for number, each in hosted.items()}
    leading = [({"partition": number}, each.leading) for number, each in hosted.items()]
    yield _metric("leading", "Whether this node acts for the partition.", leading)
    times = [({"partition": number}, each["log_time"] / 1000) for number, each in own.items()]
    yield _metric("log_time_seconds", "Log time, in seconds since 1970.", times)
    leads = [({"partition": number}, lead / 1000) for number, lead in node.log_time_lead_ms.items()]
    yield _metric("log_time_lead_seconds", "How far log time is ahead of this node's clock.", leads)
    for figure, (name, text) in _OF_PARTITION.items():
        yield _metric(name, text, [({"partition": number}, each[figure]) for number, each in own.items()])
    unacknowledged = [
        ({"partition": number, "receiver": receiver}, count)
        for number, each in own.items()
        for receiver, count in each["unacknowledged"].items()
    ]
    yield _metric(
        "unacknowledged_messages", "Told to another partition and not yet folded there.", unacknowledged
    )


def _of_feeds(feeds: Mapping[tuple[int, str], Count]) -> Iterator["Metric"]:
    labelled = [({"partition": number, "table": table}, count) for (number, table), count in feeds.items()]
    yield _metric(
        "feed_changes",
        "Changes of a table that can be read.",
        [(each, count.changes) for each, count in labelled],
    )
    oldest = [(each, count.oldest_ms / 1000) for each, count in labelled if count.oldest_ms is not None]
    yield _metric("feed_oldest_seconds", "The log time of the oldest, in seconds since 1970.", oldest)


def _of_repairs(node: Node) -> Iterator["Metric"]:
    repairs = [({"partition": number}, each.feed.repairs) for number, each in node.partitions.hosted.items()]
    yield _metric(
        "feed_damaged_segments",
        "Change segments that are damaged and not yet made again from the log.",
        [(labels, each.damaged) for labels, each in repairs],
    )
    yield _metric(
        "feed_repaired_segments_total",
        "Change segments that were damaged and made again from the log.",
        [(labels, each.repaired) for labels, each in repairs],
    )


def _of_scrubs(scrubbing: ScrubProcess | None) -> Iterator["Metric"]:
    if scrubbing is None:
        return
    damaged = [({"kind": kind}, scrubbing.count(kind)) for kind in KINDS]
    yield _metric("scrub_damaged_files", "Damaged files that the last scrub found.", damaged)
    yield _metric("scrub_bytes_total", "Bytes that scrubs have read.", [({}, scrubbing.bytes)])
    finished_s = scrubbing.finished_ms / 1000
    yield _metric("scrub_finished_seconds", "When the last scrub ended, since 1970.", [({}, finished_s)])


def _own(node: Node) -> dict[str, Subscription]:
    """The subscriptions that this node runs, or would if they were not paused or stopped."""
    each = sorted(node.state.subscriptions.items())
    return {name: subscription for name, subscription in each if node.triggers.runner.leads(subscription)}


def _statuses(own: Mapping[str, Subscription]) -> "Metric":
    samples = [
        ({"subscription": name, "status": status}, subscription.status == status)
        for name, subscription in own.items()
        for status in get_args(Status)
    ]
    return _metric("subscription_status", "1 for the status that it has.", samples)


def _letters(node: Node) -> "Metric":
    """Each node counts those of its partitions; a table that several subscriptions share is counted once."""
    led = [hosted.state.tables for hosted in node.partitions.hosted.values() if hosted.leading]
    names = {each.settings["DeadLetterTable"] for each in node.state.subscriptions.values()}
    tables = {name: node.state.names[name] for name in sorted(names) if name in node.state.names}
    samples = [
        ({"table": name}, sum(own[table].items.count for own in led if table in own))
        for name, table in tables.items()
    ]
    return _metric("dead_letters", "Letters that wait in a table to be looked at.", samples)


# Of what a subscription says of itself, as figures.py names it.
_OF_SUBSCRIPTION = {
    "Calls": ("calls_total", "Calls of the sink."),
    "FailedCalls": ("failed_calls_total", "Calls that did not handle all they were given."),
    "Handled": ("handled_changes_total", "Changes that were handled, or passed over by a filter."),
    "Delivered": ("delivered_changes_total", "Changes that were delivered."),
    "DeadLetters": ("dead_letters_total", "Changes that were given up."),
    "ChangesPerSecond": ("changes_per_second", "Changes delivered in a second, over the last minute."),
}


def _of_subscriptions(running: Mapping[str, Mapping[str, Any]]) -> Iterator["Metric"]:
    for figure, (name, text) in _OF_SUBSCRIPTION.items():
        samples = [({"subscription": each}, own[figure]) for each, own in running.items()]
        yield _metric(f"subscription_{name}", text, samples)
    took = [
        ({"subscription": each, "quantile": f"0.{quantile[1:]}"}, milliseconds / 1000)
        for each, own in running.items()
        for quantile, milliseconds in own["CallMilliseconds"].items()
        if milliseconds is not None
    ]
    yield _metric("subscription_call_seconds", "How long calls took, over the last minute.", took)
    blocked = [({"subscription": each}, len(own["Failing"])) for each, own in running.items()]
    yield _metric("subscription_failing_changes", "Changes that have failed and are tried again.", blocked)


def _of_lags(lags: Mapping[str, Mapping[str, Mapping[str, int]] | None]) -> Iterator["Metric"]:
    known = [({"subscription": name}, own is not None) for name, own in lags.items()]
    yield _metric("subscription_lag_known", "Whether all partitions said how far it is.", known)
    each = [
        ({"subscription": name, "partition": partition}, behind)
        for name, own in lags.items()
        for partition, behind in (own or {}).items()
    ]
    behind = [(labels, lag["Records"]) for labels, lag in each]
    yield _metric("subscription_lag_changes", "Changes that are not handled yet.", behind)
    age = [(labels, lag["Milliseconds"] / 1000) for labels, lag in each]
    yield _metric("subscription_lag_seconds", "How long ago the oldest of them was made.", age)


def _metric(name: str, text: str, samples: Samples) -> "Metric":
    """A metric of ours; a counter's name ends in `_total`."""
    from prometheus_client import Metric

    metric = Metric(
        f"foldb_{name.removesuffix('_total')}", text, "counter" if name.endswith("_total") else "gauge"
    )
    for labels, value in samples:
        told = {label: str(each) for label, each in labels.items()}
        metric.add_sample(f"foldb_{name}", told, value)
    return metric
