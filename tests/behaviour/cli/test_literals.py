"""Literals are replaced by placeholders, and the rest of an expression is unchanged."""

from typing import Any

import pytest

from foldb.cli.lib.errors import CommandError
from foldb.cli.lib.literals import Lifted
from foldb.expressions import compile  # noqa: A004
from foldb.expressions.tokens import RESERVED_WORDS


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
        ("on = true OR off = NULL", "#_1 = :_1 OR off = :_2", [{"BOOL": True}, {"NULL": True}]),
        ("item2.list3[4] = :x5 AND #n6 = 7", "item2.list3[4] = :x5 AND #n6 = :_1", [{"N": "7"}]),
        ("attribute_not_exists(container_id)", "attribute_not_exists(container_id)", []),
        ("n BETWEEN -1 AND -2", "n BETWEEN :_1 AND :_2", [{"N": "-1"}, {"N": "-2"}]),
        ("a = :1 AND b = 2", "a = :1 AND b = :_1", [{"N": "2"}]),
    ],
)
def test_literals_become_placeholders(expression: str, lifted: str, values: list[Any]) -> None:
    values_seen = Lifted([], [])

    assert lifted == values_seen.lift(expression)
    assert values == list(values_seen.values.values())


def test_given_values_and_names_combine_with_literals() -> None:
    lifted = Lifted(["#n=name"], [':x={"$set": ["a"]}'])

    assert "#n = :_2 AND tags = :x" == lifted.lift("#n = 'Ada' AND tags = :x")
    assert {
        "ExpressionAttributeNames": {"#n": "name"},
        "ExpressionAttributeValues": {":x": {"SS": ["a"]}, ":_2": {"S": "Ada"}},
    } == lifted.body()


@pytest.mark.parametrize(
    ("condition", "lifted", "names"),
    [
        ("size = 3", "#_1 = :_1", ["size"]),
        ("Status = 'new'", "#_1 = :_1", ["Status"]),
        ("size(size) > 3", "size(#_1) > :_1", ["size"]),
        (
            "contains(name, 'n') AND NOT status = 1",
            "contains(#_1, :_1) AND NOT #_2 = :_2",
            ["name", "status"],
        ),
        ("status = status", "#_1 = #_1", ["status"]),
        ("a IN (name, size)", "a IN (#_1, #_2)", ["name", "size"]),
        ("size BETWEEN min AND max", "#_1 BETWEEN #_2 AND #_3", ["size", "min", "max"]),
        ("m.size = 1 AND size[0].name = 2", "m.#_1 = :_1 AND #_1[0].#_2 = :_2", ["size", "name"]),
        ("attribute_exists (status)", "attribute_exists (#_1)", ["status"]),
        # Words of the grammar: their place decides.
        ("and = 1 and or = 2", "#_1 = :_1 and #_2 = :_2", ["and", "or"]),
        ("between between between and and", "#_1 between #_1 and #_2", ["between", "and"]),
        ("in in (in)", "#_1 in (#_1)", ["in"]),
        ("not = 1 or not not = 1", "#_1 = :_1 or not #_1 = :_2", ["not"]),
        ("not (set = 1)", "not (#_1 = :_1)", ["set"]),
        # Words that are literals.
        ("null = 2 OR a = True", ":_1 = :_2 OR a = :_3", []),
        (
            "m.null = 1 AND null.a = 2 AND true[0] = 3",
            "m.#_1 = :_1 AND #_1.a = :_2 AND #_2[0] = :_3",
            ["null", "true"],
        ),
        # Left as they are.
        ("a = 1 and and b = 2", "a = :_1 and and b = :_2", []),
        ("size a = 1", "size a = :_1", []),
        ("price = 1 AND #size = 2", "price = :_1 AND #size = :_2", []),
    ],
)
def test_reserved_words_of_a_condition_become_placeholders(
    condition: str, lifted: str, names: list[str]
) -> None:
    seen = Lifted([], [])

    assert lifted == seen.lift(condition)
    assert names == list(seen.names.values())


@pytest.mark.parametrize(
    ("update", "lifted", "names"),
    [
        ("size = size + 1", "#_1 = #_1 + :_1", ["size"]),
        ("size = size - 1", "#_1 = #_1 - :_1", ["size"]),
        ("status = 'new', name = 'x'", "#_1 = :_1, #_2 = :_2", ["status", "name"]),
        ("n = if_not_exists(size, 0) + 1", "n = if_not_exists(#_1, :_1) + :_2", ["size"]),
        ("list = list_append(list, :more)", "#_1 = list_append(#_1, :more)", ["list"]),
        ("set = 1", "#_1 = :_1", ["set"]),
        ("a = add REMOVE size", "a = #_1 REMOVE #_2", ["add", "size"]),
        ("null = null, true = false", "#_1 = :_1, #_2 = :_2", ["null", "true"]),
        ("a = if_not_exists(b, null), null = 1", "a = if_not_exists(b, :_1), #_1 = :_2", ["null"]),
        ("a = 1 REMOVE null, true", "a = :_1 REMOVE #_1, #_2", ["null", "true"]),
        ("m.size[1] = 1", "m.#_1[1] = :_1", ["size"]),
        ("size 1", "#_1 :_1", ["size"]),
        ("tags :gone", "tags :gone", []),
        ("SET a = 3", "SET a = :_1", []),
    ],
)
def test_reserved_words_of_an_update_become_placeholders(update: str, lifted: str, names: list[str]) -> None:
    seen = Lifted([], [])

    assert lifted == seen.lift(update, is_update=True)
    assert names == list(seen.names.values())


def test_a_placeholder_of_the_user_is_never_taken() -> None:
    lifted = Lifted(["#_2=other"], [":_2=1"])

    assert "#_3 = :_3 AND #_2 = :_2" == lifted.lift("size = 'x' AND #_2 = :_2")
    assert {"#_2": "other", "#_3": "size"} == lifted.names
    assert {":_2": {"N": "1"}, ":_3": {"S": "x"}} == lifted.values


def test_every_reserved_word_can_be_set_and_searched() -> None:
    """The parsers of the server accept the expressions that are sent."""
    for word in sorted(RESERVED_WORDS):
        name = word.lower()
        lifted = Lifted([], [":x=1"])
        path = f"m.{name}" if name in ("true", "false", "null") else name  # literals, where they stand alone
        condition = lifted.lift(f"{path} = 1 AND NOT size({path}) > 2")
        update = lifted.lift(f"{name} = :x", is_update=True)

        assert {*lifted.names.values()} == {name}
        compile(names=lifted.names, values=lifted.values, condition=condition, update=f"SET {update}")


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
