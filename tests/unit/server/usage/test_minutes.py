"""Metrics by minute, and requests by operation."""

import random
from itertools import pairwise
from typing import Any

import pytest

from foldb.materializer.fold.state import PartitionState
from foldb.model.errors import (
    ConditionalCheckFailedError,
    InternalServerError,
    ProvisionedThroughputExceededError,
    ValidationError,
)
from foldb.model.limits import MODERN
from foldb.server.usage.metrics import METRICS, NodeMetrics, by_period, prometheus_name
from foldb.server.usage.minutes import MINUTE_MS, Minute, Minutes, Series
from foldb.server.usage.operations import BUCKETS, Latencies, Operations
from foldb.server.usage.usage import Statistics, Usage
from tests.unit.server.usage.test_counts import create, key
from tests.verification.fuzz.inside import Inside

CONSUMED = Series("ConsumedReadCapacityUnits", "Cars")


def get(inside: Inside, times: int) -> None:
    for _ in range(times):
        request = {"TableName": "Cars", "Key": key(random.Random(0)), "ConsistentRead": True}
        assert inside.ask("GetItem", request)[0] == 200


def test_a_minute_has_the_requests_of_that_minute() -> None:
    inside = Inside()
    create(inside, "Cars")
    metrics, begin_ms = inside.node.metrics, inside.loop.clock() // MINUTE_MS * MINUTE_MS

    for minute, times in enumerate((3, 0, 2)):
        get(inside, times)
        metrics.tick(begin_ms + minute * MINUTE_MS + MINUTE_MS - 1)
        metrics.tick(begin_ms + (minute + 1) * MINUTE_MS)
    get(inside, 1)

    found = metrics.read(begin_ms, begin_ms + 4 * MINUTE_MS)
    assert [
        (0, Statistics(6, 3, 2, 2)),
        (1, None),
        (2, Statistics(4, 2, 2, 2)),
        (3, Statistics(2, 1, 2, 2)),
    ] == [((each.begin_ms - begin_ms) // MINUTE_MS, each.values.get(CONSUMED)) for each in found]
    assert [1] == [
        (each.begin_ms - begin_ms) // MINUTE_MS
        for each in metrics.read(begin_ms + MINUTE_MS, begin_ms + 2 * MINUTE_MS)
    ]


def test_a_clock_that_is_set_back_continues_the_minute() -> None:
    inside = Inside()
    create(inside, "Cars")
    metrics, now_ms = inside.node.metrics, inside.loop.clock()

    get(inside, 1)
    metrics.tick(now_ms - 5 * MINUTE_MS)
    get(inside, 1)
    metrics.tick(now_ms + MINUTE_MS)

    (minute,) = (each for each in metrics.read(0, now_ms + MINUTE_MS) if CONSUMED in each.values)
    assert Statistics(4, 2, 2, 2) == minute.values[CONSUMED]


@pytest.mark.spec("S71", served=False)
def test_a_week_of_minutes_keeps_the_last_day() -> None:
    minutes = Minutes()
    week = 7 * 24 * 60

    for minute in range(week):
        minutes.add(Minute(minute * MINUTE_MS, {CONSUMED: Statistics(1, 1, 1, 1)}))

    assert 24 * 60 == len(list(minutes.between(0, week * MINUTE_MS)))


def test_many_tables_keep_fewer_minutes() -> None:
    minutes = Minutes()
    values = {Series("UserErrors", str(table)): Statistics(1, 1, 1, 1) for table in range(30_000)}

    for minute in range(10):
        minutes.add(Minute(minute * MINUTE_MS, values))

    assert [7, 8, 9] == [each.begin_ms // MINUTE_MS for each in minutes.between(0, 10 * MINUTE_MS)]


def test_periods_add_up_minutes_and_nodes() -> None:
    first, second = Statistics(4, 2, 1, 3), Statistics(7, 1, 7, 7)
    of_a, of_b = Minute(5 * MINUTE_MS, {CONSUMED: first}), Minute(9 * MINUTE_MS, {CONSUMED: second})
    of_c = Minute(10 * MINUTE_MS, {CONSUMED: first})

    assert {CONSUMED: {5 * MINUTE_MS: Statistics(11, 3, 1, 7), 10 * MINUTE_MS: first}} == by_period(
        [of_a, of_b, of_c], 5 * MINUTE_MS
    )


def test_a_duration_is_in_the_bucket_below_its_bound() -> None:
    draw, latencies = random.Random(3), Latencies()
    micros = [
        1,
        *BUCKETS,
        *(each + 1 for each in BUCKETS),
        *(draw.randrange(40_000_000) for _ in range(1000)),
    ]

    latencies.durations += [(each + 0.5) / 1_000_000 for each in micros]
    latencies.settle()
    latencies.settle()

    bounds = [0, *BUCKETS, 1 << 40]
    pairs = list(pairwise(bounds))
    assert [sum(low < each <= high for each in micros) for low, high in pairs] == latencies.counts
    assert latencies.minute == Statistics(sum(micros), len(micros), min(micros), max(micros))


def test_only_other_errors_of_clients_are_user_errors() -> None:
    operations = Operations()
    usage = operations["PutItem", "Cars"]
    reasons = [{"reason": "TableWriteProvisionedThroughputExceeded", "resource": "arn"}]

    operations.count_error(usage, ValidationError("bad"))
    operations.count_error(usage, ConditionalCheckFailedError())
    operations.count_error(usage, ProvisionedThroughputExceededError(None, reasons))
    operations.count_error(usage, InternalServerError())
    operations.count_error(None, ValidationError("no operation"))

    sums = [each.total[0] for each in (operations.user_errors, usage.throttled, usage.system_errors)]
    assert [2, 1, 1] == sums


def test_names_of_missing_tables_take_no_memory() -> None:
    inside = Inside()

    for number in range(20):
        inside.ask("Scan", {"TableName": f"Missing{number}"})

    assert [("Scan", "")] == list(inside.node.metrics.operations)


def test_a_table_has_one_name_by_its_arn_too() -> None:
    inside = Inside()
    create(inside, "Cars")
    arn = inside.ask("DescribeTable", {"TableName": "Cars"})[1]["Table"]["TableArn"]

    inside.ask("Scan", {"TableName": arn})
    inside.ask("Scan", {"TableName": "Cars"})

    assert {"Cars", ""} == {table for _, table in inside.node.metrics.operations}


def ask(inside: Inside, **body: Any) -> tuple[int, Any]:
    return inside.ask("Foldb_20261121.Metrics", body)


def test_the_operation_returns_units_and_dimensions() -> None:
    inside = Inside()
    create(inside, "Cars", BillingMode="PROVISIONED", ProvisionedThroughput=units(5, 7))
    get(inside, 3)
    inside.ask("Query", {**of_g(), "TableName": "Cars", "IndexName": "Global"})

    _, body = ask(inside, TableName="Cars", Period=3600)

    found = {
        (each["MetricName"], *each["Dimensions"].values()): each["Datapoints"][-1] for each in body["Metrics"]
    }
    assert (
        found["ConsumedReadCapacityUnits", "Cars"].items()
        >= {"Sum": 3.0, "SampleCount": 3, "Average": 1.0}.items()
    )
    assert found["ConsumedReadCapacityUnits", "Cars", "Global"]["Sum"] == 0.5
    assert found["ProvisionedWriteCapacityUnits", "Cars"]["Average"] == 7
    assert found["ReturnedItemCount", "Cars", "Query"]["Sum"] == 0


def test_the_operation_refuses_what_it_cannot_return() -> None:
    inside = Inside()
    for body in ({"MetricName": "Nothing"}, {"Period": 90}, {"StartTime": "now"}, {"TableName": "Missing"}):
        assert ask(inside, **body)[0] == 400


def test_names_of_metrics_are_those_of_cloudwatch_in_snake_case() -> None:
    assert (
        "foldb_consumed_write_capacity_units_total"
        == f"foldb_{prometheus_name('ConsumedWriteCapacityUnits')}"
    )
    assert len(METRICS) == len({prometheus_name(each) for each in METRICS})


def test_a_dropped_table_has_no_metrics() -> None:
    inside = Inside()
    create(inside, "Cars")
    get(inside, 1)
    inside.ask("DeleteTable", {"TableName": "Cars"})

    assert {""} == {series.table for series, _ in inside.node.metrics.totals()}
    assert not NodeMetrics(Usage(), PartitionState(limits=MODERN), lambda: 0).operations


def units(read: int, write: int) -> dict[str, int]:
    return {"ReadCapacityUnits": read, "WriteCapacityUnits": write}


def of_g() -> dict[str, Any]:
    return {"KeyConditionExpression": "g = :g", "ExpressionAttributeValues": {":g": {"S": "g1"}}}


def test_a_deleted_index_has_no_metrics() -> None:
    inside = Inside()
    create(inside, "Cars")
    row = {key: {"S": "1"} for key in "psg"}
    inside.ask("PutItem", {"TableName": "Cars", "Item": row})
    assert {"", "Global"} == {series.gsi for series, _ in inside.node.metrics.totals()}

    update = [{"Delete": {"IndexName": "Global"}}]
    assert inside.ask("UpdateTable", {"TableName": "Cars", "GlobalSecondaryIndexUpdates": update})[0] == 200
    inside.loop.advance(1)

    assert {""} == {series.gsi for series, _ in inside.node.metrics.totals()}
