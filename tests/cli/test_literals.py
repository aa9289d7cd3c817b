"""Literals are lifted out of an expression, and nothing else is touched."""

from typing import Any

import pytest

from foldb.cli.failures import CommandError
from foldb.cli.literals import Lifted


@pytest.mark.parametrize(
    ("expression", "lifted", "values"),
    [
        ("n < 10", "n < :_1", [{"N": "10"}]),
        ("n = -1", "n = :_1", [{"N": "-1"}]),
        ("n = m -1", "n = m - :_1", [{"N": "1"}]),
        ("n = m[0]-1", "n = m[0]- :_1", [{"N": "1"}]),
        ("a IN (1, -2.5e3)", "a IN (:_1, :_2)", [{"N": "1"}, {"N": "-2500"}]),
        ("colour = 'red' AND b = \"it's\"", "colour = :_1 AND b = :_2", [{"S": "red"}, {"S": "it's"}]),
        ("a = 'it''s 5 o''clock'", "a = :_1", [{"S": "it's 5 o'clock"}]),
        ("on = true OR off = NULL", "on = :_1 OR off = :_2", [{"BOOL": True}, {"NULL": True}]),
        ("item2.list3[4] = :x5 AND #n6 = 7", "item2.list3[4] = :x5 AND #n6 = :_1", [{"N": "7"}]),
        ("attribute_not_exists(container_id)", "attribute_not_exists(container_id)", []),
    ],
)
def test_literals_become_placeholders(expression: str, lifted: str, values: list[Any]) -> None:
    values_seen = Lifted([], [])

    assert lifted == values_seen.lift(expression)
    assert values == list(values_seen.values.values())


def test_given_values_and_names_stand_beside_the_lifted_ones() -> None:
    lifted = Lifted(["#n=name"], [':x={"$set": ["a"]}'])

    assert "#n = :_2 AND tags = :x" == lifted.lift("#n = 'Ada' AND tags = :x")
    assert {
        "ExpressionAttributeNames": {"#n": "name"},
        "ExpressionAttributeValues": {":x": {"SS": ["a"]}, ":_2": {"S": "Ada"}},
    } == lifted.body()


@pytest.mark.parametrize(
    ("names", "values"), [(["n=name"], []), (["#n"], []), ([], ["x=1"]), ([], [":x=oops"])]
)
def test_a_placeholder_that_is_none_is_refused(names: list[str], values: list[str]) -> None:
    with pytest.raises(CommandError):
        Lifted(names, values)


def test_any_attribute_name_can_be_selected() -> None:
    lifted = Lifted([], [])

    assert "#_1, #_2.#_3[0]" == lifted.paths("name, a-b.size[0]")
    assert {"#_1": "name", "#_2": "a-b", "#_3": "size"} == lifted.names
