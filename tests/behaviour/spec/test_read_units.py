"""The capacity units of reads."""

from typing import Any

import pytest
from boto3.dynamodb.conditions import Attr, Key

from tests.support.claims import KIB, pages, read_units, sized
from tests.support.tables import MakeTable

TOTAL = {"ReturnConsumedCapacity": "TOTAL"}


@pytest.fixture
def table(make_table: MakeTable) -> Any:
    return make_table("pk:S")


def _get(table: Any, size: int, consistent: bool) -> Any:
    table.put_item(Item=sized(size, pk="a"))
    return read_units(table.get_item(Key={"pk": "a"}, ConsistentRead=consistent, **TOTAL))


@pytest.mark.spec("S36", "S41", "S53")
@pytest.mark.parametrize(
    ("size", "units"),
    [
        (4096, 1),
        (4097, 2),
        (3500, 1),
        (3584, 1),  # 3.5 KB are 4
        (10 * KIB, 3),  # 10 KB are 12
        (80 * KIB, 20),
    ],
)
def test_a_consistent_read_costs_1_unit_per_4_kib_another_half(table: Any, size: int, units: int) -> None:
    assert units == _get(table, size, consistent=True)
    assert units / 2 == _get(table, size, consistent=False)


@pytest.mark.spec("S43")
@pytest.mark.parametrize(("consistent", "units"), [(True, 1), (False, 0.5)])
def test_reading_a_missing_item_costs_the_minimum(table: Any, consistent: bool, units: float) -> None:
    assert units == read_units(table.get_item(Key={"pk": "none"}, ConsistentRead=consistent, **TOTAL))


@pytest.mark.spec("S39")
@pytest.mark.parametrize(
    ("size", "consistent", "planned"),
    [(4 * KIB, True, 50), (8 * KIB, True, 100), (4 * KIB, False, 25), (8 * KIB, False, 50)],
)
def test_fifty_reads_cost_the_units_of_the_planning_table(
    table: Any, size: int, consistent: bool, planned: int
) -> None:
    """`foldb capacity plan` prints that table (tests/behaviour/cli/test_tables.py)."""
    table.put_item(Item=sized(size, pk="a"))
    get = {"Key": {"pk": "a"}, "ConsistentRead": consistent}

    assert planned == sum(read_units(table.get_item(**get, **TOTAL)) for _ in range(50))


@pytest.mark.spec("S38")
def test_ten_units_are_10_consistent_or_20_other_reads_of_4_kib(table: Any) -> None:
    def cost(size: int, consistent: bool, times: int) -> float:
        table.put_item(Item=sized(size, pk="a"))
        get = {"Key": {"pk": "a"}, "ConsistentRead": consistent}
        return sum(float(read_units(table.get_item(**get, **TOTAL))) for _ in range(times))

    assert 10 == cost(4 * KIB, consistent=True, times=10)
    assert 10 == cost(4 * KIB, consistent=False, times=20)
    assert 10 == cost(8 * KIB, consistent=True, times=5)


@pytest.mark.spec("S45")
@pytest.mark.parametrize(("consistent", "units"), [(True, 3), (False, 1.5)])
def test_a_batch_rounds_each_item_alone(table: Any, consistent: bool, units: float) -> None:
    table.put_item(Item=sized(1536, pk="a"))
    table.put_item(Item=sized(6656, pk="b"))
    found = table.meta.client.batch_get_item(
        RequestItems={table.name: {"Keys": [{"pk": "a"}, {"pk": "b"}], "ConsistentRead": consistent}}, **TOTAL
    )

    assert [(table.name, units)] == [(c["TableName"], c["CapacityUnits"]) for c in found["ConsumedCapacity"]]


def _collection(make_table: MakeTable, count: int, size: int) -> Any:
    table = make_table("pk:S", "sk:S")
    with table.batch_writer() as batch:
        for n in range(count):
            batch.put_item(Item=sized(size, pk="a", sk=f"{n:05}"))
    return table


@pytest.mark.spec("S46", "S53")
@pytest.mark.parametrize(
    ("count", "size", "units"), [(10, 4178, 11), (1500, 64, 24)], ids=["40.8-KB", "96000-B"]
)
def test_a_query_sums_its_items_and_rounds_once(
    make_table: MakeTable, count: int, size: int, units: int
) -> None:
    table = _collection(make_table, count, size)
    query = {"KeyConditionExpression": Key("pk").eq("a")} | TOTAL

    assert units == read_units(table.query(ConsistentRead=True, **query))
    assert units / 2 == read_units(table.query(**query))


@pytest.mark.spec("S47")
def test_a_scan_costs_the_items_it_evaluates(make_table: MakeTable) -> None:
    table = _collection(make_table, 40, 32 * KIB)
    found = list(pages(table.scan, FilterExpression=Attr("pk").eq("nothing"), **TOTAL))

    assert (32, 0, 128) == (found[0]["ScannedCount"], found[0]["Count"], read_units(found[0]))
    assert (8, 0, 32) == (found[1]["ScannedCount"], found[1]["Count"], read_units(found[1]))


@pytest.mark.spec("S48", "S49")
def test_counting_and_projecting_cost_the_same_as_reading(make_table: MakeTable) -> None:
    table = _collection(make_table, 20, 1000)
    query = {"KeyConditionExpression": Key("pk").eq("a")} | TOTAL
    whole = read_units(table.query(**query))

    assert 2.5 == whole
    assert whole == read_units(table.query(**query, Select="COUNT"))
    assert whole == read_units(table.query(**query, ProjectionExpression="sk"))
    assert whole == read_units(table.scan(Select="COUNT", **TOTAL))
    assert whole == read_units(table.scan(ProjectionExpression="sk", **TOTAL))


@pytest.mark.spec("S49")
def test_projecting_one_item_costs_the_whole_item(table: Any) -> None:
    table.put_item(Item=sized(9000, pk="a"))

    assert 3 == read_units(
        table.get_item(Key={"pk": "a"}, ConsistentRead=True, ProjectionExpression="pk", **TOTAL)
    )


@pytest.mark.spec("S54")
def test_a_transactional_read_costs_twice(table: Any) -> None:
    table.put_item(Item=sized(5000, pk="a"))
    found = table.meta.client.transact_get_items(
        TransactItems=[
            {"Get": {"TableName": table.name, "Key": {"pk": "a"}}},
            {"Get": {"TableName": table.name, "Key": {"pk": "none"}}},
        ],
        **TOTAL,
    )

    assert [2 * 2 + 2 * 1] == [arm["CapacityUnits"] for arm in found["ConsumedCapacity"]]
