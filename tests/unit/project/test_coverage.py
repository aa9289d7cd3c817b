"""docs/coverage.md matches the markers, and each row that it lists has a test."""

import pytest

from tests.unit.project.coverage import LATER, PAGE, ROWS, marked, page


def test_the_page_matches_the_markers() -> None:
    assert page() == PAGE.read_text(), "run `python -m tests.unit.project.coverage`"


@pytest.mark.parametrize("row", ROWS)
def test_a_row_has_a_test_that_drives_a_served_process(row: str) -> None:
    tests = marked().get(row, [])

    assert any(test.is_served for test in tests), tests


def test_postponed_parts_belong_to_claimed_rows() -> None:
    assert set(LATER) <= set(ROWS)
