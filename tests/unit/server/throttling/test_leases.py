"""Requests that share a lease of their capacity partition are admitted and refused as if each was checked by itself."""

import random
from typing import Any

import pytest

from foldb.log.commands import Delete, Position, Put, new_context
from foldb.materializer.fold.outcomes import Applied, Refused
from foldb.materializer.fold.storage import Stored
from foldb.materializer.partition import Page, ScanRequest
from foldb.model.errors import ConditionalCheckFailedError, RequestError
from foldb.server.throttling.buckets import PartitionBucket
from foldb.server.throttling.load_sampler import LoadSampler
from foldb.server.throttling.metered_partition import MeteredPartition, item_in
from foldb.server.throttling.meters import Access, Policy
from tests.unit.materializer.ledger import Ledger, define
from tests.unit.server.throttling.test_metered_partition import Coloured, Fixed
from tests.unit.server.throttling.test_meters import Taken, check

AT = Position(0, 0)
BLOCK = 4096


class Leasing:
    """A table whose requests have the size of `item`, on a clock of the test."""

    def __init__(self, read: int, write: int, policy: Policy | None = None) -> None:
        self.ledger = Ledger()
        units = {"ReadCapacityUnits": read, "WriteCapacityUnits": write}
        table = self.ledger.create("T", BillingMode="PROVISIONED", ProvisionedThroughput=units)
        self.table = table.definition.id
        self.fixed = Fixed(0, self.ledger.state.tables)
        self.fixed.scan = self._scan  # type: ignore[method-assign]
        self.now_ms = 0
        self.clock_reads = 0
        self.sampler = LoadSampler(random.Random(1))
        self.partition = MeteredPartition(
            self.fixed,
            self.ledger.state,
            lambda key: item_in(self.ledger.state, key),
            self.sampler,
            policy=policy or Policy(),
            seconds=self._seconds,
            position=lambda: AT,
        )

    def _seconds(self) -> float:
        self.clock_reads += 1
        return (self.now_ms + 0.5) / 1000  # a float of whole milliseconds may be less than them

    def _scan(self, request: ScanRequest, done: Any) -> None:
        done(Page([], 0, 0, None, 10**6, 0), AT)

    def get(self, key: bytes, half_units: int = 1) -> bool:
        """Read an item of that cost, and return whether the read was admitted."""
        self.fixed.item = b"{}", half_units * BLOCK
        answers: list[Stored | RequestError | None] = []
        self.partition.get(self.table, key, b"", False, lambda found, _: answers.append(found))
        return not isinstance(answers.pop(), RequestError)

    def delete(self, key: bytes) -> bool:
        """Delete an item of one unit, and return whether the write was admitted."""
        command = Delete(self.table, key, b"", new_context("R"))
        self.fixed.outcome = Applied(command, (b"{}", 100), None, 1, 1)
        answers: list[Any] = []
        self.partition.submit(command, 1, lambda outcome, _: answers.append(outcome))
        return isinstance(answers.pop(), Applied)

    def refuse(self, key: bytes, size: int) -> None:
        """Put an item whose condition is false."""
        self.fixed.outcome = Refused(ConditionalCheckFailedError(), 1)
        command = Put(self.table, key, b"", b"{}", size, new_context("R"))
        self.partition.submit(command, size, lambda *_: None)

    def scan(self) -> None:
        """Read a page that costs more than the table has."""
        self.partition.scan(ScanRequest(self.table, None), lambda *_: None)

    def leased(self, key: bytes) -> int:
        """Return the half units that are left of the lease of a key's capacity partition."""
        tables = self.partition._tables
        return tables[self.table].own.at(key, b"").read.left if tables else 0

    def partition_of(self, key: bytes) -> PartitionBucket:
        return self.partition._tables[self.table].own.at(key, b"").read


def test_most_requests_read_no_clock() -> None:
    table = Leasing(3000, 1000)
    assert all(table.get(b"%d" % (n % 7)) for n in range(2000))
    assert all(table.delete(b"%d" % (n % 7)) for n in range(800))
    assert table.clock_reads < 400


@pytest.mark.spec("S58", "S59", served=False)
def test_leases_leave_no_capacity_unused() -> None:
    """The leases of four capacity partitions have units when the bucket of the table is empty."""
    table = Leasing(10, 3000)
    assert 3000 == sum(table.delete(b"%d" % (n % 400)) for n in range(4000))


def test_a_small_table_has_no_leases() -> None:
    table = Leasing(10, 10)
    assert 20 == sum(table.get(b"a") for _ in range(40))
    assert not table.partition_of(b"a").left


def test_a_request_that_empties_the_table_ends_its_leases() -> None:
    table = Leasing(3000, 10)
    while not table.leased(b"a"):
        assert table.get(b"a")
    table.scan()
    assert not table.get(b"a")


def test_refused_large_writes_do_not_enlarge_a_lease() -> None:
    """A lease of all that they returned would leave no capacity to other requests."""
    table = Leasing(10, 450)
    table.refuse(b"a", 400 * 1024)
    assert table.delete(b"a")
    assert 0 < table.partition._tables[table.table].own.at(b"a", b"").write.left <= 128


def test_a_changed_definition_ends_the_leases() -> None:
    table = Leasing(3000, 10)
    while not table.leased(b"a"):
        assert table.get(b"a")
    units = {"ReadCapacityUnits": 1, "WriteCapacityUnits": 10}
    table.ledger.fold(define("UpdateTable", table.table, {"ProvisionedThroughput": units}))
    table.now_ms = 300_000
    assert table.get(b"a", 800)
    assert not table.get(b"a")


def test_an_index_without_capacity_ends_the_leases_of_its_table() -> None:
    table = Coloured()
    assert 1000 == sum(table.write("red", 1) is None for _ in range(1100))


def test_an_index_ends_a_lease_without_a_second_refill() -> None:
    table = Coloured(900, 1)
    own = table.partition._meters(table.table)
    assert own is not None
    assert own.own.only is not None
    while own.own.only.write.left < 42:
        assert table.write(None, 0) is None
    table.now = 10.0
    assert all(table.write(None, 0) is None for _ in range(20))
    assert table.write("red", 400) is None
    assert 1000 - 21 == sum(table.write(None, 0) is None for _ in range(1100))


def test_writes_of_an_index_are_load_of_the_index() -> None:
    table = Coloured()
    for _ in range(900):
        table.write("red", 1)
    load = table.sampler.take()[table.table, "ByColour", Access.WRITE]
    assert {b"red"} == {pk for pk, _, _ in load.keys}
    assert 1800 - 128 < load.half_units <= 1800


@pytest.mark.spec("S59", "S62", "S63", served=False)
def test_all_units_of_a_partition_are_its_load() -> None:
    table = Leasing(3000, 10)
    taken = sum(table.get(b"hot", 1 + n % 5) * (1 + n % 5) for n in range(1000))
    [load] = table.sampler.take().values()
    assert taken - 128 < load.half_units <= taken
    assert {b"hot"} == {pk for pk, _, _ in load.keys}


def traffic(dice: random.Random, table: Leasing) -> list[Taken]:
    """Send random reads in bursts, and return those that were admitted."""
    taken = []
    keys = [b"%d" % dice.randrange(4096) for _ in range(dice.choice((1, 3, 30)))]
    for _ in range(4):
        table.now_ms += int(dice.expovariate(1) * 10 ** dice.randrange(2, 5))
        half_units, pause = dice.choice((1, 1, 2, 5, 40)), dice.choice((0.0, 0.1, 1.0))
        for _ in range(dice.choice((3, 50, 400 // half_units))):
            table.now_ms += dice.random() < pause
            key = dice.choice(keys)
            if table.get(key, half_units):
                bucket = table.partition_of(key)
                taken.append(Taken(table.now_ms, half_units, id(bucket)))
    return taken


@pytest.mark.spec("S59", "S62", served=False)
@pytest.mark.parametrize("patterns", [60, pytest.param(10_000, marks=pytest.mark.soak)])
def test_random_traffic_with_leases_never_exceeds_a_limit(patterns: int) -> None:
    """Over any span: the rate, the depth of the bucket, and one request."""
    leased = 0
    for seed in range(patterns):
        dice = random.Random(f"leases {seed}")
        read = dice.choice((130, 200, 1000, 6000))
        policy = Policy(burst_ms=dice.choice((0, 2_000)))
        table = Leasing(read, 1, policy)
        taken = traffic(dice, table)
        leased += len(taken) - table.clock_reads
        check(taken, 2 * read, max(1000, policy.burst_ms), seed)
        for partition in {each.partition for each in taken}:
            check([each for each in taken if each.partition == partition], 6000, 1000, seed)
    assert leased > 50 * patterns
