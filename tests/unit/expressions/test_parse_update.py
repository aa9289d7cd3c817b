"""DynamoDB's errors for invalid updates and projections."""

from typing import Any

import pytest

from foldb import expressions
from foldb.model.errors import ValidationError

NAMES = {"#a": "a", "#c": "c", "#d": "[3]"}


def refusal(text: str, names: dict[str, str] | None = None, values: dict[str, Any] | None = None) -> str:
    with pytest.raises(ValidationError) as caught:
        expressions.compile(update=text, names=names, values=values)
    return caught.value.message.removeprefix("Invalid UpdateExpression: ")


@pytest.mark.parametrize(
    ("text", "token", "near"),
    [
        ("INVALID SYNTAX HERE", "INVALID", "INVALID SYNTAX"),
        ("set a", "<EOF>", "a"),
        ("set a=set", "set", "=set"),
        ("set a = b set", "<EOF>", "set"),
        ("add a = b", "=", "a = b"),
        ("delete a b", "b", "a b"),
        ("remove a b", "b", "a b"),
        ("remove :a", ":a", "remove :a"),
        ("set :a = b", ":a", "set :a ="),
        ("set a = b / c", "/", "b / c"),
        ('set a[1] = "eight"', '"', '= "eight'),
        ("set a[1] = 1", "1", "= 1"),
        ("set (a = (b + c))", "(", "set (a"),
        ("set a = (b.c).d + e", ".", ").d"),
        ("set a = b + c + d", "+", "c + d"),
        ("set a = f(b+c)", "+", "b+c"),
        ("SET _123 = :v", "_", "SET _123"),
        ("SET a = :v,", "<EOF>", ","),
        ("ADD hits : incr", ":", "hits : incr"),
    ],
)
def test_a_syntax_error_shows_the_token_and_its_neighbours(text: str, token: str, near: str) -> None:
    assert f'Syntax error; token: "{token}", near: "{near}"' == refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "set a = (b + c)",
        "set a = ((b.c.d)+(e))",
        "set a[1] = b",
        "sEt a = b - c REMOVE d, e[0] add f :v delete g :v",
        "SET a = if_not_exists(a, if_not_exists(b, :v)), b = list_append(if_not_exists(c, :l), :l)",
        "SET a = if_not_exists(a, :n) + :n",
    ],
)
def test_the_language_accepts_valid_updates(text: str) -> None:
    offered: dict[str, dict[str, Any]] = {":v": {"SS": ["x"]}, ":l": {"L": []}, ":n": {"N": "1"}}
    values = {name: value for name, value in offered.items() if name in text}

    assert expressions.compile(update=text, values=values or None).update is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" set #x = :c set abOrt = true ", "Attribute name is a reserved keyword; reserved keyword: abOrt"),
        ("set #x = if_not_exist(:c) set c = d", "Invalid function name; function: if_not_exist"),
        ("set a = LIST_APPEND(b, c)", "Invalid function name; function: LIST_APPEND"),
        ("set a = size(b)", "The function is not allowed in an update expression; function: size"),
        (
            "set a = list_append(list_append(b, c), d)",
            "The function is not allowed to be used this way in an expression; function: list_append",
        ),
        ("set a = #x set c = :d", 'The "SET" section can only be used once in an update expression;'),
        (
            "remove #x set a = b remove e",
            'The "REMOVE" section can only be used once in an update expression;',
        ),
        (
            "SET #x = if_not_exists(:c)",
            "An expression attribute name used in the document path is not defined; attribute name: #x",
        ),
        (
            "SET #a = if_not_exists(:c)",
            "An expression attribute value used in expression is not defined; attribute value: :c",
        ),
        (
            "set a = if_not_exists(c)",
            "Incorrect number of operands for operator or function; "
            "operator or function: if_not_exists, number of operands: 1",
        ),
        (
            "set a = if_not_exists(if_not_exists(a, b), c)",
            "Operator or function requires a document path; operator or function: if_not_exists",
        ),
        ("set a = ((b))", "The expression has redundant parentheses;"),
    ],
)
def test_of_several_mistakes_the_gravest_is_named(text: str, message: str) -> None:
    assert message == refusal(text, NAMES)


@pytest.mark.parametrize(
    ("text", "verb", "first", "second"),
    [
        ("set d[1] = a, d.b = a, c[1].a = a, #c = if_not_exists(a)", "overlap", "[c, [1], a]", "[c]"),
        ("set #c[3].#d = a, #c[3] = a", "overlap", "[c, [3], [3]]", "[c, [3]]"),
        ("set a = b remove a", "overlap", "[a]", "[a]"),
        ("set a = b, a.b.c = d", "overlap", "[a]", "[a, b, c]"),
        ("remove a.#c set a[1] = #d", "conflict", "[a, c]", "[a, [1]]"),
        ("set a.b.c = d, a.b[2] = d", "conflict", "[a, b, c]", "[a, b, [2]]"),
    ],
)
def test_two_targets_must_not_overlap(text: str, verb: str, first: str, second: str) -> None:
    assert (
        f"Two document paths {verb} with each other; must remove or rewrite one of these paths; "
        f"path one: {first}, path two: {second}"
    ) == refusal(text, NAMES)


@pytest.mark.parametrize(
    ("action", "value", "type_name"),
    [
        ("ADD", {"S": "a"}, "STRING"),
        ("ADD", {"L": []}, "LIST"),
        ("ADD", {"BOOL": True}, "BOOLEAN"),
        ("DELETE", {"N": "1"}, "NUMBER"),
        ("DELETE", {"M": {}}, "MAP"),
    ],
)
def test_an_action_takes_its_own_types_only(action: str, value: dict[str, Any], type_name: str) -> None:
    """It takes precedence over a function's operands, at any position."""
    text = f"set b = if_not_exists(c) {action} a.b :a"
    assert (
        f"Incorrect operand type for operator or function; operator: {action}, operand type: {type_name}"
    ) == refusal(text, None, {":a": value})


@pytest.mark.parametrize(
    ("text", "value", "operator", "type_name"),
    [
        ("set a = list_append(:a, a)", {"S": "a"}, "list_append", "S"),
        ("set a = list_append(a, :a)", {"NS": ["1"]}, "list_append", "NS"),
        ("set a = a + :a", {"S": "a"}, "+", "S"),
        ("set a = :a - b", {"L": []}, "-", "L"),
    ],
)
def test_an_operand_takes_its_own_types_only(
    text: str, value: dict[str, Any], operator: str, type_name: str
) -> None:
    assert (
        "Incorrect operand type for operator or function; "
        f"operator or function: {operator}, operand type: {type_name}"
    ) == refusal(text, None, {":a": value})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "The expression can not be empty;"),
        ("!!! INVALID !!!", 'Syntax error; token: "!", near: "!!"'),
        ("a,", 'Syntax error; token: "<EOF>", near: ","'),
        ("a b", 'Syntax error; token: "b", near: "a b"'),
        (":a", 'Syntax error; token: ":a", near: ":a"'),
        ("pk, status", "Attribute name is a reserved keyword; reserved keyword: status"),
        (
            "#x, a, a",
            "An expression attribute name used in the document path is not defined; attribute name: #x",
        ),
        (
            "a, a[0]",
            "Two document paths overlap with each other; must remove or rewrite one of these paths; "
            "path one: [a], path two: [a, [0]]",
        ),
        (
            "a.b, a[0]",
            "Two document paths conflict with each other; must remove or rewrite one of these paths; "
            "path one: [a, b], path two: [a, [0]]",
        ),
        ("a" + ".b" * 32, "The document path has too many nesting levels; nesting levels: 33"),
    ],
)
def test_projections_are_judged_alike(text: str, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        expressions.compile(projection=text)

    assert f"Invalid ProjectionExpression: {message}" == caught.value.message
