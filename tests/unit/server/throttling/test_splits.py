"""Proposed splits on a clock of the test: a partition's log folds them, and traffic is a list of keys."""

import random
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest

from foldb.log.commands import DefineTable, Position
from foldb.materializer.fold.outcomes import Applied, TableDefined
from foldb.materializer.fold.state import Table
from foldb.model import capacity_partitions
from foldb.model.capacity_partitions import Boundary, CapacityPartition, PartitionMap
from foldb.model.keys import key_hash
from foldb.model.partition_splits import KEEP_PARTITIONS, WeightedKey, dividing_boundary
from foldb.model.throughput import partition_map
from foldb.server.throttling import splits
from foldb.server.throttling.load_sampler import LoadSampler
from foldb.server.throttling.metered_partition import MeteredPartition, item_in
from foldb.server.throttling.meters import Access, Policy
from foldb.server.throttling.splits import SplitPolicy, SplitProposer, SplitTimer, stores_of_part
from tests.unit.materializer.ledger import Ledger, define, index_request, put
from tests.unit.server.routing.fake_partitions import FakePartition

MINUTE = 60_000
POLICY = SplitPolicy(delay_ms=5 * MINUTE, partition_bytes=10_000, heat_percent=80)


class Server:
    """A ledger whose owner proposes splits."""

    def __init__(self, policy: SplitPolicy = POLICY) -> None:
        self.ledger = Ledger()
        self.policy = policy
        self.sampler = LoadSampler(random.Random(1))
        self.proposals = 0
        self.proposer = SplitProposer(
            self.ledger.state,
            self.sampler,
            policy,
            stores=lambda part: stores_of_part(part, [self.ledger.state]),
            leads=lambda: True,
            submit=self._submit,
        )

    def _submit(self, command: DefineTable) -> None:
        self.proposals += 1
        assert isinstance(self.ledger.fold(command), TableDefined)

    def look(self) -> None:
        for _ in self.proposer.look(self.ledger.now):
            pass

    def pass_time(
        self, ms: int, *loads: tuple[int, bytes, bytes, int], access: Access = Access.WRITE
    ) -> None:
        """Look now and then; each load is a table, a key and its units a second."""
        end = self.ledger.now + ms
        self.look()
        while self.ledger.now < end:
            self.ledger.now += self.policy.look_ms
            for table, pk, sk, units in loads:
                for _ in range(25):  # samples
                    half_units = 2 * units * self.policy.look_ms // 1000 // 25
                    self.sampler.note(table, None, access, pk, sk, half_units)
            self.look()


def own_map(table: Table) -> PartitionMap:
    return partition_map(table.definition, table.definition)


def created(server: Server, key: str = "pk:S sk:S", units: int = 10, **settings: Any) -> Table:
    throughput = {"ReadCapacityUnits": units, "WriteCapacityUnits": units}
    return server.ledger.create(
        "T", key, **{"BillingMode": "PROVISIONED", "ProvisionedThroughput": throughput, **settings}
    )


def fill(server: Server, table: Table, keys: Iterable[tuple[str, str]], size: int = 1000) -> None:
    for pk, sk in keys:
        server.ledger.fold(put(table, {"pk": {"S": pk}, "sk": {"S": sk}, "x": {"S": "x" * size}}))


@pytest.mark.spec("S63", served=False)
def test_an_increase_is_served_by_splits_after_the_delay() -> None:
    server = Server()
    table = created(server)
    throughput = {"ReadCapacityUnits": 10, "WriteCapacityUnits": 5000}
    update = {"ProvisionedThroughput": throughput, KEEP_PARTITIONS: True}
    server.ledger.fold(define("UpdateTable", table.definition.id, update))

    server.pass_time(4 * MINUTE)
    early = len(own_map(table).partitions)
    server.pass_time(2 * MINUTE)
    first = len(own_map(table).partitions)
    server.pass_time(40 * MINUTE)

    assert (1, 2, 6) == (early, first, len(own_map(table).partitions))
    widths = [each.high.hash - each.low.hash for each in own_map(table).partitions]
    assert max(widths) <= 2 * min(widths)
    assert {"throughput"} == {each.reason for each in own_map(table).splits}
    assert 5 == server.proposals


@pytest.mark.spec("S63", served=False)
def test_a_large_partition_is_divided_where_half_of_its_bytes_are() -> None:
    server = Server()
    table = created(server)
    fill(server, table, ((f"pk {n}", "a") for n in range(16)))

    server.pass_time(30 * MINUTE)

    present = own_map(table)
    sizes = dict.fromkeys(range(len(present.partitions)), 0)
    for hash_, pk, sk, stored in table.items.scan():
        sizes[present.index_of(hash_, pk, sk)] += stored[1]
    assert 2 == len(sizes)
    assert all(7000 < size < 10_000 for size in sizes.values())
    assert {"size"} == {each.reason for each in present.splits}


@pytest.mark.parametrize("local", [False, True])
def test_a_large_collection_is_divided_unless_it_has_a_local_index(local: bool) -> None:
    server = Server()
    indexes: dict[str, Any] = {"LocalSecondaryIndexes": [index_request("by-n", "pk", "n")]} if local else {}
    table = created(server, **indexes)
    fill(server, table, (("album", f"{n:02}") for n in range(16)))

    server.pass_time(60 * MINUTE)

    divided = [split for split in own_map(table).splits if split.boundary.sk]
    hash_ = key_hash(table.definition.id, b"album")
    assert local == (not divided)
    if local:
        alone = own_map(table).of(hash_, b"album", b"00")
        assert (Boundary(hash_), Boundary(hash_ + 1)) == (alone.low, alone.high)


@pytest.mark.spec("S63", "S65", served=False)
def test_a_hot_key_gets_a_partition_of_its_own() -> None:
    server = Server()
    table = created(server, "pk:S", 3000)
    keys = [(table.definition.id, b"%d" % n, b"", 20) for n in range(10)]

    server.pass_time(60 * MINUTE, (table.definition.id, b"hot", b"", 1000), *keys)

    hash_ = key_hash(table.definition.id, b"hot")
    alone = own_map(table).of(hash_, b"hot")
    assert (Boundary(hash_), Boundary(hash_ + 1)) == (alone.low, alone.high)
    count = len(own_map(table).splits)
    server.pass_time(60 * MINUTE, (table.definition.id, b"hot", b"", 1000))
    assert count == len(own_map(table).splits), "a single item cannot be divided"


def test_a_hot_collection_is_divided_by_sort_key() -> None:
    server = Server()
    table = created(server)
    loads = [(table.definition.id, b"day", b"%02d" % n, 100) for n in range(10)]

    server.pass_time(7 * MINUTE, *loads, access=Access.WRITE)

    low, high = own_map(table).partitions
    assert low.high.pk == b"day" == high.low.pk
    assert b"04" <= high.low.sk <= b"06"


@pytest.mark.parametrize(
    ("units", "minutes"), [(700, 60), (1000, 4)], ids=["a load below the threshold", "a short one"]
)
def test_heat_splits_only_if_it_is_high_and_lasts(units: int, minutes: int) -> None:
    server = Server()
    table = created(server)

    server.pass_time(
        minutes * MINUTE, *((table.definition.id, b"%d" % n, b"", units // 10) for n in range(10))
    )
    server.pass_time(60 * MINUTE)

    assert 0 == server.proposals


def test_heat_that_pauses_begins_again() -> None:
    server = Server()
    table = created(server)
    for _ in range(10):
        server.pass_time(4 * MINUTE, (table.definition.id, b"a", b"", 1000))
        server.pass_time(2 * MINUTE)

    assert 0 == server.proposals


def test_the_delay_begins_again_when_the_clock_is_set_back() -> None:
    server = Server()
    table = created(server)
    more = {"ReadCapacityUnits": 10, "WriteCapacityUnits": 1500}
    server.ledger.fold(
        define("UpdateTable", table.definition.id, {"ProvisionedThroughput": more, KEEP_PARTITIONS: True})
    )
    now = server.ledger.now
    for minute in (60, *range(7)):
        for _ in server.proposer.look(now + minute * MINUTE):
            pass

    assert 1 == server.proposals


def test_the_writes_of_local_indexes_are_load_of_their_table() -> None:
    server = Server()
    table = created(server, units=1000)
    write = put(table, {"pk": {"S": "a"}, "sk": {"S": "b"}})
    partition = FakePartition(0, server.ledger.state.tables)
    written = Applied(write, None, (b"{}", 100), 1, 1, local={"by-n": 3})
    partition.submit = lambda command, size, done: done(written, Position(0, 0))  # type: ignore[method-assign]

    metered = MeteredPartition(
        partition,
        server.ledger.state,
        lambda key: item_in(server.ledger.state, key),
        server.sampler,
        policy=Policy(),
        seconds=lambda: 0.0,
        position=lambda: Position(0, 0),
    )
    for _ in range(100):
        metered.submit(write, 100, lambda *_: None)

    [load] = server.sampler.take().values()
    [(pk, sk)] = {key[:2] for key in load.keys}
    assert (b"a", b"b") == (pk, sk)
    assert 800 - 128 < load.half_units <= 800


def test_nothing_is_proposed_to_a_full_map(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fold would refuse each of the proposals, in the log, and they would never end."""
    for module in (capacity_partitions, splits):
        monkeypatch.setattr(module, "PARTITIONS_MAX", 2)
    server = Server()
    table = created(server)
    fill(server, table, ((f"pk {n}", "a") for n in range(64)))

    server.pass_time(60 * MINUTE, *((table.definition.id, b"%d" % n, b"", 1000) for n in range(10)))

    assert 2 == len(own_map(table).partitions)
    assert 1 == server.proposals


def test_a_look_that_fails_is_not_the_last(caplog: pytest.LogCaptureFixture) -> None:
    server = Server()
    table = created(server)
    fill(server, table, ((f"pk {n}", "a") for n in range(16)))
    healthy, server.proposer._stores = server.proposer._stores, lambda _: [][0]
    scheduler = ManualScheduler()
    SplitTimer(server.proposer, POLICY, lambda: server.ledger.now, scheduler)

    scheduler.run()
    server.proposer._stores = healthy
    for _ in range(8):
        server.ledger.now += POLICY.look_ms
        scheduler.run()

    assert "the next attempt is in 60 s" in caplog.text
    assert 1 == server.proposals


class ManualScheduler:
    """Runs the next callback of a timer when the test says so."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[..., object]] = []

    def call_soon(self, callback: Callable[..., object], *args: Any) -> object:
        raise AssertionError("the timer calls later alone")

    def call_later(self, _delay: float, callback: Callable[..., object], *args: Any) -> "ManualScheduler":
        self._callbacks.append(partial(callback, *args))
        return self

    def cancel(self) -> None:
        self._callbacks.clear()

    def run(self) -> None:
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


def test_a_year_without_a_reason_has_no_split() -> None:
    server = Server()
    created(server)

    server.pass_time(365 * 24 * 60 * MINUTE // 10)

    assert 0 == server.proposals


@pytest.mark.parametrize("seed", range(40))
def test_a_boundary_is_inside_and_divides_as_evenly_as_it_can(seed: int) -> None:
    """Compared with every boundary that the keys allow."""
    dice = random.Random(seed)
    keys = [
        WeightedKey(key_hash(1, pk), pk, b"%d" % dice.randrange(4), dice.randrange(1, 50))
        for pk in (b"%d" % dice.randrange(5) for _ in range(dice.randrange(1, 12)))
    ]
    whole = PartitionMap().partitions[0]
    total = sum(key.weight for key in keys)

    def heavier(boundary: Boundary) -> int:
        below = sum(key.weight for key in keys if tuple(key[:3]) < tuple(boundary))
        return max(below, total - below)

    found = dividing_boundary(keys, whole, divides_collections=True)
    apart = dividing_boundary(keys, whole, divides_collections=False)

    between = [Boundary(key.hash + more) for key in keys for more in (0, 1)]
    inside = [
        Boundary(*key[:3]) for key in keys if any(each[:2] == key[:2] and each.sk < key.sk for each in keys)
    ]
    assert found is not None
    assert apart is not None
    assert not apart.sk
    assert heavier(apart) == min(map(heavier, between))
    best = heavier(apart) if 4 * heavier(apart) <= 3 * total else min(map(heavier, [*between, *inside]))
    assert heavier(found) == best


def test_a_partition_of_one_item_has_no_boundary() -> None:
    hash_ = key_hash(1, b"a")
    alone = CapacityPartition(3, Boundary(hash_), Boundary(hash_ + 1))
    keys = [WeightedKey(hash_, b"a", b"b", 5)] * 3

    assert dividing_boundary(keys, alone, divides_collections=True) is None
