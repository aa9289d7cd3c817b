"""A global index is partitioned by its own key, and its status is correct in every partition."""

import random
from itertools import permutations

import pytest

from foldb.log.commands import Backfill, IndexEntry, Relay
from foldb.materializer.fold.outcomes import Applied, Completed
from foldb.materializer.fold.state import Table
from foldb.model.tables import IndexDefinition
from tests.unit.materializer.ledger import CONTEXT, define, delete, index_request, put, update
from tests.unit.materializer.partitions import projection
from tests.unit.materializer.partitions.cluster import Cluster

BY_COLOUR = index_request("by-colour", "colour")
ADD_INDEX = {
    "AttributeDefinitions": [
        {"AttributeName": "pk", "AttributeType": "S"},
        {"AttributeName": "colour", "AttributeType": "S"},
    ],
    "GlobalSecondaryIndexUpdates": [{"Create": BY_COLOUR}],
}
REMOVE_INDEX = {"GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": "by-colour"}}]}


def filled(cars: int = 30, data: int = 3) -> tuple[Cluster, Table]:
    """Return a cluster with a table of cars of five colours, and no index yet."""
    cluster = Cluster(data)
    table = cluster.create("Cars")
    for n in range(cars):
        cluster.write(put(table, {"pk": {"S": f"car {n}"}, "colour": {"S": f"colour {n % 5}"}}))
    return cluster, table


def index_at(cluster: Cluster, partition: int = 0) -> IndexDefinition | None:
    return cluster.states[partition].tables[1].definition.index("by-colour")


def fill(cluster: Cluster, partition: int, count: int = 100) -> None:
    """Make one partition send all its entries."""
    index = index_at(cluster, partition)
    assert index is not None
    step = Backfill(1, index.id, count, CONTEXT)
    while cluster.fold(partition, step) == Completed(progressed=True):
        pass


def test_an_entry_lives_where_its_index_key_lives() -> None:
    cluster = Cluster(data=4)
    cars = cluster.create("Cars", GlobalSecondaryIndexes=[BY_COLOUR])
    for n in range(60):
        cluster.write(put(cars, {"pk": {"S": str(n)}, "colour": {"S": f"colour {n % 13}"}}))
    at_once = [state.tables[1].indexes["by-colour"].store.count for state in cluster.states]

    cluster.settle()

    assert 60 == projection.check(cluster)
    assert 0 < sum(at_once) < 60, "what lives beside its item is there in the same step, the rest later"
    assert 0 == cluster.catalog.tables[1].indexes["by-colour"].store.count


def test_a_write_costs_the_same_units_wherever_its_entries_live() -> None:
    cluster = Cluster(data=5)
    cars = cluster.create("Cars", GlobalSecondaryIndexes=[BY_COLOUR])
    key = {"pk": {"S": "car"}}

    outcomes = [cluster.write(put(cars, {**key, "colour": {"S": str(n)}})) for n in range(8)]

    units = [one.units.glob for one in outcomes if isinstance(one, Applied)]
    assert [{"by-colour": 1}, *[{"by-colour": 2}] * 7] == units


def test_an_entry_follows_its_item_from_partition_to_partition() -> None:
    cluster = Cluster(data=4)
    cars = cluster.create("Cars", GlobalSecondaryIndexes=[BY_COLOUR])
    key = {"pk": {"S": "car"}}
    for n in range(12):
        cluster.write(put(cars, {**key, "colour": {"S": f"{n}"}}))
        cluster.write(update(cars, key, "SET colour = :c", {":c": {"S": f"{n} again"}}))

    cluster.settle()
    one = projection.check(cluster)
    cluster.write(delete(cars, key))
    cluster.settle()

    assert (1, 0) == (one, projection.check(cluster))


def test_an_index_is_active_when_every_partition_has_filled_it() -> None:
    cluster, table = filled()
    cluster.define(define("UpdateTable", table.definition.id, ADD_INDEX))
    cluster.settle()

    steps = []
    for partition in (2, 3, 1):
        index = index_at(cluster)
        assert index is not None
        steps.append((index.status, index.backfilling))
        fill(cluster, partition)
        cluster.settle()

    assert [("CREATING", True)] * 3 == steps
    everywhere = [index_at(cluster, partition) for partition in range(4)]
    assert {("ACTIVE", False)} == {(one.status, one.backfilling) for one in everywhere if one is not None}
    assert 30 == projection.check(cluster)


def test_one_whole_part_does_not_make_an_index_active() -> None:
    """All entries are sent. Partition 1 has received all, the others none from each other."""
    cluster, table = filled()
    cluster.define(define("UpdateTable", table.definition.id, ADD_INDEX))
    cluster.settle()
    for partition in cluster.data:
        fill(cluster, partition)

    between_data = [(2, 3), (3, 2), (1, 2), (1, 3)]
    for _ in range(5):
        for sender, receiver in cluster.pairs():
            if (sender, receiver) not in between_data:
                for relay in list(cluster.states[sender].outboxes[receiver].unacknowledged):
                    cluster.deliver(relay, receiver)
    index = index_at(cluster)
    whole = dict(cluster.catalog.rollout.filled)
    cluster.settle()

    assert index is not None
    assert (True, {index.id: [1]}) == (index.backfilling, whole)
    assert 30 == projection.check(cluster)


def test_no_index_is_active_while_a_partition_backfills_it() -> None:
    cluster, table = filled()
    cluster.define(define("UpdateTable", table.definition.id, ADD_INDEX))
    cluster.settle()
    for partition in cluster.data:
        fill(cluster, partition)

    dice, seen = random.Random(1), set()
    while index_at(cluster) is not None and index_at(cluster).backfilling:  # type: ignore[union-attr]
        here = [index_at(cluster, partition) for partition in range(4)]
        seen.add(tuple(one.backfilling for one in here if one is not None))
        cluster.disturb(dice)

    assert any(not all(flags[1:]) for flags in seen), "partitions know before the catalog says so"
    assert all(flags[0] for flags in seen)
    assert [False] * 4 == [one.backfilling for p in range(4) if (one := index_at(cluster, p)) is not None]


def test_a_backfill_goes_on_where_it_stood_and_ends_once() -> None:
    cluster, table = filled(cars=40, data=2)
    cluster.define(define("UpdateTable", table.definition.id, ADD_INDEX))
    cluster.settle()
    index = index_at(cluster, 1)
    assert index is not None
    step = Backfill(1, index.id, 3, CONTEXT)

    steps = 0
    while cluster.fold(1, step) == Completed(progressed=True):
        steps += 1
        cluster.reload(1)

    assert cluster.states[1].tables[1].items.count // 3 < steps
    assert index_at(cluster, 1) == index, "it is done here, and others may not be"
    fill(cluster, 2)
    cluster.settle()
    assert 40 == projection.check(cluster)


def test_filled_slots_rise_from_none_to_all_of_the_partition() -> None:
    cluster, table = filled(cars=40, data=2)
    cluster.define(define("UpdateTable", table.definition.id, ADD_INDEX))
    cluster.settle()
    state = cluster.states[2]
    index = state.tables[1].indexes["by-colour"]
    step = Backfill(1, index.definition.id, 3, CONTEXT)

    found = [index.filled_slots(state.slots)]
    while cluster.fold(2, step) == Completed(progressed=True):
        found.append(index.filled_slots(state.slots))

    assert 0 == found[0]
    assert len(state.slots) == found[-1]
    assert sorted(set(found)) == found
    assert len(found) > 5


def test_the_catalog_has_nothing_to_backfill() -> None:
    cluster, table = filled()
    cluster.define(define("UpdateTable", table.definition.id, ADD_INDEX))
    index = index_at(cluster)
    assert index is not None

    assert Completed(progressed=False) == cluster.fold(0, Backfill(1, index.id, 5, CONTEXT))


def test_an_item_with_an_invalid_index_key_is_skipped() -> None:
    cluster, table = filled(cars=5)
    for n in range(10):
        colour = {"N": "7"} if n % 2 else {"S": ""}
        cluster.write(put(table, {"pk": {"S": f"odd {n}"}, "colour": colour}))
    cluster.define(define("UpdateTable", table.definition.id, ADD_INDEX))
    cluster.rest()

    assert 5 == projection.check(cluster)


@pytest.mark.parametrize("order", [*permutations(["told", "ended", "defined"])], ids="-".join)
def test_entries_and_the_end_of_them_may_come_before_the_index_does(order: tuple[str, ...]) -> None:
    """Partition 2 receives the index last. Earlier messages of 1 are deferred; each sender's order stays."""
    cluster, table = filled(data=2)
    cluster.define(define("UpdateTable", table.definition.id, ADD_INDEX))
    [definition] = cluster.catalog.outboxes[1].unacknowledged
    cluster.deliver(definition, 1)
    fill(cluster, 1)
    reported = list(cluster.states[1].outboxes[2].unacknowledged)
    messages: dict[str, list[Relay]] = {
        "told": reported[:-1],
        "ended": reported,
        "defined": list(cluster.catalog.outboxes[2].unacknowledged),
    }

    for what in order:
        for relay in messages[what]:
            cluster.deliver(relay, 2)
        cluster.reload(2)
    cluster.rest()

    assert 30 == projection.check(cluster)
    assert [] == cluster.states[2].deferred


def test_entries_of_an_index_that_is_gone_are_dropped() -> None:
    cluster, table = filled()
    cluster.define(define("UpdateTable", table.definition.id, ADD_INDEX))
    cluster.rest()
    cluster.write(put(table, {"pk": {"S": "late"}, "colour": {"S": "late"}}))
    late = [
        (relay, receiver)
        for sender in cluster.data
        for receiver, outbox in cluster.states[sender].outboxes.items()
        for relay in outbox.unacknowledged
        if isinstance(relay.message, IndexEntry)
    ]
    cluster.define(define("UpdateTable", table.definition.id, REMOVE_INDEX))
    for receiver in cluster.data:
        for relay in list(cluster.catalog.outboxes[receiver].unacknowledged):
            cluster.deliver(relay, receiver)

    for relay, receiver in late:
        cluster.deliver(relay, receiver)
    cluster.settle()

    assert index_at(cluster) is None
    assert all([] == state.deferred for state in cluster.states)


def test_the_catalog_drops_an_index_after_all_partitions() -> None:
    cluster, table = filled(data=2)
    cluster.define(define("UpdateTable", table.definition.id, ADD_INDEX))
    cluster.rest()

    cluster.define(define("UpdateTable", table.definition.id, REMOVE_INDEX))
    marked = index_at(cluster)
    cluster.deliver(cluster.catalog.outboxes[1].unacknowledged[-1], 1)
    halfway = [index_at(cluster, partition) is None for partition in range(3)]
    cluster.settle()

    assert marked is not None
    assert "DELETING" == marked.status
    assert [False, True, False] == halfway
    assert [True, True, True] == [index_at(cluster, partition) is None for partition in range(3)]


def test_a_table_may_be_deleted_while_its_index_is_filled() -> None:
    cluster, table = filled()
    cluster.define(define("UpdateTable", table.definition.id, ADD_INDEX))
    cluster.settle()
    for partition in cluster.data:
        fill(cluster, partition)
    cluster.define(define("DeleteTable", table.definition.id, {"TableName": "Cars"}))

    cluster.rest()

    assert [{}] * 4 == [state.tables for state in cluster.states]
    assert {} == cluster.catalog.rollout.filled
    assert {} == cluster.catalog.rollout.pending
