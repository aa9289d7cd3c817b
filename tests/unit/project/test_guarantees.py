"""Each guarantee of docs/guarantees.md and SECURITY.md has a test."""

import re
from pathlib import Path

import pytest

from tests.unit.project.coverage import GUARANTEES, guarantees, marked


@pytest.mark.parametrize("page", GUARANTEES, ids=lambda page: page.name)
def test_every_row_of_a_table_has_an_id_of_its_own(page: Path) -> None:
    lines = [line for line in page.read_text().splitlines() if line.startswith("|")]
    rows = [line for line in lines if not line.startswith(("| id |", "| --- |"))]

    assert rows
    assert len(rows) == len(guarantees(page)) == len(set(guarantees(page)))


@pytest.mark.parametrize("page", GUARANTEES, ids=lambda page: page.name)
def test_every_guarantee_has_a_test(page: Path) -> None:
    assert [] == [each for each in guarantees(page) if not marked().get(each)]


def test_every_guarantee_that_a_test_names_is_on_a_page() -> None:
    promised = {each for page in GUARANTEES for each in guarantees(page)}
    named = {row for row in marked() if re.fullmatch(r"(G|SEC)\d+", row)}

    assert promised == named


@pytest.mark.parametrize("page", GUARANTEES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)", page.read_text())

    assert [] == [link for link in links if not (page.parent / link).exists()]
