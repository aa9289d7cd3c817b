"""`foldb model`: the kinds of items in a table of several kinds."""

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldb.cli.lib.item_kinds import ItemKinds, in_words
from tests.behaviour.cli.conftest import Foldb, lines

SHOP = [
    {"pk": "USER#ada", "sk": "PROFILE", "name": "Ada", "type": "user"},
    {"pk": "USER#bob", "sk": "PROFILE", "name": "Bob", "type": "user", "age": 7},
    {
        "pk": "USER#ada",
        "sk": "ORDER#2026-11-22#1",
        "total": 5,
        "owner": "STATE#open",
        "at": 1,
        "type": "order",
    },
    {"pk": "USER#ada", "sk": "ORDER#2026-11-23#2", "total": "six", "owner": "STATE#open", "type": "order"},
    {"pk": "ITEM#17", "sk": "STOCK#x1", "left": 3, "owner": "DEPOT#x1", "at": 3, "type": "stock"},
]


@pytest.fixture
def shop(cli: Foldb) -> Foldb:
    cli("table", "create", "Shop", "pk:S", "sk:S", "--gsi", "owners=owner:S,at:N")
    assert 0 == cli("item", "put", "Shop", "-", stdin="\n".join(map(json.dumps, SHOP))).exit_code
    return cli


def attribute(share: float, *types: str) -> dict[str, Any]:
    return {"share": share, "types": list(types)}


@pytest.mark.spec("S96")
def test_kinds_are_the_patterns_of_the_keys(shop: Foldb) -> None:
    rows = lines(shop("model", "Shop"))

    assert ["USER#* / ORDER#*#*", "USER#* / PROFILE", "ITEM#* / STOCK#*"] == [row["kind"] for row in rows]
    assert [(2, 0.4, 1), (2, 0.4, 2), (1, 0.2, 1)] == [
        (row["items"], row["share"], row["collections"]) for row in rows
    ]
    orders, profiles, stock = rows
    assert {
        "at": attribute(0.5, "N"),
        "owner": attribute(1, "S"),
        "pk": attribute(1, "S"),
        "sk": attribute(1, "S"),
        "total": attribute(1, "N", "S"),
        "type": attribute(1, "S"),
    } == orders["attributes"]
    assert {"owners": {"share": 0.5, "keys": ["STATE#* / number"]}} == orders["indexes"]
    assert {"owners": {"share": 1, "keys": ["DEPOT#* / number"]}} == stock["indexes"]
    assert {} == profiles["indexes"]
    [scan] = lines(shop("explain", "scan", "Shop"))
    assert scan["bytes"] == sum(row["bytes"] for row in rows)


def test_an_attribute_may_name_the_kinds(shop: Foldb) -> None:
    rows = lines(shop("model", "Shop", "--by", "type"))

    assert [
        ("order", "USER#*", "ORDER#*#*"),
        ("user", "USER#*", "PROFILE"),
        ("stock", "ITEM#*", "STOCK#*"),
    ] == [(row["kind"], row["pk"], row["sk"]) for row in rows]


def test_a_sample_is_bounded_and_says_so(shop: Foldb) -> None:
    some = shop("model", "Shop", "--sample", "2")

    assert 2 == sum(row["items"] for row in lines(some))
    assert "of 5; more: --all, or --sample N" in some.stderr
    for words in (["--all"], ["--as-of", "-0"]):
        assert 5 == sum(row["items"] for row in lines(shop("model", "Shop", *words)))


def test_keys_without_a_separator_are_one_kind(cli: Foldb) -> None:
    cli("sample", "load", "music")

    assert ["* / *"] == [row["kind"] for row in lines(cli("model", "Music"))]


def test_a_terminal_shows_attributes_in_words(shop: Foldb) -> None:
    orders = in_words(lines(shop("model", "Shop"))[0])

    assert "at N 50 %, owner S, pk S, sk S, total N|S, type S" == orders["attributes"]
    assert "owners 50 %: STATE#* / number" == orders["indexes"]


def test_many_words_at_a_place_are_names() -> None:
    def kinds_of(count: int) -> list[str]:
        kinds = ItemKinds({"": {"pk": "S"}}, "#")
        for n in range(count):
            kinds.add({"pk": {"S": f"{chr(97 + n)}#1"}}, 1)
        return [str(row["kind"]) for row in kinds.rows("pk")]

    assert 20 == len(kinds_of(20))
    assert ["*#*"] == kinds_of(21)


def test_an_item_with_an_index_key_of_another_type_is_not_counted() -> None:
    """Items that are older than an index may have such attributes, and a backfill skips them."""
    kinds = ItemKinds({"": {"pk": "S"}, "times": {"at": "N"}}, "#")
    kinds.add({"pk": {"S": "a"}, "at": {"S": "now"}}, 1)
    kinds.add({"pk": {"S": "b"}, "at": {"N": "1"}}, 1)

    [row] = kinds.rows("pk")
    assert 0.5 == row["indexes"]["times"]["share"]


WORDS = st.sampled_from(["USER", "ORDER", "ITEM"])
VALUES = st.text(alphabet="0123456789", min_size=1, max_size=4)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(WORDS, VALUES, WORDS, VALUES), min_size=1, max_size=30))
def test_each_item_is_in_the_kind_of_its_words(drawn: list[tuple[str, str, str, str]]) -> None:
    kinds = ItemKinds({"": {"pk": "S", "sk": "S"}}, "#")
    for first, value, second, other in drawn:
        kinds.add({"pk": {"S": f"{first}#{value}"}, "sk": {"S": f"{second}#{other}"}}, 7)

    expected = Counter(f"{first}#* / {second}#*" for first, _, second, _ in drawn)
    rows = kinds.rows("pk")
    assert expected == {row["kind"]: row["items"] for row in rows}
    assert 7 * len(drawn) == sum(row["bytes"] for row in rows)
