"""A table has the catalog's definition after every partition has applied it."""

import pytest

from foldb.log.commands import Settle
from foldb.materializer.fold.outcomes import Applied, Completed, Refused, Skipped, TableDefined
from foldb.materializer.fold.state import PartitionState
from foldb.model.errors import ResourceInUseError
from tests.unit.materializer.ledger import CONTEXT, define, index_request, put, table_request
from tests.unit.materializer.partitions.cluster import Cluster


def statuses(cluster: Cluster, name: str = "Cars") -> list[str | None]:
    """Return the table's status in each partition, the catalog first."""
    tables = [state.table_named(name) for state in cluster.states]
    return [None if table is None else table.definition.status for table in tables]


def tell(cluster: Cluster, receiver: int) -> None:
    """Deliver the catalog's messages to one partition, and its answers."""
    for relay in list(cluster.catalog.outboxes[receiver].unacknowledged):
        cluster.deliver(relay, receiver)
    cluster.acknowledge(0, receiver)
    for relay in list(cluster.states[receiver].outboxes[0].unacknowledged):
        cluster.deliver(relay, 0)
    cluster.acknowledge(receiver, 0)


def test_a_table_is_active_when_the_last_partition_has_applied_it() -> None:
    cluster = Cluster(data=3)

    outcome = cluster.define(define("CreateTable", 0, table_request("Cars")))

    assert isinstance(outcome, TableDefined)
    assert "CREATING" == outcome.definition.status
    seen = [statuses(cluster)]
    for partition in (2, 1, 3):
        tell(cluster, partition)
        seen.append(statuses(cluster))
    assert [
        ["CREATING", None, None, None],
        ["CREATING", None, "ACTIVE", None],
        ["CREATING", "ACTIVE", "ACTIVE", None],
        ["ACTIVE", "ACTIVE", "ACTIVE", "ACTIVE"],
    ] == seen


@pytest.mark.parametrize("settle_first", [False, True])
def test_a_delay_is_over_when_it_is_settled_and_all_have_applied(settle_first: bool) -> None:
    cluster = Cluster()
    cluster.define(define("CreateTable", 0, table_request("Cars"), settle=True))

    steps = [lambda: cluster.fold(0, Settle(1, CONTEXT)), cluster.settle]
    for step in steps if settle_first else reversed(steps):
        assert "CREATING" == statuses(cluster)[0]
        step()

    assert ["ACTIVE"] * 4 == statuses(cluster)
    assert Completed(progressed=False) == cluster.fold(0, Settle(1, CONTEXT))


def test_without_a_delay_nothing_but_the_partitions_settles_a_table() -> None:
    cluster = Cluster()
    cluster.define(define("CreateTable", 0, table_request("Cars")))

    assert Completed(progressed=False) == cluster.fold(0, Settle(1, CONTEXT))
    assert "CREATING" == statuses(cluster)[0]


def test_a_deleted_table_keeps_its_name_until_all_have_deleted_it() -> None:
    cluster = Cluster(data=2)
    cars = cluster.create("Cars").definition
    cluster.define(define("DeleteTable", cars.id, {"TableName": "Cars"}))

    tell(cluster, 1)
    halfway = statuses(cluster)
    again = cluster.fold(0, define("CreateTable", 0, table_request("Cars")))
    tell(cluster, 2)

    assert ["DELETING", None, "ACTIVE"] == halfway
    assert isinstance(again, Refused)
    assert isinstance(again.error, ResourceInUseError)
    assert [None, None, None] == statuses(cluster)
    assert cluster.create("Cars").definition.id > cars.id


def test_a_write_to_an_unknown_table_or_a_foreign_slot_is_skipped() -> None:
    cluster = Cluster(data=2)
    cluster.define(define("CreateTable", 0, table_request("Cars")))
    tell(cluster, 1)
    tables = [state.table_named("Cars") for state in cluster.states]
    assert tables[1] is not None
    writes = [put(tables[1], {"pk": {"S": str(n)}}) for n in range(20)]

    outcomes = {p: [cluster.fold(p, write) for write in writes if cluster.home(write) == p] for p in (1, 2)}
    elsewhere = [cluster.fold(p, write) for write in writes for p in (0, 1) if cluster.home(write) == 2]

    assert outcomes[1]
    assert all(isinstance(outcome, Applied) for outcome in outcomes[1])
    assert {"no such table"} == {one.why for one in outcomes[2] if isinstance(one, Skipped)}
    assert {"not of this partition"} == {one.why for one in elsewhere if isinstance(one, Skipped)}


def test_only_the_catalog_defines_tables() -> None:
    assert Skipped("not the catalog") == Cluster().fold(1, define("CreateTable", 0, table_request("Cars")))


def test_a_setting_reaches_every_partition_of_an_active_table() -> None:
    cluster = Cluster()
    cars = cluster.create("Cars").definition
    ttl = {"TimeToLiveSpecification": {"Enabled": True, "AttributeName": "exp"}}

    cluster.define(define("UpdateTimeToLive", cars.id, ttl))
    reported = statuses(cluster)
    cluster.settle()

    def attribute(state: PartitionState) -> str | None:
        return state.tables[cars.id].definition.ttl_attribute

    assert ["ACTIVE"] * 4 == reported
    assert ["exp"] * 4 == [attribute(state) for state in cluster.states]


def test_all_partitions_end_with_the_same_definitions_and_ids() -> None:
    cluster = Cluster()
    cluster.create("Cars", GlobalSecondaryIndexes=[index_request("by-colour", "colour")])
    cluster.create("Bikes")
    cluster.define(define("TagResource", 1, {"ResourceArn": "Cars", "Tags": [{"Key": "k", "Value": "v"}]}))
    cluster.define(
        define("UpdateTable", 3, {"TableName": "Bikes", "DeletionProtectionEnabled": True}, settle=True)
    )
    cluster.settle()
    cluster.fold(0, Settle(3, CONTEXT))

    for state in cluster.states:
        assert cluster.catalog.names == state.names
        assert cluster.catalog.next_id == state.next_id
        for table_id, table in cluster.catalog.tables.items():
            assert table.definition == state.tables[table_id].definition
