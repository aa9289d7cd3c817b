"""What is promised names the tests that hold it, and they are there."""

import re
from pathlib import Path

import pytest

from tests.house.source import ROOT

PAGES = [ROOT / "docs" / "guarantees.md", ROOT / "SECURITY.md"]

_HELD_BY = re.compile(r"\[(?P<name>test_\w+)\]\((?P<path>[^)]+)\): (?P<tests>\w+(?:, \w+)*)")


def rows(page: Path) -> list[str]:
    """The rows of the tables on a page, without their heads."""
    lines = page.read_text().splitlines()
    heads = {at for at, line in enumerate(lines) if line.startswith("| --- ")}
    return [
        line
        for at, line in enumerate(lines)
        if line.startswith("|") and at not in heads and at + 1 not in heads
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_promise_names_tests_that_are_there(page: Path) -> None:
    assert rows(page)
    for row in rows(page):
        held = list(_HELD_BY.finditer(row))
        assert held, f"nothing holds this: {row}"
        for reference in held:
            path = page.parent / reference["path"]
            assert reference["name"] == path.stem
            for test in reference["tests"].split(", "):
                assert f"def test_{test}(" in path.read_text(), f"{path.name} has no test_{test}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)", page.read_text())

    assert [] == [link for link in links if not (page.parent / link).exists()]
