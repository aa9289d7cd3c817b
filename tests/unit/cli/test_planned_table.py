"""Throttled requests of planned tables, on log time that the tests choose."""

import random
from dataclasses import replace
from typing import Any

import pytest

from foldb.cli.lib.item_writes import ItemWrite, Request
from foldb.cli.lib.planned_table import Plan, PlannedTable
from foldb.materializer.fold.outcomes import Units
from foldb.materializer.fold.storage import Stored
from foldb.model.limits import MODERN
from foldb.model.table_requests import create
from foldb.model.values import dump, item_size

START_MS = 1_800_000_000_000


def units_of(read: int, write: int) -> dict[str, int]:
    return {"ReadCapacityUnits": read, "WriteCapacityUnits": write}


def table(write: int, index: int | None = None) -> PlannedTable:
    """Return a table with provisioned write units, and an index of `state` if it is given units too."""
    request: dict[str, Any] = {
        "TableName": "Cars",
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
        "ProvisionedThroughput": units_of(1, write),
    }
    if index is not None:
        request["AttributeDefinitions"].append({"AttributeName": "state", "AttributeType": "S"})
        request["GlobalSecondaryIndexes"] = [
            {
                "IndexName": "states",
                "KeySchema": [{"AttributeName": "state", "KeyType": "HASH"}],
                "Projection": {"ProjectionType": "ALL"},
                "ProvisionedThroughput": units_of(1, index),
            }
        ]
    definition = create(request, table_id=1, uuid="uuid", time_ms=0, limits=MODERN)
    return PlannedTable(definition, MODERN)


def put(name: str, size: int = 100, state: str | None = None) -> ItemWrite:
    item = {"pk": {"S": name}, "text": {"S": ""}} | ({} if state is None else {"state": {"S": state}})
    item["text"] = {"S": "x" * (size - item_size(item, MODERN))}
    stored: Stored = dump(item), item_size(item, MODERN)
    return ItemWrite(1, name.encode(), b"", None, stored, Units(-(-size // 1024)))


def follow(
    planned: PlannedTable, writes: list[tuple[int, list[ItemWrite]]], *, is_counted: bool = True
) -> Plan:
    plan = Plan([planned])
    for after_ms, each in writes:
        plan.follow(Request(START_MS + after_ms, is_counted, each))
    return plan


@pytest.mark.parametrize("seed", range(5))
def test_throttled_writes_are_those_of_a_bucket(seed: int) -> None:
    """The model counts whole units, with the capacity of one second at first and of 300 seconds at most."""
    draw = random.Random(seed)
    rate, time_ms = draw.randrange(1, 30), 0
    balance, throttled, filled_ms = rate * 1000, 0, 0
    writes = []
    for nth in range(600):
        time_ms += 0 if nth == 0 else draw.choice((0, 0, 3, 20, 200, 90_000 if nth == 300 else 40))
        units = draw.choice((1, 1, 3))
        writes.append((time_ms, [put(f"car {nth}", 1024 * units)]))
        balance = min(300_000 * rate, balance + rate * (time_ms - filled_ms))
        filled_ms = time_ms
        if balance > 0:
            balance -= 1000 * units
        else:
            throttled += 1

    planned = table(rate)
    follow(planned, writes)

    assert 0 < throttled == planned.own.throttled < 600
    assert 600 == planned.own.store.count  # a throttled write is in the log, so it was written


@pytest.mark.parametrize(("state", "throttled"), [("on", 8), (None, 0)])
def test_an_index_throttles_the_writes_of_its_entries(state: str | None, throttled: int) -> None:
    planned = table(1000, index=2)

    follow(planned, [(0, [put(f"car {nth}", state=state)]) for nth in range(10)])

    assert (0, throttled) == (planned.own.throttled, planned.indexes["states"].throttled)


def test_a_transaction_is_admitted_as_one_request() -> None:
    planned = table(2)

    follow(planned, [(0, [put(f"car {tx} {nth}") for nth in range(3)]) for tx in range(3)])

    assert 2 == planned.own.throttled


def test_writes_before_the_period_use_no_capacity() -> None:
    planned = table(1)
    before = [(nth, [put(f"car {nth}")]) for nth in range(50)]

    follow(planned, before, is_counted=False)
    follow(planned, [(100, [put("car")])])

    assert (0, 1, 51) == (planned.own.throttled, planned.own.units, planned.own.store.count)


def test_a_key_is_throttled_at_the_rate_of_a_capacity_partition() -> None:
    hot, even = table(10_000), table(10_000)

    follow(hot, [(0, [put("car")]) for _ in range(1_500)])
    follow(even, [(0, [put(f"car {nth}")]) for nth in range(1_500)])

    assert (500, 0) == (hot.own.throttled, even.own.throttled)
    assert 1_500 == hot.own.units_of_keys[b"car"]


def test_a_key_of_an_index_is_throttled_at_that_rate_too() -> None:
    hot, even = table(10_000, index=10_000), table(10_000, index=10_000)

    follow(hot, [(0, [put(f"car {nth}", state="on")]) for nth in range(1_500)])
    follow(even, [(0, [put(f"car {nth}", state=f"on {nth}")]) for nth in range(1_500)])

    assert (0, 0) == (hot.own.throttled, even.own.throttled)
    assert (500, 0) == (hot.indexes["states"].throttled, even.indexes["states"].throttled)


def test_item_collections_above_the_limit_are_counted() -> None:
    small = replace(MODERN, collection_bytes=1_000)
    planned = PlannedTable(table(1).definition, small)

    follow(planned, [(0, [put("large", 1_500), put("small", 500)])])

    assert {b"large"} == planned.own.large
