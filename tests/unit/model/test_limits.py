"""The two sets of limits."""

import dataclasses

import pytest

from foldb.model.limits import LIMITS_2012, MODERN, limits_named


def test_a_set_is_found_by_the_name_that_a_genesis_gives() -> None:
    assert limits_named("modern") is MODERN
    assert limits_named("2012") is LIMITS_2012


@pytest.mark.parametrize(
    "text",
    [
        "2013",
        "",
        "modern,item_bytes=1",
        "modern,collection_bytes",
        "modern,collection_bytes=-1",
        "modern,collection_bytes=１",  # noqa: RUF001  # a digit, but not of ASCII
        "modern,global_indexes=1,global_indexes=2",
    ],
)
def test_a_name_that_no_genesis_may_give_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="limit"):
        limits_named(text)


def test_quotas_can_be_set_after_the_name_of_the_set() -> None:
    limits = limits_named("2012,global_indexes=7,collection_bytes=1024")

    assert (7, 1024, 65_536) == (limits.global_indexes, limits.collection_bytes, limits.item_bytes)
    assert "2012,global_indexes=7,collection_bytes=1024" == limits.name


def test_the_sets_of_limits_differ_in_five_limits() -> None:
    modern, old = dataclasses.asdict(MODERN), dataclasses.asdict(LIMITS_2012)

    assert {name: (value, old[name]) for name, value in modern.items() if value != old[name]} == {
        "name": ("modern", "2012"),
        "item_bytes": (409_600, 65_536),
        "null_allowed": (True, False),
        "empty_allowed": (True, False),
        "element_bytes": (1, 0),
        "global_indexes": (20, 5),
    }
