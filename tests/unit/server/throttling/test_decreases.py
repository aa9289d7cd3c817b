"""Decreases of provisioned throughput on a clock of their own, from one day to the next."""

import itertools
from dataclasses import replace
from typing import Any

import pytest

from foldb.model.errors import LimitExceededError
from foldb.model.limits import MODERN
from foldb.model.table_requests import change, create
from foldb.model.tables import TableDefinition
from foldb.server.throttling.decreases import check_decreases

MIDNIGHT_MS = 1_676_246_400_000  # Monday, February 13, 2023
SECOND_MS, HOUR_MS = 1_000, 3_600_000
INDEX = {
    "IndexName": "ByColour",
    "KeySchema": [{"AttributeName": "colour", "KeyType": "HASH"}],
    "Projection": {"ProjectionType": "ALL"},
}


def units(number: int) -> dict[str, dict[str, int]]:
    return {"ProvisionedThroughput": {"ReadCapacityUnits": number, "WriteCapacityUnits": number}}


def ready(table: TableDefinition) -> TableDefinition:
    indexes = tuple(replace(index, status="ACTIVE") for index in table.indexes)
    return replace(table, status="ACTIVE", indexes=indexes)


def cars() -> TableDefinition:
    names = [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "colour")]
    request = {
        "TableName": "Cars",
        "AttributeDefinitions": names,
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
        "GlobalSecondaryIndexes": [INDEX | units(1000)],
        **units(1000),
    }
    table = create(request, table_id=1, uuid="uuid", time_ms=0, limits=MODERN)
    return ready(table)


def updated(table: TableDefinition, time_ms: int, request: dict[str, Any]) -> TableDefinition:
    """Return the table after an UpdateTable, which has ended."""
    changed = change("UpdateTable", table, request, next_id=9, time_ms=time_ms, limits=MODERN)
    check_decreases(table, changed, time_ms)
    return ready(changed)


def lowered(table: TableDefinition, time_ms: int) -> TableDefinition:
    return updated(table, time_ms, units(table.throughput.read - 1))


def lowered_often(times: int) -> TableDefinition:
    table = cars()
    for second in range(times):
        table = lowered(table, MIDNIGHT_MS + second * SECOND_MS)
    return table


@pytest.mark.spec("S60", served=False)
def test_a_table_is_lowered_at_most_27_times_a_day() -> None:
    table, count = cars(), 0
    for minute in range(24 * 60):
        try:
            table = lowered(table, MIDNIGHT_MS + minute * 60 * SECOND_MS)
        except LimitExceededError:
            continue
        count += 1
    # The fourth decrease is at 00:03, so the others are at 01:03, 02:03 and so on.
    assert 27 == count


@pytest.mark.spec("S60", served=False)
def test_the_fifth_decrease_of_a_day_waits_for_an_hour() -> None:
    table = lowered_often(4)
    last = MIDNIGHT_MS + 3 * SECOND_MS
    with pytest.raises(LimitExceededError) as refused:
        lowered(table, last + HOUR_MS - 1)
    assert (
        "Subscriber limit exceeded: Provisioned throughput decreases are limited within a given UTC day. After the "
        "first 4 decreases, each subsequent decrease in the same UTC day can be performed at most once every 3600 "
        "seconds. Number of decreases today: 4. Last decrease at Monday, February 13, 2023 at 12:00:03 AM Coordinated "
        "Universal Time. Next decrease can be made at Monday, February 13, 2023 at 1:00:03 AM Coordinated Universal "
        "Time" == str(refused.value)
    )
    assert 5 == lowered(table, last + HOUR_MS).throughput.decreases_today


@pytest.mark.spec("S60", served=False)
def test_a_new_day_allows_four_decreases_again() -> None:
    table = lowered_often(4)
    for hour in itertools.count(1):
        if hour == 24:
            break
        table = lowered(table, MIDNIGHT_MS + hour * HOUR_MS + 59 * 60 * SECOND_MS)
    with pytest.raises(LimitExceededError):
        lowered(table, MIDNIGHT_MS + 24 * HOUR_MS - 1)
    assert 1 == lowered(table, MIDNIGHT_MS + 24 * HOUR_MS).throughput.decreases_today


@pytest.mark.spec("S60", served=False)
def test_an_increase_is_not_limited() -> None:
    assert 2000 == updated(lowered_often(4), MIDNIGHT_MS + HOUR_MS // 2, units(2000)).throughput.read


@pytest.mark.spec("S60", served=False)
def test_an_index_has_a_limit_of_its_own() -> None:
    table = lowered_often(4)
    change_index = {"GlobalSecondaryIndexUpdates": [{"Update": {"IndexName": "ByColour"} | units(500)}]}
    both = change_index | units(500)
    now = MIDNIGHT_MS + 10 * SECOND_MS
    with pytest.raises(LimitExceededError):
        updated(table, now, both)
    index = updated(table, now, change_index).index("ByColour")
    assert index is not None
    assert 500 == index.throughput.read
