"""docs/python.md and the types of `foldb.serve` agree with the declared settings."""

import pytest

from foldb.server.settings import SETTINGS
from tests.unit.project.settings_reference import KEYWORDS, PAGE, keywords, page

GENERATE = "run `python -m tests.unit.project.settings_reference`"


def test_the_table_of_settings_is_generated() -> None:
    assert page() == PAGE.read_text("utf-8"), GENERATE


def test_the_types_of_the_keywords_are_generated() -> None:
    assert keywords() == KEYWORDS.read_text("utf-8"), GENERATE


@pytest.mark.parametrize("name", SETTINGS)
def test_a_default_is_inside_its_bounds(name: str) -> None:
    SETTINGS[name].check(SETTINGS[name].default)
    SETTINGS[name].check(SETTINGS[name].command_default)
