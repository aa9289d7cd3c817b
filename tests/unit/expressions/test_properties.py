"""Properties of all expressions: random trees, random text, and time linear in the text."""

import sys
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldb import expressions
from foldb.expressions.tokens import RESERVED_WORDS
from foldb.expressions.tree import (
    Among,
    And,
    Between,
    Call,
    Comparison,
    ConditionNode,
    Not,
    Operand,
    Or,
    Path,
    Reference,
)
from foldb.model.errors import ValidationError
from foldb.model.limits import MODERN
from foldb.model.values import Item
from tests.unit.expressions.printing import ROOMY, printed

VALUES: dict[str, dict[str, Any]] = {":n": {"N": "5"}, ":s": {"S": "S"}, ":b": {"B": "AQ=="}}
NAMES = st.sampled_from(["a", "b2", "colour", "long_name_1", "zz"])
INDEXES = st.sampled_from([0, 1, 17, 2**31 - 1])
COMPARATORS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])


@st.composite
def paths(draw: st.DrawFn) -> Path:
    return Path((draw(NAMES), *draw(st.lists(st.one_of(NAMES, INDEXES), max_size=4))))


@st.composite
def operands(draw: st.DrawFn) -> Operand:
    kind = draw(st.integers(0, 3))
    if kind == 0:
        return Reference(":n")
    path = draw(paths())
    return Call("size", (path,)) if kind == 1 else path


@st.composite
def comparisons(draw: st.DrawFn) -> ConditionNode:
    """A condition of one operator or function; DynamoDB wants its first operand distinct from the others."""
    first = draw(operands())
    others = operands().filter(lambda operand: operand != first)
    kind = draw(st.integers(0, 4))
    if kind == 0:
        return Between(first, draw(others), draw(others))
    if kind == 1:
        return Among(first, tuple(draw(st.lists(others, min_size=1, max_size=4))))
    if kind == 2:
        return Call("attribute_exists", (draw(paths()),))
    if kind == 3:
        return Call("attribute_type", (draw(paths()), Reference(":s")))
    return Comparison(draw(COMPARATORS), first, draw(others))


@st.composite
def conditions(draw: st.DrawFn, depth: int = 3) -> ConditionNode:
    kind = draw(st.integers(0, 3)) if depth else 0
    if kind == 0:
        return draw(comparisons())
    if kind == 1:
        term = draw(conditions(depth - 1))
        return term if isinstance(term, Not) else Not(term)
    terms = tuple(draw(st.lists(conditions(depth - 1), min_size=2, max_size=3)))
    return And(terms) if kind == 2 else Or(terms)


@given(conditions())
@settings(max_examples=80, deadline=None)
def test_a_tree_printed_and_parsed_is_the_same_tree(tree: ConditionNode) -> None:
    text = printed(tree)
    values = {name: value for name, value in VALUES.items() if name in text}
    condition = expressions.compile(condition=text, values=values or None, limits=ROOMY).condition

    assert condition is not None
    assert tree == condition.tree


WORDS = """
    a b.c #n :n :s :b ( ) [ ] [0] , . = <> < <= + - AND OR NOT BETWEEN IN SET REMOVE ADD DELETE size contains(
    attribute_exists( begins_with( if_not_exists( list_append( 7 _ ! é 😀 status
"""
tokens = st.sampled_from(WORDS.split())
texts = st.one_of(
    st.text(max_size=60),
    st.lists(tokens, max_size=25).map(" ".join),
    st.lists(tokens, max_size=25).map("".join),
)


@given(
    text=texts,
    parameter=st.sampled_from(["condition", "filter", "key_condition", "update", "projection"]),
    item=st.sampled_from([{}, {"a": {"N": "1"}, "b": {"M": {"c": {"L": [{"S": "x"}]}}}}]),
)
@settings(max_examples=600, deadline=None)
def test_any_text_is_refused_in_words_or_can_be_evaluated(text: str, parameter: str, item: Item) -> None:
    arguments: dict[str, Any] = {parameter: text}
    if parameter != "projection":
        arguments["values"] = {name: value for name, value in VALUES.items() if name in text} or None
    try:
        plan = expressions.compile(names={"#n": "name"} if "#n" in text else None, **arguments)
        for condition in (plan.condition, plan.filter):
            if condition is not None:
                condition.holds(item, VALUES)
        if plan.update is not None:
            plan.update.apply(item, VALUES, MODERN)
        if plan.projection is not None:
            plan.projection.apply(item)
    except ValidationError:
        pass


def steps(parameter: str, text: str) -> int:
    """How many functions are called while `text` is read: a clock that no other process disturbs."""
    count = 0

    def profile(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    arguments: dict[str, Any] = {parameter: text}
    sys.setprofile(profile)
    try:
        expressions.compile(limits=ROOMY, **arguments)
    except ValidationError:
        pass
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.spec("SEC16")
@pytest.mark.parametrize(
    ("parameter", "repeated", "closed"),
    [
        ("condition", "(", ")"),
        ("condition", "(a = b AND ", ")"),
        ("condition", "NOT (", ")"),
        ("condition", "size(", ")"),
        ("condition", "a.", ""),
        ("condition", "a = b OR ", ""),
        ("condition", "a IN (a, ", ""),
        ("condition", "a BETWEEN ", ""),
        ("condition", "a <", ""),
        ("update", "SET a = (", ")"),
        ("update", "SET a = if_not_exists(b, ", ")"),
        ("update", "REMOVE a[1], a[2], ", ""),
        ("update", "((", "))"),
        ("projection", "a[0][0], ", ""),
        ("projection", "a.b, ", ""),
    ],
)
def test_reading_takes_time_in_proportion_to_the_text(parameter: str, repeated: str, closed: str) -> None:
    once = steps(parameter, repeated * 300 + "a" + closed * 300)
    twice = steps(parameter, repeated * 600 + "a" + closed * 600)

    assert once * 2.2 + 200 >= twice


@pytest.mark.spec("SEC16")
def test_many_different_paths_are_compared_in_proportion_too() -> None:
    def targets(count: int) -> str:
        return "REMOVE " + ", ".join(f"a.b{n}" for n in range(count))

    assert steps("update", targets(300)) * 2.2 >= steps("update", targets(600))


def test_expressions_of_the_maximum_depth_are_evaluated() -> None:
    nested_not = "NOT (" * 149 + "a = b OR NOT c = d" + ")" * 149
    nested_and = "a < b OR (" * 149 + "a < b" + ")" * 149
    for text in (nested_not, nested_and):
        condition = expressions.compile(condition=text).condition
        assert condition is not None
        condition.holds({"a": {"N": "1"}, "b": {"N": "2"}}, {})

    fallback = "SET a = " + "if_not_exists(b," * 240 + ":v" + ")" * 240
    update = expressions.compile(update=fallback, values={":v": {"N": "1"}}).update
    assert update is not None
    assert {"a": {"N": "1"}} == update.apply({}, {":v": {"N": "1"}}, MODERN).item


def test_all_573_reserved_words_need_a_placeholder() -> None:
    assert len(RESERVED_WORDS) == 573
    assert {"STATUS", "NAME", "DATA", "COUNT", "ITEMS", "FLATTERN", "INNTER", "LOGED"} <= RESERVED_WORDS
    for word in RESERVED_WORDS:
        with pytest.raises(ValidationError):
            expressions.compile(projection=f"a.{word.capitalize()}")
