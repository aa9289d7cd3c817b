"""A request's expressions together: placeholders, the order of checks, and the cache of plans."""

from dataclasses import replace
from typing import Any

import pytest

from foldb import expressions
from foldb.expressions import (
    check_substitution_size,
    check_substitutions,
    refuse_key_filter,
    refuse_key_paths,
    refuse_key_update,
)
from foldb.expressions.plans import Plan, PlanCache
from foldb.model.errors import ValidationError
from foldb.model.limits import MODERN


def refusal(**parameters: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        expressions.compile(**parameters)
    return caught.value.message


def test_a_placeholder_may_be_used_in_any_expression() -> None:
    plan = expressions.compile(
        update="SET #a = :v",
        condition="#b = :w",
        names={"#a": "x", "#b": "y"},
        values={":v": {"N": "1"}, ":w": {"N": "2"}},
    )

    assert plan.update is not None
    assert plan.condition is not None


def test_unused_placeholders_are_refused_names_before_values() -> None:
    values = {":v": {"N": "1"}, ":x": {"N": "1"}, ":y": {"N": "1"}}

    assert ("Value provided in ExpressionAttributeNames unused in expressions: keys: {#n}") == refusal(
        update="SET a = :v", names={"#n": "b"}, values=values
    )
    assert ("Value provided in ExpressionAttributeValues unused in expressions: keys: {:x, :y}") == refusal(
        update="SET a = :v", values=values
    )


def test_expressions_are_judged_in_dynamodbs_order() -> None:
    """Update, condition, key condition, filter, projection; unused placeholders; the form of the key condition."""
    unused = {":u": {"S": "S"}}
    assert "Invalid UpdateExpression" in refusal(update="", condition="")
    assert "Invalid KeyConditionExpression" in refusal(
        key_condition="", filter="", projection="", values=unused
    )
    assert "Invalid FilterExpression" in refusal(key_condition="contains(a, b)", filter="", projection="")
    assert "Invalid ProjectionExpression" in refusal(
        key_condition="contains(a, b)", filter="a > b", projection=""
    )
    assert "unused in expressions: keys: {:u}" in refusal(key_condition="contains(a, b)", values=unused)
    assert "Invalid operator used in KeyConditionExpression: contains" == refusal(
        key_condition="contains(a, b)"
    )


@pytest.mark.parametrize(
    ("names", "values", "message"),
    [
        ({}, {}, "ExpressionAttributeNames must not be empty"),
        ({"a": "a"}, {}, 'ExpressionAttributeNames contains invalid key: Syntax error; key: "a"'),
        (
            {"#hi-there": "a"},
            None,
            'ExpressionAttributeNames contains invalid key: Syntax error; key: "#hi-there"',
        ),
        (None, {}, "ExpressionAttributeValues must not be empty"),
        (None, {"#b": {}}, 'ExpressionAttributeValues contains invalid key: Syntax error; key: "#b"'),
        (None, {":": {}}, 'ExpressionAttributeValues contains invalid key: Syntax error; key: ":"'),
        (
            {"#" + "a" * 255: "a"},
            None,
            "ExpressionAttributeNames contains invalid key: "
            "The expression attribute map contains a key that is too long;",
        ),
    ],
)
def test_placeholders_must_have_their_form(names: Any, values: Any, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        check_substitutions(names, values)

    assert message == caught.value.message


@pytest.mark.spec("SEC16")
def test_names_and_values_together_have_two_megabytes() -> None:
    check_substitution_size({"#a": "é"}, 2 * 1024 * 1024 - 4)
    with pytest.raises(ValidationError, match="exceeds max size"):
        check_substitution_size({"#a": "é"}, 2 * 1024 * 1024 - 3)


def test_a_plan_is_kept_for_other_values_of_the_same_types() -> None:
    first = expressions.compile(condition="kept = :v", values={":v": {"N": "1"}})

    assert first is expressions.compile(condition="kept = :v", values={":v": {"N": "2"}})
    assert first is not expressions.compile(condition="kept = :v", values={":v": {"S": "2"}})
    assert first is not expressions.compile(
        condition="kept = :v", values={":v": {"N": "1"}}, limits=replace(MODERN, name="x")
    )


def test_value_checks_run_with_a_cached_plan_too() -> None:
    expressions.compile(filter="a BETWEEN :v AND :w", values={":v": {"N": "1"}, ":w": {"N": "10"}})
    expressions.compile(key_condition="a BETWEEN :v AND :w", values={":v": {"N": "1"}, ":w": {"N": "10"}})
    expressions.compile(condition="attribute_type(a, :t)", values={":t": {"S": "N"}})

    reversed_bounds = {":v": {"N": "10"}, ":w": {"N": "9"}}
    assert "Invalid FilterExpression: The BETWEEN operator requires upper bound" in refusal(
        filter="a BETWEEN :v AND :w", values=reversed_bounds
    )
    assert "Invalid KeyConditionExpression: The BETWEEN operator" in refusal(
        key_condition="a BETWEEN :v AND :w", values=reversed_bounds
    )
    assert "Invalid ConditionExpression: Invalid attribute type name found; type: X" in refusal(
        condition="attribute_type(a, :t)", values={":t": {"S": "X"}}
    )


def test_the_cache_keeps_used_plans_and_is_bounded() -> None:
    cache = PlanCache[Plan](capacity=4)
    used = Plan()
    cache.put("used", used)
    for n in range(100):
        cache.put(n, Plan())
        assert used is cache.get("used")

    assert 8 >= len(cache)
    assert cache.get(0) is None


def test_a_filter_may_not_look_at_the_key_that_is_queried() -> None:
    part = expressions.compile(filter="attribute_exists(a.pk) AND sk = b").filter
    assert part is not None

    refuse_key_filter(part, ["pk"])
    message = "Filter Expression can only contain non-primary key attributes: Primary key attribute: sk"
    with pytest.raises(ValidationError, match=message):
        refuse_key_filter(part, ["pk", "sk"])


def test_a_legacy_filter_is_named_as_the_client_named_it() -> None:
    part = expressions.compile_legacy(query_filter={"sk": {"ComparisonOperator": "NULL"}}).plan.filter
    assert part is not None

    with pytest.raises(ValidationError, match="QueryFilter can only contain non-primary key attributes"):
        refuse_key_filter(part, ["sk"])


@pytest.mark.parametrize("text", ["SET pk = a", "REMOVE pk", "ADD pk :v", "SET pk.a = b"])
def test_an_update_may_not_write_to_the_key(text: str) -> None:
    update = expressions.compile(update=text, values={":v": {"N": "1"}} if ":v" in text else None).update
    assert update is not None

    message = "Cannot update attribute pk. This attribute is part of the key"
    with pytest.raises(ValidationError, match=message):
        refuse_key_update(update, ["pk"])


def test_an_update_may_read_the_key() -> None:
    update = expressions.compile(update="SET a = pk").update
    assert update is not None

    refuse_key_update(update, ["pk"])


def test_no_path_goes_into_a_key_attribute() -> None:
    plan = expressions.compile(filter="attribute_exists(a.b.c)", projection="a[0], b")
    assert plan.filter is not None
    assert plan.projection is not None

    refuse_key_paths(plan.filter, ["b"])
    with pytest.raises(
        ValidationError, match=r"list random access '\[\]' and map lookup '.' are not allowed: Key: a"
    ):
        refuse_key_paths(plan.filter, ["a"])
    with pytest.raises(ValidationError, match="not allowed: IndexKey: a"):
        refuse_key_paths(plan.projection, ["a"], "IndexKey")
