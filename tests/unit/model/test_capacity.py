"""Rounding: all figures are from DynamoDB's developer guide."""

import pytest

from foldb.model import capacity

KB = 1024


@pytest.mark.parametrize(
    ("size", "units"),
    [(0, 1), (1, 1), (3_500, 1), (3_584, 1), (4_096, 1), (4_097, 2), (10 * KB, 3), (400 * KB, 100)],
)
def test_a_consistent_read_is_a_unit_for_every_4_kb(size: int, units: int) -> None:
    assert capacity.read_half_units(size, consistent=True) == 2 * units


@pytest.mark.parametrize("size", [0, 1, 4_096, 4_097, 80 * KB])
def test_read_costs_differ_by_consistency(size: int) -> None:
    consistent = capacity.read_half_units(size, consistent=True)

    assert 2 * capacity.read_half_units(size, consistent=False) == consistent
    assert capacity.transaction_read_half_units(size) == 2 * consistent


def test_80_kb_read_eventually_is_10_units() -> None:
    assert capacity.text(capacity.read_half_units(80 * KB, consistent=False)) == "10.0"


def test_a_missing_item_is_a_unit_or_half_of_one() -> None:
    assert capacity.text(capacity.read_half_units(0, consistent=True)) == "1.0"
    assert capacity.text(capacity.read_half_units(0, consistent=False)) == "0.5"


@pytest.mark.parametrize(
    ("size", "units"),
    [(0, 1), (1, 1), (500, 1), (1_024, 1), (1_025, 2), (1_638, 2), (400 * KB, 400)],
)
def test_a_write_costs_a_unit_a_kb_and_twice_in_a_transaction(size: int, units: int) -> None:
    assert capacity.write_units(size) == units
    assert capacity.transaction_write_units(size) == 2 * units


def test_a_batch_rounds_every_item_alone() -> None:
    sizes = [1_536, 6_656]  # 1.5 KB and 6.5 KB: 4 + 8, not 8

    assert sum(capacity.read_half_units(size, consistent=True) for size in sizes) == 2 * 3
    assert sum(capacity.read_half_units(size, consistent=False) for size in sizes) == 3


@pytest.mark.parametrize(("size", "consistent", "eventual"), [(41_779, 11, 5.5), (1_500 * 64, 24, 12)])
def test_a_query_sums_before_it_rounds(size: int, consistent: int, eventual: float) -> None:
    assert capacity.read_half_units(size, consistent=True) == 2 * consistent
    assert capacity.read_half_units(size, consistent=False) == 2 * eventual


def test_a_page_of_1_mb_read_eventually_is_128_units() -> None:
    assert capacity.text(capacity.read_half_units(KB * KB, consistent=False)) == "128.0"


@pytest.mark.parametrize(
    ("before", "after", "moved", "changed", "units"),
    [
        (None, None, False, False, 0),
        (None, 5 * KB, False, True, 5),
        (5 * KB, None, False, True, 5),
        (5 * KB, 5 * KB, False, False, 0),
        (1 * KB, 3 * KB, False, True, 3),
        (3 * KB, 1 * KB, False, True, 3),
        (1_536, 1_536, True, True, 4),
    ],
    ids=["in neither", "put", "removed", "nothing projected changed", "grown", "shrunk", "key moved"],
)
def test_an_index_costs_nothing_one_write_or_two(
    before: int | None, after: int | None, moved: bool, changed: bool, units: int
) -> None:
    assert capacity.index_write_units(before, after, moved=moved, changed=changed) == units


@pytest.mark.parametrize(
    ("kb", "consistent", "text"),
    [(4, True, "50.0"), (8, True, "100.0"), (4, False, "25.0"), (8, False, "50.0")],
)
def test_the_read_planning_table_for_50_items_a_second(kb: int, consistent: bool, text: str) -> None:
    assert capacity.text(capacity.planned_read_half_units(50, kb * KB, consistent)) == text


@pytest.mark.parametrize(("kb", "units"), [(1, 50), (2, 100)])
def test_the_write_planning_table_for_50_items_a_second(kb: int, units: int) -> None:
    assert capacity.planned_write_units(50, kb * KB) == units


def test_storage_adds_100_bytes_an_item() -> None:
    assert capacity.storage_bytes(3, 426) == 726


@pytest.mark.parametrize(("half_units", "text"), [(0, "0.0"), (1, "0.5"), (2, "1.0"), (11, "5.5")])
def test_units_are_written_as_json_numbers_with_one_digit(half_units: int, text: str) -> None:
    assert capacity.text(half_units) == text
