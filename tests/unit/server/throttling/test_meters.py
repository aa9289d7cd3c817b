"""Meters on a clock of their own: the published rates, and random traffic that never exceeds them.

A steady rate shows after the capacity of the first second is used.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from foldb.model.capacity_partitions import partitions_for
from foldb.model.limits import MODERN
from foldb.model.table_requests import create
from foldb.model.tables import TableDefinition
from foldb.server.throttling.meters import NO_SLOT, Access, Limit, Meter, Policy, TableMeters

START_MS = 1_800_000_000_000
MINUTE_MS = 60_000
KB = 1024


def definition(read: int = 0, write: int = 0, **members: Any) -> TableDefinition:
    """Return a table with provisioned units, or one on demand without them."""
    request: dict[str, Any] = {
        "TableName": "Cars",
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
        "BillingMode": "PROVISIONED" if read else "PAY_PER_REQUEST",
        **(
            {"ProvisionedThroughput": {"ReadCapacityUnits": read, "WriteCapacityUnits": write}}
            if read
            else {}
        ),
        **members,
    }
    return create(request, table_id=1, uuid="uuid", time_ms=0, limits=MODERN)


def meter_of(table: TableDefinition, access: Access, policy: Policy | None = None) -> Meter:
    own = TableMeters(table, MODERN, policy or Policy(), START_MS).own
    return own.read if access is Access.READ else own.write


def admitted(meter: Meter, half_units: int, milliseconds: range, slots: Iterator[int] | None = None) -> int:
    """Return the number of admitted requests of a client that sends one in every millisecond of the range."""
    count = 0
    for ms in milliseconds:
        slot = 7 if slots is None else next(slots)
        if meter.limit_at(slot, START_MS + ms) is None:
            meter.take(half_units, slot, START_MS + ms)
            count += 1
    return count


SECOND, TEN_SECONDS = range(1, 1001), range(1, 10_001)


def emptied(meter: Meter, slot: int = 7) -> Meter:
    """Return the meter after a client has used all of its capacity at a slot."""
    while meter.limit_at(slot, START_MS) is None:
        meter.take(1, slot, START_MS)
    return meter


@pytest.mark.spec("S38", served=False)
@pytest.mark.parametrize(
    ("access", "half_units", "requests"),
    [
        pytest.param(Access.READ, 2, 10, id="consistent reads of 4 KB"),
        pytest.param(Access.READ, 1, 20, id="eventually consistent reads of 4 KB"),
        pytest.param(Access.READ, 4, 5, id="consistent reads of 8 KB"),
        pytest.param(Access.WRITE, 2, 10, id="writes of 1 KB"),
    ],
)
def test_ten_units_serve_the_documented_number_a_second(
    access: Access, half_units: int, requests: int
) -> None:
    meter = emptied(meter_of(definition(10, 10), access))
    assert requests == admitted(meter, half_units, SECOND)
    assert requests == admitted(meter, half_units, range(1001, 2001))


@pytest.mark.spec("S66", served=False)
def test_unused_capacity_is_kept_for_300_seconds() -> None:
    meter = meter_of(definition(10, 10), Access.WRITE)
    after_an_hour = range(3_600_000, 3_601_000)
    burst = 0
    while meter.limit_at(NO_SLOT, START_MS + 3_600_000) is None:
        meter.take(2, NO_SLOT, START_MS + 3_600_000)
        burst += 1
    assert 3000 == burst
    assert 10 == admitted(meter, 2, after_an_hour)


@pytest.mark.spec("S64", served=False)
def test_a_hot_key_is_refused_at_1000_units_of_10000() -> None:
    table = definition(10, 10_000)
    hot, spread = meter_of(table, Access.WRITE), meter_of(table, Access.WRITE)
    dice = random.Random("slots")
    assert 1000 == admitted(emptied(hot), 20, TEN_SECONDS)  # 10,000 units
    assert Limit.KEY_RANGE is hot.limit_at(7, START_MS + 10_000)
    assert 9_900 < admitted(spread, 20, TEN_SECONDS, iter(lambda: dice.randrange(4096), None))


@pytest.mark.spec("S65", served=False)
def test_a_million_read_units_do_not_help_one_item() -> None:
    table = definition(40_000, 10)
    meter = emptied(meter_of(table, Access.READ))
    assert 500 == admitted(meter, 12, SECOND)  # of 24 KB: 3,000 units
    assert Limit.KEY_RANGE is meter.limit_at(7, START_MS + 1000)
    assert meter.limit_at(4000, START_MS + 1001) is None


@pytest.mark.spec("S66", served=False)
def test_a_partition_borrows_the_share_of_idle_ones() -> None:
    table = definition(10, 4000)  # five partitions of 800 units
    assert 5 == partitions_for(10, 4000)
    borrowing = meter_of(table, Access.WRITE, Policy(borrows=True))
    strict = meter_of(table, Access.WRITE, Policy(burst_ms=0, borrows=False))
    assert 100 == admitted(emptied(borrowing), 20, SECOND)
    assert 80 == admitted(emptied(strict), 20, SECOND)


@pytest.mark.spec("S61", served=False)
def test_a_table_on_demand_serves_twice_a_peak_after_30_minutes() -> None:
    meter = meter_of(definition(), Access.WRITE)
    dice = random.Random("on demand")
    slots = iter(lambda: dice.randrange(4096), None)

    def units_at(minute: int) -> int:
        """Return the units that are served in one second, at most 64 with each request."""
        start = minute * MINUTE_MS
        return 64 * admitted(meter, 128, range(start, start + 1000), slots)

    meter.take(0, NO_SLOT, START_MS)
    assert 4000 <= units_at(1) < 8064  # the capacity of the second before, and its own
    second = units_at(20)
    assert 4000 <= second < 8064
    assert 2 * second <= units_at(60) < 4 * second


@pytest.mark.spec("S61", served=False)
def test_a_maximum_on_demand_is_kept() -> None:
    maximum = {"MaxReadRequestUnits": 5, "MaxWriteRequestUnits": 3}
    meter = emptied(meter_of(definition(OnDemandThroughput=maximum), Access.WRITE))
    assert 3 == admitted(meter, 2, SECOND)
    assert Limit.MAX_ON_DEMAND is meter.limit_at(7, START_MS + 1000)


def test_the_account_bounds_a_table_on_demand() -> None:
    warm = {"ReadUnitsPerSecond": 40_000, "WriteUnitsPerSecond": 40_000}
    meter = meter_of(definition(WarmThroughput=warm), Access.WRITE)
    meter.limit_at(NO_SLOT, START_MS + 1000)
    meter.take(2 * 40_000, NO_SLOT, START_MS + 1000)
    assert Limit.ACCOUNT is meter.limit_at(NO_SLOT, START_MS + 1000)


def test_a_clock_set_back_adds_no_capacity() -> None:
    meter = meter_of(definition(10, 10), Access.WRITE)
    assert meter.limit_at(7, START_MS + 1000) is None
    meter.take(40, 7, START_MS + 1000)
    assert Limit.PROVISIONED is meter.limit_at(7, START_MS - 50_000)
    assert Limit.PROVISIONED is meter.limit_at(7, START_MS + 1000)


def test_an_update_changes_the_rate_and_keeps_the_balance() -> None:
    meters = TableMeters(definition(10, 100), MODERN, Policy(), START_MS)
    meter = meters.own.write
    assert meter.limit_at(7, START_MS + 1000) is None
    meter.take(2 * 250, 7, START_MS + 1000)  # 50 units too many: one second was saved
    meters.follow(definition(10, 10), START_MS + 1000)
    assert Limit.PROVISIONED is meter.limit_at(7, START_MS + 6000)
    assert meter.limit_at(7, START_MS + 6001) is None


@dataclass(frozen=True)
class Taken:
    ms: int
    half_units: int
    slot: int


def traffic(dice: random.Random, meter: Meter) -> list[Taken]:
    """Send random requests, and return those that were admitted."""
    now, taken = START_MS, []
    hot = dice.randrange(4096)
    for _ in range(80):
        now += int(dice.expovariate(1) * 10 ** dice.randrange(5))
        half_units = min(800, int(dice.paretovariate(0.7)))
        slot = hot if dice.random() < 0.7 else dice.randrange(4096)
        if meter.limit_at(slot, now) is None:
            meter.take(half_units, slot, now)
            taken.append(Taken(now, half_units, slot))
    return taken


@pytest.mark.spec("S59", "S62", served=False)
@pytest.mark.parametrize("patterns", [500, pytest.param(10_000, marks=pytest.mark.soak)])
def test_random_traffic_never_exceeds_a_limit(patterns: int) -> None:
    """Over any span: the rate, the depth of the bucket, and one request."""
    for seed in range(patterns):
        dice = random.Random(f"traffic {seed}")
        read, write = dice.choice((1, 10, 3000, 40_000)), dice.choice((1, 10, 1000, 40_000))
        policy = Policy(burst_ms=dice.choice((0, 300_000)), borrows=dice.random() < 0.5)
        access = dice.choice(tuple(Access))
        units, most = (read, 3000) if access is Access.READ else (write, 1000)
        taken = traffic(dice, meter_of(definition(read, write), access, policy))
        count = partitions_for(read, write)
        parts = {each.slot * count // 4096 for each in taken}
        check(taken, 2 * units, max(1000, policy.burst_ms), seed)
        share = 2 * most if policy.borrows else min(2 * most, 2 * units / count)
        depth_ms = 1000 if policy.borrows else max(1000, policy.burst_ms)
        for part in parts:
            check([each for each in taken if each.slot * count // 4096 == part], share, depth_ms, seed)


def check(taken: list[Taken], rate: float, depth_ms: int, seed: int) -> None:
    for first in range(len(taken)):
        sum_before_last = 0
        for each in taken[first:]:
            span_ms = each.ms - taken[first].ms
            # The last request may make the balance negative; those before it fit into the bucket.
            assert sum_before_last < rate * (span_ms + depth_ms) / 1000, f"seed {seed}"
            sum_before_last += each.half_units
