"""The set of tables, and the filling of a new index."""

from typing import Any

from foldb.log.commands import Backfill, DefineTable, Settle
from foldb.materializer.fold.dump import dump
from foldb.materializer.fold.load import load
from foldb.materializer.fold.outcomes import Completed, Refused, Skipped, TableDefined
from foldb.materializer.fold.state import Table
from foldb.model.errors import ResourceInUseError
from foldb.model.throughput import units_of
from tests.unit.materializer.ledger import CONTEXT, Ledger, define, index_request, put, table_request

ADD_INDEX = {
    "TableName": "Cars",
    "AttributeDefinitions": [
        {"AttributeName": "pk", "AttributeType": "S"},
        {"AttributeName": "colour", "AttributeType": "S"},
    ],
    "GlobalSecondaryIndexUpdates": [{"Create": index_request("by-colour", "colour")}],
}


def test_a_table_without_a_delay_answers_creating_and_is_active() -> None:
    ledger = Ledger()

    outcome = ledger.fold(define("CreateTable", 0, table_request("Cars")))

    assert isinstance(outcome, TableDefined)
    assert "CREATING" == outcome.definition.status
    cars = ledger.state.table_named("Cars")
    assert cars is not None
    assert "ACTIVE" == cars.definition.status


def test_a_table_with_a_delay_is_creating_until_it_is_settled() -> None:
    ledger = Ledger()
    ledger.fold(define("CreateTable", 0, table_request("Cars"), settle=True))
    cars = ledger.state.table_named("Cars")
    assert cars is not None
    before = cars.definition.status

    first = ledger.fold(Settle(cars.definition.id, CONTEXT))
    second = ledger.fold(Settle(cars.definition.id, CONTEXT))

    assert ("CREATING", "ACTIVE") == (before, cars.definition.status)
    assert (Completed(progressed=True), Completed(progressed=False)) == (first, second)


def test_a_name_is_given_once_and_free_again_after_the_table_is_gone() -> None:
    ledger = Ledger()
    first = ledger.create("Cars")

    taken = ledger.fold(define("CreateTable", 0, table_request("Cars")))
    ledger.fold(define("DeleteTable", first.definition.id, {"TableName": "Cars"}))
    second = ledger.create("Cars")

    assert isinstance(taken, Refused)
    assert isinstance(taken.error, ResourceInUseError)
    assert second.definition.id > first.definition.id


def test_units_of_the_account_follow_every_definition() -> None:
    ledger = Ledger()
    billed: dict[str, Any] = {"BillingMode": "PROVISIONED", "ProvisionedThroughput": _units(5, 3)}
    index = index_request("by-colour", "colour") | {"ProvisionedThroughput": _units(2, 1)}
    cars = ledger.create("Cars", **billed, GlobalSecondaryIndexes=[index])
    bikes = ledger.create("Bikes", **billed)
    ledger.create("Boats")
    created = ledger.state.units_of_others(None), ledger.state.units_of_others(cars)

    raised = {"TableName": "Cars", "ProvisionedThroughput": _units(9, 4)}
    ledger.fold(define("UpdateTable", cars.definition.id, raised))
    ledger.fold(define("DeleteTable", bikes.definition.id, {"TableName": "Bikes"}))

    assert ((12, 7), (5, 3)) == created
    assert (11, 5) == ledger.state.units_of_others(None)
    assert (11, 5) == units_of(table.definition for table in ledger.state.tables.values())
    assert (11, 5) == load(dump(ledger.state)).units_of_others(None)


def test_tables_with_a_time_to_live_follow_every_definition() -> None:
    ledger = Ledger()
    cars, bikes = ledger.create("Cars"), ledger.create("Bikes")
    ledger.create("Boats")
    for table in (cars, bikes):
        ledger.fold(_expiry_of(table, enabled=True))
    enabled = set(ledger.state.expiring)

    ledger.fold(_expiry_of(cars, enabled=False))
    reloaded = load(dump(ledger.state)).expiring
    ledger.fold(define("DeleteTable", bikes.definition.id, {"TableName": "Bikes"}))

    assert {cars.definition.id, bikes.definition.id} == enabled
    assert {bikes.definition.id} == reloaded
    assert set() == ledger.state.expiring


def test_names_of_tables_are_in_order_after_every_definition() -> None:
    ledger = Ledger()
    for name in ("Cars", "Bikes", "Planes", "Boats"):
        ledger.create(name)
    cars = ledger.state.table_named("Cars")
    assert cars is not None

    ledger.fold(define("DeleteTable", cars.definition.id, {"TableName": "Cars"}))

    assert ["Bikes", "Boats", "Planes"] == ledger.state.sorted_names
    assert ["Bikes", "Boats", "Planes"] == load(dump(ledger.state)).sorted_names


def _expiry_of(table: Table, *, enabled: bool) -> DefineTable:
    setting = {"Enabled": enabled, "AttributeName": "at"}
    request = {"TableName": table.definition.name, "TimeToLiveSpecification": setting}
    return define("UpdateTimeToLive", table.definition.id, request)


def _units(read: int, write: int) -> dict[str, int]:
    return {"ReadCapacityUnits": read, "WriteCapacityUnits": write}


def test_a_command_for_a_table_that_is_gone_has_no_effect() -> None:
    ledger = Ledger()
    cars = ledger.create("Cars")
    late = put(cars, {"pk": {"S": "a"}})
    ledger.fold(define("DeleteTable", cars.definition.id, {"TableName": "Cars"}))

    assert isinstance(ledger.fold(late), Skipped)


def test_a_new_index_is_filled_in_steps_beside_writes() -> None:
    """Half of the items exist before the index, some are changed while it is filled, and two of them have invalid index
    keys, which are skipped.
    """
    ledger = Ledger()
    cars = ledger.create("Cars")
    for n in range(10):
        ledger.fold(put(cars, {"pk": {"S": f"car{n}"}, "colour": {"S": "red"}}))
    ledger.fold(put(cars, {"pk": {"S": "odd"}, "colour": {"N": "7"}}))
    ledger.fold(put(cars, {"pk": {"S": "plain"}}))
    ledger.fold(define("UpdateTable", cars.definition.id, ADD_INDEX))
    index = cars.indexes["by-colour"]

    step = Backfill(cars.definition.id, index.definition.id, 4, CONTEXT)
    ledger.fold(step)
    for n in range(5):
        ledger.fold(put(cars, {"pk": {"S": f"car{n}"}, "colour": {"S": "blue"}}))
    steps = 1
    while cars.indexes["by-colour"].definition.backfilling:
        ledger.fold(step)
        steps += 1

    assert steps > 2
    assert "ACTIVE" == cars.indexes["by-colour"].definition.status
    entries = [(pk, stored) for _, pk, _, stored in index.store.scan()]
    assert 10 == len(entries)
    assert 5 == sum(pk == b"blue" for pk, _ in entries)
    assert Completed(progressed=False) == ledger.fold(step)
