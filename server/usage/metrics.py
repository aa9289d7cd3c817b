"""CloudWatch's metrics of DynamoDB, from the counters of this node.

    Usage, Operations ──tick──► counters of the minute ──► Minutes        JSON, by minute: `read`
                          └───► totals since the start                    Prometheus: `totals`

Counters have integers: half units, and microseconds. A metric divides them by its `scale`.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from ...materializer.fold.state import PartitionState
from ...model.tables import IndexDefinition, TableDefinition
from .minutes import MINUTE_MS, Minute, Minutes, Series
from .operations import Operations
from .usage import Counter, PartUsage, Statistics, Usage, merged


class Metric(NamedTuple):
    """A metric of CloudWatch.

    Attributes:
        help: Its meaning.
        scale: The counted integers are this many times the metric.
        is_gauge: Whether it is a value of the present, and not a sum of requests.
    """

    help: str
    scale: int = 1
    is_gauge: bool = False


METRICS: Final[dict[str, Metric]] = {
    "ConsumedReadCapacityUnits": Metric("Read units that requests consumed.", 2),
    "ConsumedWriteCapacityUnits": Metric("Write units that requests consumed.", 2),
    "ProvisionedReadCapacityUnits": Metric("Provisioned read units a second.", is_gauge=True),
    "ProvisionedWriteCapacityUnits": Metric("Provisioned write units a second.", is_gauge=True),
    "ReadThrottleEvents": Metric("Reads of an item or a page that were throttled."),
    "WriteThrottleEvents": Metric("Writes of an item that were throttled."),
    "ThrottledRequests": Metric("Requests that were throttled as a whole."),
    "SuccessfulRequestLatency": Metric("Duration of successful requests, in milliseconds.", 1000),
    "UserErrors": Metric("Answers with status 400, except for throttled requests and failed conditions."),
    "SystemErrors": Metric("Answers with status 500 or more."),
    "ReturnedItemCount": Metric("Items that pages of Query and Scan returned."),
    "ConditionalCheckFailedRequests": Metric("Writes of an item whose condition did not hold."),
    "TransactionConflict": Metric("Reads and writes of an item that met a transaction."),
}

LATENCY: Final = "SuccessfulRequestLatency"


def prometheus_name(metric: str) -> str:
    """Return the name of a metric in Prometheus, without the prefix foldb_.

    >>> prometheus_name("ConsumedReadCapacityUnits"), prometheus_name("ProvisionedReadCapacityUnits")
    ('consumed_read_capacity_units_total', 'provisioned_read_capacity_units')
    """
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", metric).lower()
    if metric == LATENCY:
        return f"{name}_seconds"
    return name if METRICS[metric].is_gauge else f"{name}_total"


_Counted: TypeAlias = tuple[Counter, str, str, str, str]
"""A counter and the dimensions of its Series."""


class NodeMetrics:
    """The metrics of the requests that this node received.

    Attributes:
        operations: The counters by operation and table.
    """

    def __init__(self, usage: Usage, state: PartitionState, clock: Callable[[], int]) -> None:
        self.operations = Operations()
        self._usage = usage
        self._state = state
        self._minutes = Minutes()
        self._begin_ms = _minute_of(clock())

    def settle(self) -> None:
        """Settle the counters of tables and operations."""
        self._usage.settle(self._state.tables)
        self.operations.settle(self._state.names)

    def tick(self, now_ms: int) -> None:
        """Settle the counters, and close the minute if it has ended. Call it every second."""
        self.settle()
        begin_ms = _minute_of(now_ms)
        if begin_ms > self._begin_ms:  # a clock that is set back continues the minute
            self._minutes.add(Minute(self._begin_ms, dict(self._present(Counter.close))))
            self._begin_ms = begin_ms
            for each in self.operations.values():
                each.latencies.close()

    def read(self, begin_ms: int, end_ms: int) -> list[Minute]:
        """Return the minutes that begin at or after a time and before another one, the present one included."""
        self.settle()
        minutes = list(self._minutes.between(begin_ms, end_ms))
        if begin_ms <= self._begin_ms < end_ms:
            minutes.append(Minute(self._begin_ms, dict(self._present(Counter.present))))
        return minutes

    def totals(self) -> Iterator[tuple[Series, float]]:
        """Yield the sums since the start, and the gauges."""
        self.settle()
        for counter, metric, table, index, operation in self._counters():
            series = Series(metric, table, index, operation)
            yield series, counter.total[0] / METRICS[series.metric].scale
        yield from self._gauges()

    def _present(
        self, statistics: Callable[[Counter], Statistics | None]
    ) -> Iterator[tuple[Series, Statistics]]:
        """Yield the statistics of the present minute. `statistics` returns those of a counter, and may close it."""
        for counter, metric, table, index, operation in self._counters():
            if counter.samples and (present := statistics(counter)) is not None:
                yield Series(metric, table, index, operation), present
        for (operation, table), each in self.operations.items():
            if each.latencies.minute is not None:
                yield Series(LATENCY, table, operation=operation), each.latencies.minute
        for series, value in self._gauges():
            yield series, Statistics(value, 1, value, value)

    def _counters(self) -> Iterator[_Counted]:
        """Yield all counters. Few have samples, so the Series of one is made where it is needed."""
        for table_id, usage in self._usage.items():
            table = self._state.tables.get(table_id)
            if table is None:
                continue
            name = table.definition.name
            yield from _of_part(usage, name, "")
            for index, part in usage.indexes.items():
                if table.definition.index(index) is not None:  # else it is deleted
                    yield from _of_part(part, name, index)
            yield usage.failed_conditions, "ConditionalCheckFailedRequests", name, "", ""
            yield usage.conflicts, "TransactionConflict", name, "", ""
            yield usage.queried, "ReturnedItemCount", name, "", "Query"
            yield usage.scanned, "ReturnedItemCount", name, "", "Scan"
        for (operation, name), each in self.operations.items():
            yield each.throttled, "ThrottledRequests", name, "", operation
            yield each.system_errors, "SystemErrors", name, "", operation
        yield self.operations.user_errors, "UserErrors", "", "", ""

    def _gauges(self) -> Iterator[tuple[Series, int]]:
        for table in self._state.tables.values():
            definition = table.definition
            if definition.billing_mode == "PAY_PER_REQUEST":
                continue
            parts: list[tuple[str, TableDefinition | IndexDefinition]] = [("", definition)]
            parts += [(index.name, index) for index in definition.gsis]
            for index_name, part in parts:
                read, write = part.throughput.read, part.throughput.write
                yield Series("ProvisionedReadCapacityUnits", definition.name, index_name), read
                yield Series("ProvisionedWriteCapacityUnits", definition.name, index_name), write


def _of_part(part: PartUsage, table: str, index: str) -> Iterator[_Counted]:
    yield part.reads, "ConsumedReadCapacityUnits", table, index, ""
    yield part.writes, "ConsumedWriteCapacityUnits", table, index, ""
    yield part.read_throttles, "ReadThrottleEvents", table, index, ""
    yield part.write_throttles, "WriteThrottleEvents", table, index, ""


def by_period(minutes: list[Minute], period_ms: int) -> dict[Series, dict[int, Statistics]]:
    """Return the statistics of periods by the time of their begin. `minutes` may be those of several nodes."""
    found: dict[Series, dict[int, list[Statistics]]] = {}
    for minute in minutes:
        begin_ms = minute.begin_ms - minute.begin_ms % period_ms
        for series, value in minute.values.items():
            found.setdefault(series, {}).setdefault(begin_ms, []).append(value)
    return {
        series: {
            begin_ms: total
            for begin_ms, each in sorted(periods.items())
            if (total := merged(each)) is not None
        }
        for series, periods in found.items()
    }


def to_json(series: Series, periods: dict[int, Statistics]) -> dict[str, Any]:
    """Return a metric in the form of the operation Metrics."""
    scale = METRICS[series.metric].scale
    dimensions = {
        "TableName": series.table,
        "GlobalSecondaryIndexName": series.gsi,
        "Operation": series.operation,
    }
    return {
        "MetricName": series.metric,
        "Dimensions": {name: value for name, value in dimensions.items() if value},
        "Datapoints": [
            {
                "Timestamp": begin_ms,
                "Sum": each.sum / scale,
                "SampleCount": each.samples,
                "Average": each.sum / each.samples / scale,
                "Minimum": each.minimum / scale,
                "Maximum": each.maximum / scale,
            }
            for begin_ms, each in periods.items()
        ],
    }


def _minute_of(time_ms: int) -> int:
    return time_ms - time_ms % MINUTE_MS
