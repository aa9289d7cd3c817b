"""The filter of a subscription: events, conditions over OLD and NEW, and patterns of Lambda's filter criteria."""

import fnmatch
import re
from itertools import product
from typing import Any

import orjson
import pytest

from foldb.model.errors import ValidationError
from foldb.model.subscriptions.settings import check
from foldb.streams.delivery.filter import ChangeFilter
from foldb.streams.delivery.patterns import compile_pattern
from tests.unit.streams.deliveries import delivery, order

PAID = order(status={"S": "PAID"}, total={"N": "120"}, tags={"L": [{"S": "a"}, {"S": "b"}]})
OPEN = order(status={"S": "OPEN"}, total={"N": "20"}, price={"N": "20"})


def chooser(**settings: Any) -> ChangeFilter:
    return ChangeFilter(check("s", {"TableNames": ["Orders"], "Sink": {"Kind": "file"}, **settings}))


def expression(text: str, **values: Any) -> ChangeFilter:
    names = {"#s": "status"} if "#s" in text else None
    given = {f":{name}": value for name, value in values.items()} or None
    rest = {"ExpressionAttributeNames": names, "ExpressionAttributeValues": given}
    return chooser(Filter={"Expression": text, **{name: each for name, each in rest.items() if each}})


def test_a_condition_sees_both_images() -> None:
    became_paid = expression("NEW.#s = :paid AND OLD.#s <> :paid", paid={"S": "PAID"})

    assert became_paid.chooses(delivery(OPEN, PAID))
    assert became_paid.chooses(delivery(None, PAID))
    assert not became_paid.chooses(delivery(PAID, PAID | {"total": {"N": "1"}}))
    assert not became_paid.chooses(delivery(PAID, None))


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("attribute_exists(OLD)", False),
        ("attribute_not_exists(OLD)", True),
        ("attribute_exists(NEW.price)", True),
    ],
)
def test_a_missing_image_does_not_exist(text: str, holds: bool) -> None:
    assert expression(text).chooses(delivery(None, OPEN)) is holds


def test_a_condition_may_only_use_the_images() -> None:
    with pytest.raises(ValidationError, match="OLD and NEW"):
        expression("attribute_exists(price)")


def test_events_filter_by_operation() -> None:
    removed = chooser(Events=["REMOVE"])

    assert [False, False, True] == [
        removed.chooses(each) for each in (delivery(None, OPEN), delivery(OPEN, PAID), delivery(PAID, None))
    ]


def test_a_filter_that_passes_everything_has_no_test() -> None:
    assert chooser().test is None


@pytest.mark.parametrize(
    ("rule", "holds"),
    [
        (["PAID"], True),
        (["OPEN", "PAID"], True),
        (["paid"], False),
        ([{"equals-ignore-case": "paid"}], True),
        ([{"prefix": "PA"}], True),
        ([{"prefix": {"equals-ignore-case": "pa"}}], True),
        ([{"suffix": "ID"}], True),
        ([{"suffix": "PA"}], False),
        ([{"wildcard": "P*D"}], True),
        ([{"anything-but": "OPEN"}], True),
        ([{"anything-but": ["OPEN", "PAID"]}], False),
        ([{"anything-but": {"prefix": "PA"}}], False),
        ([{"exists": True}], True),
        ([{"exists": False}], False),
    ],
)
def test_a_pattern_matches_strings(rule: list[Any], holds: bool) -> None:
    pattern = {"eventName": ["MODIFY"], "dynamodb": {"NewImage": {"status": {"S": rule}}}}
    criteria = {"Filters": [{"Pattern": orjson.dumps(pattern).decode()}]}

    assert chooser(FilterCriteria=criteria).chooses(delivery(OPEN, PAID)) is holds


@pytest.mark.parametrize(
    ("rule", "holds"),
    [
        ([{"numeric": [">", 100]}], True),
        ([{"numeric": [">", 100, "<=", 119.5]}], False),
        ([{"numeric": ["=", 120.0]}], True),
        ([120], True),
        (["120"], True),
    ],
)
def test_a_numeric_rule_compares_an_items_number(rule: list[Any], holds: bool) -> None:
    pattern = compile_pattern(orjson.dumps({"dynamodb": {"NewImage": {"total": {"N": rule}}}}).decode())

    assert pattern({"dynamodb": {"NewImage": {"total": {"N": "120"}}}}) is holds


WILDCARDS = [
    "*".join(parts) for count in (1, 2, 3, 4) for parts in product(["", "a", "b", "ab", "."], repeat=count)
]


def test_a_star_matches_any_text() -> None:
    values = ["".join(letters) for length in range(6) for letters in product("ab.", repeat=length)]
    for text in WILDCARDS:
        pattern = compile_pattern(orjson.dumps({"a": [{"wildcard": text}]}).decode())
        expected = re.compile(fnmatch.translate(text))

        assert [value for value in values if expected.match(value)] == [
            value for value in values if pattern({"a": value})
        ], text


def test_many_stars_read_a_text_once() -> None:
    pattern = compile_pattern(orjson.dumps({"a": [{"wildcard": "*a" * 20 + "*b*"}]}).decode())

    assert not pattern({"a": "a" * 400_000})  # with a way back over each star, it would never end


def test_any_pattern_may_match_with_all_its_members() -> None:
    one = {"Pattern": '{"eventName": ["REMOVE"]}'}
    two = {"Pattern": '{"dynamodb": {"NewImage": {"status": {"S": ["PAID"]}, "total": {"N": ["120"]}}}}'}
    chosen = chooser(FilterCriteria={"Filters": [one, two]})

    assert chosen.chooses(delivery(OPEN, None))
    assert chosen.chooses(delivery(OPEN, PAID))
    assert not chosen.chooses(delivery(OPEN, PAID | {"total": {"N": "1"}}))


def test_or_matches_if_one_pattern_does() -> None:
    pattern = compile_pattern('{"a": [1], "$or": [{"b": [2]}, {"c": [3]}]}')

    assert pattern({"a": 1, "c": 3})
    assert not pattern({"a": 1, "b": 3})
    assert not pattern({"b": 2})


def test_a_list_matches_if_one_of_its_elements_does() -> None:
    pattern = compile_pattern('{"dynamodb": {"NewImage": {"tags": {"L": {"S": ["b"]}}}}}')

    assert pattern({"dynamodb": {"NewImage": {"tags": {"L": [{"S": "a"}, {"S": "b"}]}}}})
    assert not pattern({"dynamodb": {"NewImage": {"tags": {"L": []}}}})


def test_null_empty_and_missing_differ() -> None:
    pattern = compile_pattern('{"a": [null]}')

    assert pattern({"a": None})
    assert not pattern({"a": ""})
    assert not pattern({})


@pytest.mark.parametrize(
    "text",
    ["no json", "[]", "{}", '{"a": "b"}', '{"a": []}', '{"a": [{"unknown": 1}]}', '{"a": [{"numeric": [">"]}]}',
     '{"a": [{"numeric": ["~", 1]}]}', '{"a": [{"prefix": 1}]}', '{"a": [{"exists": "yes"}]}', '{"$or": [{"a": [1]}]}',
     '{"a": [{"prefix": "a", "suffix": "b"}]}', '{"a": [["b"]]}'],
)  # fmt: skip
def test_an_invalid_pattern_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="Invalid filter pattern definition"):
        compile_pattern(text)


def test_explain_returns_each_rule() -> None:
    chosen = expression("NEW.#s = :paid", paid={"S": "PAID"})

    assert [("Events", True), ("Filter", False)] == [
        (reason.rule, reason.holds) for reason in chosen.explain(delivery(PAID, OPEN))
    ]
