"""SplitPartition in the fold: its effects, its refusals, and the maps that survive."""

import random
from typing import Any

import orjson
import pytest

from foldb.materializer.fold import fold
from foldb.materializer.fold.dump import digest, dump
from foldb.materializer.fold.load import load
from foldb.materializer.fold.outcomes import Refused, TableDefined
from foldb.materializer.fold.state import PartitionState, Table
from foldb.model.capacity_partitions import Boundary, PartitionMap
from foldb.model.keys import key_hash
from foldb.model.partition_splits import KEEP_PARTITIONS, part_named
from foldb.model.throughput import partition_map
from tests.unit.materializer.ledger import START, Ledger, define, index_request, table_request
from tests.unit.materializer.partitions.cluster import Cluster
from tests.unit.materializer.splitting import random_split, split_command

MIDDLE = Boundary(1 << 63)
GSI = [index_request("by-s", "s")]


def provisioned(units: int, **settings: Any) -> dict[str, Any]:
    throughput = {"ReadCapacityUnits": units, "WriteCapacityUnits": units}
    return {"BillingMode": "PROVISIONED", "ProvisionedThroughput": throughput, **settings}


def own_map(table: Table) -> PartitionMap:
    return partition_map(table.definition, table.definition)


def refusal(outcome: object) -> str:
    assert isinstance(outcome, Refused), outcome
    return str(outcome.error)


def test_a_split_divides_the_partition_of_its_boundary() -> None:
    ledger = Ledger()
    table = ledger.create("T", **provisioned(5))
    ledger.now += 1000

    outcome = ledger.fold(split_command(table.definition, 0, MIDDLE))

    assert isinstance(outcome, TableDefined)
    assert [(1, 0, "heat", START + 1000), (2, 0, "heat", START + 1000)] == [
        (each.id, each.parent, each.reason, each.born_ms) for each in own_map(table).partitions
    ]
    assert "ACTIVE" == table.definition.status


def test_a_split_of_an_index_leaves_the_table_whole() -> None:
    ledger = Ledger()
    table = ledger.create("T", **provisioned(5), GlobalSecondaryIndexes=GSI_PROVISIONED)

    ledger.fold(split_command(table.definition, 0, MIDDLE, index="by-s"))

    [index] = table.definition.gsis
    assert 2 == len(partition_map(table.definition, index).partitions)
    assert PartitionMap() == own_map(table)


GSI_PROVISIONED = [{**GSI[0], "ProvisionedThroughput": {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1}}]


@pytest.mark.spec("S21", served=False)
def test_a_collection_is_divided_unless_a_local_index_needs_it() -> None:
    ledger = Ledger()
    plain = ledger.create("Plain", "pk:S sk:S", **provisioned(1))
    local = ledger.create(
        "Local", "pk:S sk:S", **provisioned(1), LocalSecondaryIndexes=[index_request("by-n", "pk", "n")]
    )
    inside = [Boundary(key_hash(table.definition.id, b"a"), b"a", b"m") for table in (plain, local)]

    assert isinstance(ledger.fold(split_command(plain.definition, 0, inside[0])), TableDefined)
    assert "with a local index" in refusal(ledger.fold(split_command(local.definition, 0, inside[1])))
    assert isinstance(ledger.fold(split_command(local.definition, 0, Boundary(inside[1].hash))), TableDefined)


@pytest.mark.parametrize(
    ("boundary", "text"),
    [
        (Boundary(0), "not inside"),
        (Boundary(1 << 63, b"a", b"m"), "not the key"),
        (Boundary(1 << 63, b"a"), "not the key"),
    ],
)
def test_an_invalid_boundary_changes_nothing(boundary: Boundary, text: str) -> None:
    ledger = Ledger()
    table = ledger.create("T", "pk:S sk:S", **provisioned(1))
    before = table.definition

    assert text in refusal(ledger.fold(split_command(before, 0, boundary)))
    assert before is table.definition


def test_a_repeated_or_stale_split_is_refused() -> None:
    ledger = Ledger()
    table = ledger.create("T", **provisioned(1))
    command = split_command(table.definition, 0, MIDDLE)
    ledger.fold(command)

    assert "no capacity partition 0" in refusal(ledger.fold(command))


def test_a_partition_is_split_at_its_minimum_age() -> None:
    ledger = Ledger()
    table = ledger.create("T", **provisioned(1))
    ledger.fold(split_command(table.definition, 0, MIDDLE, minimum_age_ms=60_000))
    command = split_command(table.definition, 1, Boundary(1 << 62), minimum_age_ms=60_000)

    ledger.now += 59_999
    assert "is 59999 ms old" in refusal(ledger.fold(command))
    ledger.now += 1
    assert isinstance(ledger.fold(command), TableDefined)


def test_a_table_that_is_not_active_is_not_split() -> None:
    ledger = Ledger()
    table = ledger.create("T", **provisioned(1))
    ledger.fold(define("DeleteTable", table.definition.id, {"TableName": "T"}, settle=True))

    assert "being deleted" in refusal(ledger.fold(split_command(table.definition, 0, MIDDLE)))


def test_a_recreated_table_and_a_fork_begin_without_splits() -> None:
    ledger = Ledger()
    first = ledger.create("T", **provisioned(1))
    ledger.fold(split_command(first.definition, 0, MIDDLE))
    source = {"Id": first.definition.id, "Name": "T", "Arn": first.definition.arn}
    request = table_request("Fork", **provisioned(1))
    ledger.fold(define("ForkTable", 0, {**request, "Restore": {"Source": source, "TimeMs": ledger.now}}))
    ledger.fold(define("DeleteTable", first.definition.id, {"TableName": "T"}))

    again = ledger.create("T", **provisioned(1))

    fork = ledger.state.table_named("Fork")
    assert fork is not None
    assert PartitionMap() == own_map(again) == own_map(fork)


CHANGES = {
    "an increase": provisioned(2500),
    "a billing switch": {"BillingMode": "PAY_PER_REQUEST"},
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_increase_keeps_the_partitions_of_a_throttled_table(change: str) -> None:
    ledger = Ledger()
    table = ledger.create("T", **provisioned(10))

    ledger.fold(define("UpdateTable", table.definition.id, {**CHANGES[change], KEEP_PARTITIONS: True}))

    assert PartitionMap(1) == own_map(table) == table.definition.capacity_partitions


def test_an_increase_stores_no_map_where_nothing_is_throttled() -> None:
    ledger = Ledger()
    table = ledger.create("T", **provisioned(10))

    ledger.fold(define("UpdateTable", table.definition.id, provisioned(2500)))

    assert table.definition.capacity_partitions is None
    assert PartitionMap(4) == own_map(table)


def test_a_change_of_no_partition_stores_no_map() -> None:
    ledger = Ledger()
    table = ledger.create("T", **provisioned(10))

    ledger.fold(define("UpdateTable", table.definition.id, {**provisioned(20), KEEP_PARTITIONS: True}))

    assert table.definition.capacity_partitions is None


def test_splits_survive_an_update_of_the_table() -> None:
    ledger = Ledger()
    table = ledger.create("T", **provisioned(10))
    ledger.fold(split_command(table.definition, 0, MIDDLE))
    before = own_map(table)

    ledger.fold(define("UpdateTable", table.definition.id, provisioned(9000)))
    ledger.fold(define("UpdateTable", table.definition.id, {"BillingMode": "PAY_PER_REQUEST"}))

    assert before == own_map(table)


@pytest.mark.spec("S63", served=False)
@pytest.mark.parametrize("seed", range(20))
def test_random_splits_replay_to_the_same_map(seed: int) -> None:
    """The model reads the commands and their outcomes alone, and keeps a set of ranges for each part."""
    dice, ledger = random.Random(seed), Ledger()
    table = ledger.create("T", "pk:S sk:S", GlobalSecondaryIndexes=GSI)
    ranges = {
        index: {(tuple(each.low), tuple(each.high)) for each in PartitionMap(8).partitions}
        for index in (None, "by-s")
    }
    for _ in range(60):
        ledger.now += dice.randrange(2000)
        command = random_split(dice, table.definition)
        if isinstance(ledger.fold(command), TableDefined):
            request = orjson.loads(command.request)
            at = tuple(Boundary.from_json(request["Boundary"]))
            found = ranges[request.get("IndexName")]
            [old] = [each for each in found if each[0] < at < each[1]]
            found -= {old}
            found |= {(old[0], at), (at, old[1])}

    for index, found in ranges.items():
        present = partition_map(table.definition, part_named(table.definition, index))
        assert found == {(tuple(each.low), tuple(each.high)) for each in present.partitions}
        assert len(present.partitions) > 10
    refolded = PartitionState()
    for record in ledger.records:
        fold(refolded, record)
    loaded = load(dump(ledger.state))
    assert digest(ledger.state) == digest(refolded) == digest(loaded)
    assert own_map(table).partitions == own_map(loaded.tables[table.definition.id]).partitions


def test_all_partitions_of_the_log_have_the_same_map() -> None:
    cluster = Cluster(data=3)
    table = cluster.create("T", GlobalSecondaryIndexes=GSI)
    cluster.define(
        split_command(table.definition, 3, Boundary(1 << 63, b"", b"")._replace(hash=(1 << 63) - 1))
    )
    cluster.settle()
    cluster.define(split_command(table.definition, 0, Boundary(1), index="by-s"))
    cluster.settle()

    maps = {
        (own_map(each), partition_map(each.definition, each.definition.gsis[0]))
        for each in (state.tables[table.definition.id] for state in cluster.states)
    }
    assert 1 == len(maps)
    assert 9 == len(own_map(table).partitions)
