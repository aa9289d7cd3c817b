"""Which items meet which conditions."""

import re
from typing import Any

import pytest

from foldb import expressions
from foldb.model.values import Item

ITEM: Item = {
    "pk": {"S": "car"},
    "word": {"S": "hello"},
    "wide": {"S": "é😀"},
    "n": {"N": "10"},
    "two": {"N": "2"},
    "bin": {"B": "AQID"},
    "tags": {"SS": ["a", "b"]},
    "nums": {"NS": ["2", "4", "7"]},
    "bins": {"BS": ["AQ==", "Ag=="]},
    "yes": {"BOOL": True},
    "nil": {"NULL": True},
    "elems": {"L": [{"S": "x"}, {"N": "2"}, {"SS": ["p", "q"]}, {"L": [{"N": "3"}]}]},
    "doc": {"M": {"leaf": {"S": "deep"}, "more": {"M": {"k": {"N": "5"}}}, "seq": {"L": [{"N": "1"}]}}},
}

VALUES: dict[str, dict[str, Any]] = {
    ":one": {"N": "1"},
    ":two": {"N": "2"},
    ":three": {"N": "3"},
    ":five": {"N": "5"},
    ":ten": {"N": "10"},
    ":big": {"N": "100"},
    ":ten_text": {"S": "10"},
    ":hello": {"S": "hello"},
    ":hell": {"S": "hell"},
    ":ell": {"S": "ell"},
    ":a": {"S": "a"},
    ":z": {"S": "z"},
    ":x": {"S": "x"},
    ":deep": {"S": "deep"},
    ":b12": {"B": "AQI="},
    ":b23": {"B": "AgM="},
    ":b1": {"B": "AQ=="},
    ":bff": {"B": "/w=="},
    ":tags": {"SS": ["a", "b"]},
    ":pq": {"SS": ["p", "q"]},
    ":three_list": {"L": [{"N": "3"}]},
    ":yes": {"BOOL": True},
    ":no": {"BOOL": False},
    ":nil": {"NULL": True},
    ":S": {"S": "S"},
    ":M": {"S": "M"},
    ":NULL": {"S": "NULL"},
}


def holds(text: str, item: Item | None = ITEM) -> bool:
    values = {name: VALUES[name] for name in re.findall(r":\w+", text)}
    names = {"#m": "doc"} if "#m" in text else None
    condition = expressions.compile(filter=text, names=names, values=values or None).filter
    assert condition is not None
    return condition.holds(item, values)


@pytest.mark.spec("S76")
@pytest.mark.parametrize(
    "text",
    [
        "n = :ten",
        ":ten = n",
        "n <> :ten_text",
        "gone <> :ten",
        "gone <> lost",
        "n > :two",
        "two < n",
        "n >= :ten AND n <= :ten",
        "word > :a AND word < :z",
        "bin > :b12",
        "bin < :bff",
        "tags = :tags",
        "yes = :yes",
        "yes <> :no",
        "nil = :nil",
        "n BETWEEN :two AND :big",
        "n BETWEEN two AND :ten",
        "bin BETWEEN :b12 AND :bff",
        "n IN (:one, :ten)",
        "n IN (:ten_text, two, n[0], :ten)",
        "attribute_exists(doc.leaf)",
        "attribute_exists(doc.seq[0])",
        "attribute_not_exists(doc.seq[1])",
        "attribute_not_exists(doc[0])",
        "attribute_not_exists(word.x)",
        "attribute_exists(nil)",
        "attribute_type(word, :S)",
        "attribute_type(nil, :NULL)",
        "attribute_type(:hello, :S)",
        "begins_with(word, :hell)",
        "begins_with(bin, :b1)",
        "begins_with(:hello, :hell)",
        "contains(word, :ell)",
        "contains(bin, :b23)",
        "contains(tags, :a)",
        "contains(nums, :two)",
        "contains(bins, :b1)",
        "contains(elems, :two)",
        "contains(elems, :pq)",
        "contains(elems, :three_list)",
        "contains(elems, two)",
        "size(word) = :five",
        "size(wide) = :three",
        "size(bin) = :three",
        "size(tags) = :two",
        "size(nums) = :three",
        "size(elems) > :three",
        "size(doc) = :three",
        ":three < size(elems)",
        "size(bin) IN (:one, :three)",
        "size(tags) BETWEEN :one AND :two",
        "doc.leaf = :deep",
        "#m.more.k = :five",
        "elems[0] = :x",
        "doc.seq[0] = :one",
        "NOT n = :one",
        "NOT NOT n = :ten",
        "n = :one OR n = :two OR n = :ten",
        "n = :ten AND two = :two AND word = :hello",
        "n = :ten OR n = :one AND n = :two",
        "(n = :one OR n = :ten) AND two = :two",
        "NOT n = :one AND two = :two",
    ],
)
def test_the_item_meets(text: str) -> None:
    assert holds(text)


@pytest.mark.spec("S76")
@pytest.mark.parametrize(
    "text",
    [
        "n = :ten_text",
        "n <> :ten",
        "gone = :ten",
        "gone = lost",
        "gone < :ten",
        "gone >= lost",
        ":ten < gone",
        "n < :ten_text",
        "n >= :ten_text",
        "elems < :ten",
        "yes >= :ten",
        "n BETWEEN :one AND :two",
        "n BETWEEN :a AND :z",
        "gone BETWEEN :one AND :two",
        "n BETWEEN :big AND two",
        "n IN (:one, :two)",
        "gone IN (lost)",
        "attribute_exists(gone)",
        "attribute_exists(doc.nothing)",
        "attribute_not_exists(doc.more.k)",
        "attribute_type(word, :M)",
        "attribute_type(gone, :S)",
        "begins_with(word, :ell)",
        "begins_with(n, :hell)",
        "begins_with(gone, :hell)",
        "contains(word, :two)",
        "contains(n, :one)",
        "contains(tags, :two)",
        "contains(tags, :tags)",
        "contains(bin, :tags)",
        "contains(gone, :a)",
        "size(n) = :two",
        "size(yes) >= :one",
        "size(gone) < :ten",
        "elems[9] = :x",
        "NOT n = :ten",
        "NOT (n = :ten OR n = :one)",
        "n = :ten AND n = :one OR n = :two",
    ],
)
def test_the_item_does_not_meet(text: str) -> None:
    assert not holds(text)


def test_an_item_that_is_not_there_has_no_attributes() -> None:
    assert holds("attribute_not_exists(pk)", None)
    assert holds("pk <> :a", None)
    assert not holds("pk = :a OR attribute_exists(pk)", None)


def test_numbers_compare_by_value_over_their_whole_range() -> None:
    item: Item = {"n": {"N": "1" + "0" * 125}, "m": {"N": "-0.5"}}
    values = {":v": {"N": "9" * 38}}

    assert expressions.compile(filter="n > :v AND m < :v", values=values).filter.holds(item, values)  # type: ignore[union-attr]


def test_strings_compare_by_their_utf_8_bytes() -> None:
    """UTF-16 would put U+FFFF after U+10000."""
    item: Item = {"s": {"S": "\uffff"}}
    values = {":v": {"S": "\U00010000"}}

    assert expressions.compile(filter="s < :v", values=values).filter.holds(item, values)  # type: ignore[union-attr]
