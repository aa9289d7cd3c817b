"""The operation Heat, and the tables and requests that the sketches of a node follow."""

from dataclasses import replace
from typing import Any

import pytest

from foldb.model.capacity_partitions import Boundary, PartitionMap, Split
from tests.support.tables import table_request
from tests.verification.fuzz.inside import Inside

CARS = {"TableName": "Cars"}


@pytest.fixture
def inside() -> Inside:
    inside = Inside(heat=True)
    inside.ask("CreateTable", table_request("Cars", "pk:S", gsi={"by-g": "g:S"}))
    return inside


def heat(inside: Inside) -> dict[str, dict[str, Any]]:
    """Return the parts of the table by the name of the index."""
    _, answer = inside.ask("Foldb_20261121.Heat", CARS)
    return {part.get("IndexName", ""): part for part in answer["Parts"]}


def test_splits_are_returned_with_their_boundaries(inside: Inside) -> None:
    table = inside.node.state.tables[inside.node.state.names["Cars"]]
    split = Split(1, Boundary(3 << 62), "heat", 1234)
    table.definition = replace(table.definition, capacity_partitions=PartitionMap(2, (split,)))

    found = heat(inside)

    assert [{"Slot": 0}, {"Slot": 2048}, {"Slot": 3072}] == found[""]["CapacityPartitions"]
    assert [{"Slot": 3072, "Time": 1234, "Reason": "heat"}] == found[""]["Splits"]
    assert [] == found["by-g"]["Splits"]


def test_the_sketches_of_a_dropped_index_and_table_are_dropped(inside: Inside) -> None:
    parts = [*heat(inside)]
    drop = {"GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": "by-g"}}]}
    inside.ask("UpdateTable", CARS | drop)
    without_index = [*heat(inside)]
    inside.ask("DeleteTable", CARS)
    inside.node.usage.settle(inside.node.state.tables)
    inside.node.heat.settle(inside.node.usage)

    assert ["", "by-g"] == parts
    assert [""] == without_index
    assert {} == inside.node.heat.tables
    assert {} == inside.node.usage
