"""The size of an item, to the byte.

DescribeTable is the witness: TableSizeBytes is the sum of the items' sizes and 100 for each item (S56).
"""

from typing import Any

import pytest

from tests.support.claims import stored_size
from tests.support.tables import MakeTable

KEY = len("pk") + len("a")


def _size_of(make_table: MakeTable, client: Any, name: str, value: dict[str, Any]) -> int:
    """The bytes of an attribute: those of its item without those of the key."""
    table = make_table("pk:S")
    client.put_item(TableName=table.name, Item={"pk": {"S": "a"}, name: value})
    return stored_size(table) - KEY


@pytest.mark.spec("S32")
@pytest.mark.parametrize(
    ("name", "value", "size"),
    [
        ("n", {"S": ""}, 1),
        ("name", {"S": "abc"}, 4 + 3),
        ("größe", {"S": "müsli 🚲"}, 7 + 11),
        ("b", {"B": bytes(10)}, 1 + 10),
        ("ss", {"SS": ["a", "bc"]}, 2 + 3),
        ("bs", {"BS": [b"a", b"bc"]}, 2 + 3),
    ],
)
def test_a_size_is_the_bytes_of_names_and_values(
    make_table: MakeTable, client: Any, name: str, value: dict[str, Any], size: int
) -> None:
    assert size == _size_of(make_table, client, name, value)


@pytest.mark.spec("S33")
@pytest.mark.parametrize(
    ("number", "size"),
    [
        ("0", 1),
        ("7", 2),
        ("42", 2),
        ("300", 2),  # 3E+2: zeros at the end cost nothing
        ("123", 3),
        ("-2", 3),
        ("-42.5", 4),
        ("3.14", 3),
        ("0.5", 2),
        ("1000000", 2),
        ("12345678901234567890123456789012345678", 20),
        ("-12345678901234567890123456789012345678", 21),
        ("1E125", 2),
        ("1E-130", 2),
    ],
)
def test_a_number_costs_a_byte_for_two_digits(
    make_table: MakeTable, client: Any, number: str, size: int
) -> None:
    """1, and the integer's and the fraction's digits in pairs, and 1 for the sign."""
    assert len("n") + size == _size_of(make_table, client, "n", {"N": number})


@pytest.mark.spec("S33")
def test_a_number_set_costs_its_numbers(make_table: MakeTable, client: Any) -> None:
    assert len("ns") + 2 + 3 + 3 == _size_of(make_table, client, "ns", {"NS": ["7", "-2", "3.14"]})


@pytest.mark.spec("S34")
@pytest.mark.parametrize("value", [{"NULL": True}, {"BOOL": True}, {"BOOL": False}])
def test_null_and_boolean_cost_a_byte(make_table: MakeTable, client: Any, value: dict[str, Any]) -> None:
    assert len("flag") + 1 == _size_of(make_table, client, "flag", value)


@pytest.mark.spec("S35")
@pytest.mark.parametrize(
    ("value", "size"),
    [
        ({"L": []}, 3),
        ({"M": {}}, 3),
        ({"L": [{"S": "abc"}]}, 3 + 1 + 3),
        ({"L": [{"N": "7"}, {"BOOL": True}]}, 3 + (1 + 2) + (1 + 1)),
        ({"M": {"key": {"S": "abc"}}}, 3 + 1 + 3 + 3),
        ({"M": {"k": {"L": [{"S": "x"}]}}}, 3 + 1 + 1 + (3 + 1 + 1)),
    ],
)
def test_lists_and_maps_cost_3_bytes_and_1_per_element(
    make_table: MakeTable, client: Any, value: dict[str, Any], size: int
) -> None:
    assert len("doc") + size == _size_of(make_table, client, "doc", value)
