"""A condition of many terms has the same result with and without the cache, and reads a large value once."""

import random
from typing import Any

import pytest

from foldb import expressions
from foldb.expressions.conditions import _PLAIN, Condition, _test
from foldb.model.values import Item
from tests.verification.fuzz.any_expression import Expressions
from tests.verification.fuzz.of_expressions import VALUES, substitutions, try_expression


@pytest.mark.parametrize("seed", range(4))
def test_the_cache_changes_no_result(seed: int) -> None:
    """Terms come again, so that operands do; the same values serve one item after the other, as in a page."""
    dice = random.Random(seed)
    drawn = Expressions(dice)
    terms = [text for text in (drawn.condition(0) for _ in range(200)) if try_expression("condition", text)]
    for _ in range(200):
        text = " OR ".join(f"NOT ({dice.choice(terms)}) AND {dice.choice(terms)}" for _ in range(4))
        values = substitutions(text)[1] or {}
        made = condition(text, values, substitutions(text)[0])
        plain, bound = _test(made.tree, _PLAIN), made.bind(values)
        for _ in range(5):
            item = drawn.item()
            assert plain(item, values) == made.holds(item, bound), text


class Counted(dict[str, Any]):
    """A value that counts how often any of its kind is compared."""

    compared = 0

    __hash__ = None  # as a dict's

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return super().__eq__(other)


def condition(text: str, values: dict[str, Any], names: dict[str, str] | None = None) -> Condition:
    made = expressions.compile(condition=text, values=values or None, names=names).condition
    assert made is not None
    return made


def comparisons(text: str, values: dict[str, Any], item: Item) -> int:
    made = condition(text, values)
    Counted.compared = 0
    assert not made.holds(item, values)
    return Counted.compared


def test_a_list_is_looked_through_once_however_often_it_is_asked() -> None:
    item = {"l": {"L": [Counted({"S": str(number)}) for number in range(1000)]}}
    text = " OR ".join(f"contains(l, :v{number})" for number in range(100))
    values = {f":v{number}": {"S": f"absent {number}"} for number in range(100)}

    assert comparisons(text, values, item) <= 1000


def test_large_values_are_not_compared_again_for_each_operand() -> None:
    item = {"l": {"L": [Counted({"S": "same"}) for _ in range(1000)]}}
    other = {"L": [Counted({"S": "same"}) for _ in range(999)] + [{"S": "other"}]}
    text = " OR ".join(f"l IN ({', '.join([':v'] * 100)})" for _ in range(8))

    assert comparisons(text, {":v": other}, item) == 0


def test_cached_comparisons_of_the_request_serve_every_item() -> None:
    values = {":v": {"L": [VALUES["n"]] * 50}}
    made = condition(" OR ".join(["l = :v"] * 6), values)
    bound = made.bind(values)

    assert [True, False, True] == [
        made.holds({"l": {"L": [VALUES[name]] * 50}}, bound) for name in ("n", "s", "n")
    ]
