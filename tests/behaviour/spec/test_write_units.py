"""The capacity units of writes, and the counts of DescribeTable."""

from typing import Any

import pytest
from boto3.dynamodb.conditions import Attr

from tests.support.claims import KIB, refused, sized
from tests.support.tables import MakeTable

TOTAL = {"ReturnConsumedCapacity": "TOTAL"}
INDEXES = {"ReturnConsumedCapacity": "INDEXES"}


@pytest.fixture
def table(make_table: MakeTable) -> Any:
    return make_table("pk:S")


def _units(response: Any) -> Any:
    return response["ConsumedCapacity"]["CapacityUnits"]


@pytest.mark.spec("S37", "S42")
@pytest.mark.parametrize(("size", "units"), [(1024, 1), (1025, 2), (500, 1), (1639, 2), (400 * KIB, 400)])
def test_a_write_costs_a_unit_for_1_kib(table: Any, size: int, units: int) -> None:
    assert units == _units(table.put_item(Item=sized(size, pk="a"), **TOTAL))


@pytest.mark.spec("S40")
@pytest.mark.parametrize(("size", "planned"), [(KIB, 50), (2 * KIB, 100)])
def test_fifty_writes_cost_the_units_of_the_planning_table(table: Any, size: int, planned: int) -> None:
    """`foldb capacity plan` prints that table (tests/behaviour/cli/test_tables.py)."""
    writes = [table.put_item(Item=sized(size, pk=f"{n:02}"), **TOTAL) for n in range(50)]

    assert planned == sum(map(_units, writes))


@pytest.mark.spec("S38")
def test_ten_units_are_ten_writes_of_1_kib(table: Any) -> None:
    writes = [table.put_item(Item=sized(KIB, pk=f"{n}"), **TOTAL) for n in range(10)]

    assert 10 == sum(_units(write) for write in writes)


@pytest.mark.spec("S50")
@pytest.mark.parametrize(("old", "new"), [(1, 3), (3, 1)])
def test_a_put_costs_the_larger_of_old_and_new(table: Any, old: int, new: int) -> None:
    table.put_item(Item=sized(old * KIB, pk="a"))

    assert 3 == _units(table.put_item(Item=sized(new * KIB, pk="a"), **TOTAL))


@pytest.mark.spec("S51")
@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1)])
def test_an_update_costs_the_larger_of_the_old_and_new_item(table: Any, before: int, after: int) -> None:
    table.put_item(Item=sized(before * KIB, pk="a"))
    updated = table.update_item(
        Key={"pk": "a"},
        UpdateExpression="SET d = :d",
        ExpressionAttributeValues={":d": sized(after * KIB, pk="a")["d"]},
        **TOTAL,
    )

    assert 3 == _units(updated)


@pytest.mark.spec("S51")
def test_touching_one_attribute_costs_the_whole_item(table: Any) -> None:
    table.put_item(Item=sized(10 * KIB, pk="a") | {"n": 1})
    updated = table.update_item(
        Key={"pk": "a"}, UpdateExpression="ADD n :one", ExpressionAttributeValues={":one": 1}, **TOTAL
    )

    assert 11 == _units(updated)


@pytest.mark.spec("S52")
def test_a_delete_costs_the_size_of_the_deleted_item(table: Any) -> None:
    table.put_item(Item=sized(2500, pk="a"))

    assert 3 == _units(table.delete_item(Key={"pk": "a"}, **TOTAL))
    assert 1 == _units(table.delete_item(Key={"pk": "a"}, **TOTAL))


def _transact(table: Any, *actions: dict[str, Any], **request: Any) -> Any:
    named = [{kind: {"TableName": table.name} | rest for kind, rest in action.items()} for action in actions]
    return table.meta.client.transact_write_items(TransactItems=named, **request)


@pytest.mark.spec("S54")
def test_a_transaction_costs_twice(table: Any) -> None:
    table.put_item(Item=sized(2 * KIB, pk="deleted"))
    done = _transact(
        table,
        {"Put": {"Item": sized(1500, pk="put")}},
        {"Delete": {"Key": {"pk": "deleted"}}},
        {"ConditionCheck": {"Key": {"pk": "checked"}, "ConditionExpression": "attribute_not_exists(pk)"}},
        **TOTAL,
    )

    assert [2 * (2 + 2 + 1)] == [arm["CapacityUnits"] for arm in done["ConsumedCapacity"]]


@pytest.mark.spec("S54")
def test_index_arms_of_a_transaction_are_not_doubled(make_table: MakeTable) -> None:
    table = make_table("pk:S", gsi={"Index": "g:S"})
    done = _transact(table, {"Put": {"Item": {"pk": "a", "g": "b"}}}, **INDEXES)["ConsumedCapacity"][0]

    assert 2 == done["Table"]["CapacityUnits"]
    assert 1 == done["GlobalSecondaryIndexes"]["Index"]["CapacityUnits"]


@pytest.mark.spec("S54")
def test_a_used_token_is_charged_as_reads(table: Any) -> None:
    request = {"ClientRequestToken": f"token-{table.name}"} | TOTAL
    put = {"Put": {"Item": sized(5000, pk="a")}}
    first, again = (_transact(table, put, **request)["ConsumedCapacity"][0] for _ in range(2))

    assert (10, 10) == (first["CapacityUnits"], first["WriteCapacityUnits"])
    assert (4, 4) == (again["CapacityUnits"], again["ReadCapacityUnits"])


@pytest.fixture
def indexed(make_table: MakeTable) -> Any:
    return make_table("pk:S", "sk:S", gsi={"Gsi": "g:S"}, lsi={"Lsi": "l:S"})


def _arms(response: Any) -> tuple[int, int, int]:
    """Return the units of a write for the table, the LSI and the GSI."""
    used = response["ConsumedCapacity"]
    arms = (
        used["Table"],
        used.get("LocalSecondaryIndexes", {}).get("Lsi"),
        used.get("GlobalSecondaryIndexes", {}).get("Gsi"),
    )
    assert sum(arm["CapacityUnits"] for arm in arms if arm) == used["CapacityUnits"]
    table, lsi, gsi = (int(arm["CapacityUnits"]) if arm else 0 for arm in arms)
    return table, lsi, gsi


@pytest.mark.spec("S55")
def test_five_kib_with_two_indexes_cost_15_units_then_5(indexed: Any) -> None:
    item = sized(5 * KIB, pk="a", sk="b", g="c", l="d")

    assert (5, 5, 5) == _arms(indexed.put_item(Item=item, **INDEXES))
    assert (5, 0, 0) == _arms(indexed.put_item(Item=item, **INDEXES))


@pytest.mark.spec("S55")
@pytest.mark.parametrize(
    ("change", "arms"),
    [
        ("SET x = :v", (1, 1, 1)),
        ("SET g = :v", (1, 1, 2)),
        ("SET l = :v", (1, 2, 1)),
        ("REMOVE g", (1, 1, 1)),
        ("REMOVE x", (1, 0, 0)),
    ],
    ids=["a-projected-attribute", "the-GSIs-key", "the-LSIs-key", "out-of-the-GSI", "nothing"],
)
def test_an_index_costs_1_write_per_change_and_2_per_moved_key(
    indexed: Any, change: str, arms: tuple[int, int, int]
) -> None:
    indexed.put_item(Item={"pk": "a", "sk": "b", "g": "c", "l": "d"})
    values = {"ExpressionAttributeValues": {":v": "new"}} if ":v" in change else {}
    updated = indexed.update_item(Key={"pk": "a", "sk": "b"}, UpdateExpression=change, **values, **INDEXES)

    assert arms == _arms(updated)


@pytest.mark.spec("S55")
def test_an_index_costs_nothing_for_unprojected_attributes(make_table: MakeTable) -> None:
    table = make_table("pk:S", "sk:S", gsi={"Gsi": "g:S KEYS_ONLY"}, lsi={"Lsi": "l:S KEYS_ONLY"})
    table.put_item(Item={"pk": "a", "sk": "b", "g": "c", "l": "d"})
    updated = table.update_item(
        Key={"pk": "a", "sk": "b"},
        UpdateExpression="SET x = :v",
        ExpressionAttributeValues={":v": "new"},
        **INDEXES,
    )

    assert (1, 0, 0) == _arms(updated)


@pytest.mark.spec("S55")
def test_lsi_writes_are_charged_to_the_table(make_table: MakeTable) -> None:
    """TOTAL is one number, the table's: an LSI has no throughput of its own."""
    table = make_table("pk:S", "sk:S", lsi={"Lsi": "l:S"})

    assert 2 == _units(table.put_item(Item={"pk": "a", "sk": "b", "l": "c"}, **TOTAL))


@pytest.mark.spec("S56")
def test_describe_table_counts_100_bytes_more_for_each_item(table: Any) -> None:
    table.put_item(Item=sized(900, pk="a"))
    table.put_item(Item=sized(1024, pk="b"))
    table.reload()

    assert (2, 900 + 1024 + 200) == (table.item_count, table.table_size_bytes)
    assert 1 == _units(table.put_item(Item=sized(1024, pk="b"), **TOTAL))


@pytest.mark.spec("S44")
def test_a_refused_write_answers_no_units(table: Any) -> None:
    """Its cost is in the outcome: see test_history.py."""
    table.put_item(Item=sized(2 * KIB, pk="a"))

    with refused("ConditionalCheckFailedException", "The conditional request failed"):
        table.put_item(Item={"pk": "a"}, ConditionExpression=Attr("pk").not_exists(), **TOTAL)
