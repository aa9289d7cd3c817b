"""Meters on a clock of their own: the published rates, and random traffic that never exceeds them.

A steady rate shows after the capacity of the first second is used.
"""

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from foldb.model.capacity_partitions import Boundary, PartitionMap, Split, partitions_for
from foldb.model.keys import key_hash
from foldb.model.limits import MODERN, Limits
from foldb.model.table_requests import create
from foldb.model.tables import TableDefinition
from foldb.server.throttling.buckets import HALF_UNIT, PartitionBucket
from foldb.server.throttling.meters import Access, Limit, PartMeters, Policy, TableMeters

START_MS = 1_800_000_000_000
MINUTE_MS = 60_000


def definition(read: int = 0, write: int = 0, limits: Limits = MODERN, **members: Any) -> TableDefinition:
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
    return create(request, table_id=1, uuid="uuid", time_ms=0, limits=limits)


class Client:
    """Sends requests to a table, or to one of its global indexes, in one direction."""

    def __init__(self, meters: PartMeters, access: Access) -> None:
        self._meters = meters
        self.meter = meters.read if access is Access.READ else meters.write
        self._access = access

    def limit(self, key: bytes | None, ms: int) -> Limit | None:
        """Return the limit that refuses a request `ms` after the start."""
        return self.meter.limit_at(self._bucket(key), START_MS + ms)

    def take(self, half_units: int, key: bytes | None) -> None:
        self.meter.take(half_units * HALF_UNIT, self._bucket(key))

    def partition_of(self, key: bytes) -> int:
        return self._meters.map.of(key_hash(1, key), key).id

    def drained(self, key: bytes | None = None) -> "Client":
        """Use all capacity of a key's partition, or of the table."""
        while self.limit(key, 0) is None:
            self.take(1, key)
        return self

    def admitted(self, half_units: int, milliseconds: range, keys: Iterator[bytes] | None = None) -> int:
        """Return the number of admitted requests of a client that sends one in every millisecond of the range."""
        count = 0
        for ms in milliseconds:
            key = HOT if keys is None else next(keys)
            if self.limit(key, ms) is None:
                self.take(half_units, key)
                count += 1
        return count

    def _bucket(self, key: bytes | None) -> PartitionBucket | None:
        if key is None:
            return None
        buckets = self._meters.at(key, b"")
        return buckets.read if self._access is Access.READ else buckets.write


def client_of(table: TableDefinition, access: Access, policy: Policy | None = None) -> Client:
    return Client(TableMeters(table, MODERN, policy or Policy(), START_MS).own, access)


def many_keys(seed: str) -> Iterator[bytes]:
    dice = random.Random(seed)
    return iter(lambda: b"%d" % dice.randrange(100_000), b"")


HOT = b"hot"
SECOND, TEN_SECONDS = range(1, 1001), range(1, 10_001)


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
    client = client_of(definition(10, 10), access).drained()
    assert requests == client.admitted(half_units, SECOND)
    assert requests == client.admitted(half_units, range(1001, 2001))


@pytest.mark.spec("S66", served=False)
def test_unused_capacity_is_kept_for_300_seconds() -> None:
    client = client_of(definition(10, 10), Access.WRITE)
    hour = 3_600_000
    burst = 0
    while client.limit(None, hour) is None:
        client.take(2, None)
        burst += 1
    assert 3000 == burst
    assert 10 == client.admitted(2, range(hour, hour + 1000))


@pytest.mark.spec("S64", served=False)
def test_a_hot_key_is_refused_at_1000_units_of_10000() -> None:
    table = definition(10, 10_000)
    hot, spread = client_of(table, Access.WRITE), client_of(table, Access.WRITE)
    assert 1000 == hot.drained(HOT).admitted(20, TEN_SECONDS)  # 10,000 units
    assert Limit.KEY_RANGE is hot.limit(HOT, 10_000)
    assert 9_900 < spread.drained().admitted(20, TEN_SECONDS, many_keys("spread"))


@pytest.mark.spec("S65", served=False)
def test_a_million_read_units_do_not_help_one_item() -> None:
    million = replace(MODERN, table_capacity_units=1_000_000, account_capacity_units=1_000_000)
    table = definition(1_000_000, 10, limits=million)
    client = client_of(table, Access.READ)
    assert 500 == client.drained(HOT).admitted(12, SECOND)  # of 24 KB: 3,000 units
    assert Limit.KEY_RANGE is client.limit(HOT, 1000)
    spread = Client(TableMeters(table, million, Policy(), START_MS).own, Access.READ)
    others = {spread.partition_of(key): key for key in itertools.islice(many_keys("others"), 5000)}
    assert 334 == len(others)
    for key in others.values():
        assert spread.limit(key, 1000) is None
        spread.take(2 * 2994, key)  # 999,996 units together, in one second


@pytest.mark.spec("S66", served=False)
def test_a_partition_borrows_the_share_of_idle_ones() -> None:
    table = definition(10, 4000)  # five partitions of 800 units
    assert 5 == partitions_for(10, 4000)
    borrowing = client_of(table, Access.WRITE, Policy(borrows=True))
    strict = client_of(table, Access.WRITE, Policy(burst_ms=0, borrows=False))
    assert 100 == borrowing.drained(HOT).admitted(20, SECOND)
    assert 80 == strict.drained(HOT).admitted(20, SECOND)


@pytest.mark.spec("S61", served=False)
def test_a_table_on_demand_serves_twice_a_peak_after_30_minutes() -> None:
    client = client_of(definition(), Access.WRITE)
    keys = many_keys("on demand")

    def units_at(minute: int) -> int:
        """Return the units that are served in one second, at most 64 with each request."""
        start = minute * MINUTE_MS
        return 64 * client.admitted(128, range(start, start + 1000), keys)

    assert 4000 <= units_at(1) < 8064  # the capacity of the second before, and its own
    second = units_at(20)
    assert 4000 <= second < 8064
    assert 2 * second <= units_at(60) < 4 * second


@pytest.mark.spec("S61", served=False)
def test_a_maximum_on_demand_is_kept() -> None:
    maximum = {"MaxReadRequestUnits": 5, "MaxWriteRequestUnits": 3}
    client = client_of(definition(OnDemandThroughput=maximum), Access.WRITE).drained()
    assert 3 == client.admitted(2, SECOND)
    assert Limit.MAX_ON_DEMAND is client.limit(HOT, 1000)


def test_a_change_gives_a_maximum_on_demand_no_capacity() -> None:
    maximum = {"MaxReadRequestUnits": 5, "MaxWriteRequestUnits": 3}
    table = definition(OnDemandThroughput=maximum)
    meters = TableMeters(table, MODERN, Policy(), START_MS)
    client = Client(meters.own, Access.WRITE).drained()
    meters.follow(replace(table, deletion_protection=True), START_MS)
    assert Limit.MAX_ON_DEMAND is client.limit(HOT, 0)


def test_the_account_bounds_a_table_on_demand() -> None:
    warm = {"ReadUnitsPerSecond": 40_000, "WriteUnitsPerSecond": 40_000}
    client = client_of(definition(WarmThroughput=warm), Access.WRITE)
    assert client.limit(None, 1000) is None
    client.take(2 * 40_000, None)
    assert Limit.ACCOUNT is client.limit(None, 1000)


def test_a_clock_set_back_adds_no_capacity() -> None:
    client = client_of(definition(10, 10), Access.WRITE)
    assert client.limit(HOT, 1000) is None
    client.take(40, HOT)
    assert Limit.PROVISIONED is client.limit(HOT, -50_000)
    assert Limit.PROVISIONED is client.limit(HOT, 1000)


@pytest.mark.spec("S58", served=False)
def test_an_update_changes_the_rate_and_keeps_the_balance() -> None:
    meters = TableMeters(definition(10, 100), MODERN, Policy(), START_MS)
    client = Client(meters.own, Access.WRITE)
    assert client.limit(HOT, 1000) is None
    client.take(2 * 250, HOT)  # 50 units too many: one second was saved
    meters.follow(definition(10, 10), START_MS + 1000)
    assert Limit.PROVISIONED is client.limit(HOT, 6000)
    assert client.limit(HOT, 6001) is None


@pytest.mark.spec("S62", "S63", served=False)
def test_a_split_gives_each_child_half_of_the_balance() -> None:
    table = definition(10, 900)
    meters = TableMeters(table, MODERN, Policy(), START_MS)
    client = Client(meters.own, Access.WRITE)
    client.take(2 * 1200, HOT)  # the capacity partition has 1,000, and 200 of debt
    split = Split(0, Boundary(1 << 63), "heat", START_MS)
    meters.follow(replace(table, capacity_partitions=PartitionMap(1).split(split)), START_MS)
    balances = {key: meters.own.at(key, b"").write.balance for key in (b"1", b"2", b"3", b"4")}
    assert {1, 2} == {client.partition_of(key) for key in balances}
    assert {-2 * 100 * HALF_UNIT} == set(balances.values())


@pytest.mark.spec("S63", served=False)
def test_a_divided_collection_has_the_rate_of_both_partitions() -> None:
    table = definition(10, 900)
    hash_ = key_hash(1, HOT)
    split = Split(0, Boundary(hash_, HOT, b"m"), "heat", START_MS)
    divided = replace(table, capacity_partitions=PartitionMap(1).split(split))
    own = TableMeters(divided, MODERN, Policy(), START_MS).own
    low, high = own.at(HOT, b"a"), own.at(HOT, b"z")
    assert low is not high
    assert low is own.at(HOT, b"b")


@dataclass(frozen=True)
class Taken:
    ms: int
    half_units: int
    partition: int


def traffic(dice: random.Random, client: Client) -> list[Taken]:
    """Send random requests, and return those that were admitted."""
    now, taken = 0, []
    for _ in range(80):
        now += int(dice.expovariate(1) * 10 ** dice.randrange(5))
        half_units = min(800, int(dice.paretovariate(0.7)))
        key = HOT if dice.random() < 0.7 else b"%d" % dice.randrange(4096)
        if client.limit(key, now) is None:
            client.take(half_units, key)
            taken.append(Taken(now, half_units, client.partition_of(key)))
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
        taken = traffic(dice, client_of(definition(read, write), access, policy))
        check(taken, 2 * units, max(1000, policy.burst_ms), seed)
        count = partitions_for(read, write)
        share = 2 * most if policy.borrows else min(2 * most, 2 * units / count)
        depth_ms = 1000 if policy.borrows else max(1000, policy.burst_ms)
        for partition in {each.partition for each in taken}:
            check([each for each in taken if each.partition == partition], share, depth_ms, seed)


def check(taken: list[Taken], rate: float, depth_ms: int, seed: int) -> None:
    """Compare each request with all earlier ones: the least excess of those is enough."""
    before = 0
    least = float("inf")
    for each in taken:
        excess = 1000 * before - rate * each.ms
        least = min(least, excess)
        # The last request may make the balance negative; those before it fit into the bucket.
        assert excess - least < rate * depth_ms, f"seed {seed}"
        before += each.half_units
