"""Canonical values: size, comparison and encoding."""

import base64
import tracemalloc
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldb.model import numbers
from foldb.model.limits import LIMITS_2012, MODERN, Limits
from foldb.model.values import (
    Item,
    check_item,
    compare,
    contains,
    depth_of,
    dump,
    equal,
    item_size,
    load,
    type_of,
    value_size,
)

# The catalog of the founding documents, with the sizes that the rules give.
CATALOG: list[tuple[Item, int]] = [
    (
        {
            "Id": {"N": "101"},
            "ProductName": {"S": "Book 101 Title"},
            "ISBN": {"S": "111-1111111111"},
            "Authors": {"SS": ["Author 1", "Author 2"]},
            "Price": {"N": "-2"},
            "Dimensions": {"S": "8.5 x 11.0 x 0.5"},
            "PageCount": {"N": "500"},
            "InPublication": {"N": "1"},
            "ProductCategory": {"S": "Book"},
        },
        150,
    ),
    (
        {
            "Id": {"N": "201"},
            "ProductName": {"S": "18-Bicycle 201"},
            "Description": {"S": "201 description"},
            "BicycleType": {"S": "Road"},
            "Brand": {"S": "Brand-Company A"},
            "Price": {"N": "100"},
            "Gender": {"S": "M"},
            "Color": {"SS": ["Red", "Black"]},
            "ProductCategory": {"S": "Bike"},
        },
        137,
    ),
    (
        {
            "Id": {"N": "202"},
            "ProductName": {"S": "21-Bicycle 202"},
            "Description": {"S": "202 description"},
            "BicycleType": {"S": "Road"},
            "Brand": {"S": "Brand-Company A"},
            "Price": {"N": "200"},
            "Gender": {"S": "M"},
            "Color": {"SS": ["Green", "Black"]},
            "ProductCategory": {"S": "Bike"},
        },
        139,
    ),
]

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
number = st.decimals(-1000, 1000, places=3, allow_nan=False).map(str)
binary = st.binary(max_size=4).map(lambda data: base64.b64encode(data).decode())
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=3)

scalars = st.one_of(
    text.map(lambda content: {"S": content}),
    number.map(lambda content: {"N": content}),
    binary.map(lambda content: {"B": content}),
    st.booleans().map(lambda content: {"BOOL": content}),
    st.just({"NULL": True}),
    st.lists(text, min_size=1, max_size=3, unique=True).map(lambda content: {"SS": content}),
    st.lists(number, min_size=1, max_size=3, unique_by=numbers.canonical).map(
        lambda content: {"NS": content}
    ),
    st.lists(binary, min_size=1, max_size=3, unique=True).map(lambda content: {"BS": content}),
)
raw_values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda content: {"L": content}),
        st.dictionaries(names, inner, max_size=3).map(lambda content: {"M": content}),
    ),
    max_leaves=8,
)
raw_items = st.dictionaries(names, raw_values, max_size=4)
limits = st.sampled_from([MODERN, LIMITS_2012])


def by_the_book(value: dict[str, Any], limits: Limits) -> int:
    """The size of a value by the rule, written apart and slowly."""
    ((tag, content),) = value.items()
    match tag:
        case "S":
            return len(content.encode())
        case "N":
            return numbers.size(numbers.canonical(content))
        case "B":
            return len(base64.b64decode(content))
        case "BOOL" | "NULL":
            return 1
        case "SS" | "NS" | "BS":
            return sum(by_the_book({tag[0]: element}, limits) for element in content)
        case "L":
            return 3 + sum(limits.element_bytes + by_the_book(element, limits) for element in content)
    return 3 + sum(
        limits.element_bytes + len(name.encode()) + by_the_book(element, limits)
        for name, element in content.items()
    )


@pytest.mark.parametrize(("item", "size"), CATALOG, ids=["101", "201", "202"])
def test_catalog_items_have_golden_sizes_and_round_trip(item: Item, size: int) -> None:
    item = load(orjson.dumps(item))
    before = load(orjson.dumps(item))

    assert check_item(item, MODERN) == size
    assert item_size(item, MODERN) == size
    assert {name: value for name, value in load(dump(item)).items() if "SS" not in value} == {
        name: value for name, value in before.items() if "SS" not in value
    }
    assert item["Price"] == before["Price"]


@pytest.mark.parametrize(
    ("value", "modern", "old"),
    [
        ({"BOOL": True}, 1, 1),
        ({"L": []}, 3, 3),
        ({"M": {}}, 3, 3),
        ({"L": [{"S": "a"}]}, 5, 4),
        ({"M": {"k": {"S": "a"}}}, 6, 5),
        ({"L": [{"L": []}]}, 7, 6),
        ({"SS": ["a", "bb"]}, 3, 3),
        ({"NS": ["1", "22"]}, 4, 4),
        ({"BS": ["YQ=="]}, 1, 1),
        ({"S": "é"}, 2, 2),
    ],
)
def test_a_list_or_map_is_3_bytes_and_today_one_more_an_element(value: Any, modern: int, old: int) -> None:
    assert value_size(value, MODERN) == modern
    assert value_size(value, LIMITS_2012) == old


@pytest.mark.parametrize("levels", [0, 1, 30])
def test_counting_ends_where_no_item_may_be(levels: int) -> None:
    value: Any = {"L": [{"S": "x" * 1024}] * 1_000_000}
    for _ in range(levels):
        value = {"M": {f"{n}": value for n in range(1000)}}

    assert MODERN.item_bytes < item_size({"a": value}, MODERN) < 10 * MODERN.item_bytes


def test_a_null_is_one_byte() -> None:
    assert value_size({"NULL": True}, MODERN) == 1


@given(raw_items)
def test_the_checked_size_the_stored_size_and_the_rule_agree(item: Item) -> None:
    expected = sum(len(name.encode()) + by_the_book(value, MODERN) for name, value in item.items())

    assert check_item(item, MODERN) == expected
    assert item_size(item, MODERN) == expected


@given(raw_items, st.randoms(use_true_random=False))
def test_equal_items_have_equal_bytes_in_any_member_order(item: Item, dice: Any) -> None:
    shuffled = shuffle(item, dice)
    check_item(item, MODERN)
    check_item(shuffled, MODERN)

    assert dump(item) == dump(shuffled)


def shuffle(members: Item, dice: Any) -> Item:
    pairs = list(members.items())
    dice.shuffle(pairs)
    return {name: shuffle_value(value, dice) for name, value in pairs}


def shuffle_value(value: dict[str, Any], dice: Any) -> dict[str, Any]:
    ((tag, content),) = value.items()
    if tag == "M":
        return {tag: shuffle(content, dice)}
    if tag == "L":
        return {tag: [shuffle_value(element, dice) for element in content]}
    if tag in ("SS", "NS", "BS"):
        return {tag: dice.sample(content, len(content))}
    return {tag: f"{content}e0" if tag == "N" else content}


@given(raw_items)
def test_canonical_bytes_come_back_as_the_same_item(item: Item) -> None:
    check_item(item, MODERN)

    assert load(dump(item)) == item
    assert dump(load(dump(item))) == dump(item)


def test_canonical_bytes_have_sorted_keys_and_no_spaces() -> None:
    item: Item = {"b": {"N": "1"}, "a": {"M": {"y": {"NULL": True}, "x": {"S": "é"}}}}

    assert dump(item) == '{"a":{"M":{"x":{"S":"é"},"y":{"NULL":true}}},"b":{"N":"1"}}'.encode()


def test_stored_bytes_do_not_keep_their_buffer_alive() -> None:
    item: Item = {"pk": {"S": "x" * 180}}
    tracemalloc.start()
    kept = [dump(item) for _ in range(1_000)]
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert taken < 300 * len(kept)


def test_values_of_two_types_are_never_equal() -> None:
    assert not equal({"S": "1"}, {"N": "1"})
    assert not equal({"BOOL": True}, {"NULL": True})
    assert equal({"SS": ["a", "b"]}, {"SS": ["a", "b"]})


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ({"S": "A"}, {"S": "a"}),
        ({"S": "B"}, {"S": "aa"}),
        ({"S": "\uffff"}, {"S": "\U0001f600"}),
        ({"N": "9"}, {"N": "10"}),
        ({"N": "-10"}, {"N": "-9"}),
        ({"B": "fw=="}, {"B": "gA=="}),
        # As text the other way round: base64's alphabet is not in ASCII's order.
        ({"B": "AA=="}, {"B": "/w=="}),
    ],
)
def test_each_type_compares_by_its_own_order(less: Item, more: Item) -> None:
    assert compare(less, more) == -1
    assert compare(more, less) == 1
    assert compare(less, dict(less)) == 0


@pytest.mark.parametrize(
    ("container", "operand", "found"),
    [
        ({"S": "abc"}, {"S": "bc"}, True),
        ({"S": "abc"}, {"S": "cb"}, False),
        ({"B": "YWJj"}, {"B": "YmM="}, True),
        ({"B": "YWJj"}, {"S": "b"}, False),
        ({"SS": ["a", "b"]}, {"S": "a"}, True),
        ({"NS": ["1", "2"]}, {"N": "3"}, False),
        ({"NS": ["1", "2"]}, {"S": "1"}, False),
        ({"BS": ["YQ=="]}, {"B": "YQ=="}, True),
        ({"L": [{"N": "1"}, {"L": []}]}, {"L": []}, True),
        ({"L": [{"N": "1"}]}, {"S": "1"}, False),
        ({"M": {"a": {"S": "a"}}}, {"S": "a"}, False),
        ({"N": "12"}, {"N": "1"}, False),
        ({"NULL": True}, {"NULL": True}, False),
    ],
)
def test_contains_looks_into_strings_binaries_sets_and_lists(
    container: Item, operand: Item, found: bool
) -> None:
    assert contains(container, operand) is found


@pytest.mark.parametrize(
    ("value", "depth"),
    [
        ({"S": ""}, 1),
        ({"SS": ["a"]}, 1),
        ({"L": []}, 1),
        ({"M": {"a": {"L": [{"N": "1"}]}, "b": {"S": ""}}}, 3),
    ],
)
def test_depth_counts_the_lists_and_maps_around_a_scalar(value: Item, depth: int) -> None:
    assert depth_of(value) == depth


def test_a_value_says_its_type() -> None:
    assert type_of({"NS": ["1"]}) == "NS"
