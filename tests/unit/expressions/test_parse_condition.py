"""DynamoDB's errors for invalid conditions, and the one reported among several."""

from typing import Any

import pytest

from foldb import expressions
from foldb.model.errors import ValidationError

NAMES = {"#a": "a"}
TOO_MANY = ", ".join(["b"] * 101)


def refusal(text: str, names: dict[str, str] | None = None, values: dict[str, Any] | None = None) -> str:
    with pytest.raises(ValidationError) as caught:
        expressions.compile(condition=text, names=names, values=values)
    return caught.value.message.removeprefix("Invalid ConditionExpression: ")


@pytest.mark.parametrize(
    ("text", "token", "near"),
    [
        ("things are not", "are", "things are not"),
        ("a > 4", "4", "> 4"),
        ("attribute_exists(Pictures-RearView)", "-", "Pictures-RearView"),
        ('attribute_exists("Pictures")', '"', '("Pictures'),
        ("attribute_exists(Pictures..RearView)", ".", "..RearView"),
        ("attribute_exists(asdf[a])", "a", "[a]"),
        ("a > :things.stuff", ".", ":things.stuff"),
        ("b[:a] > a", ":a", "[:a]"),
        ("a in b, c", "b", "in b,"),
        ("a in (b,c,)", ")", ",)"),
        ("a in ()", ")", "()"),
        ("a > between", "between", "> between"),
        ("(a)between(b.(c.d))and(c)", "(", ".(c"),
        ("(a)between(b.c.d)and((c)", "<EOF>", ")"),
        ("size(a).b > a", ".", ").b"),
        ("(size(a))[0] > a", "[", ")[0"),
        ("ü > a", "ü", "ü >"),
        ("_a = b", "_", "_a"),
        ("# = b", "#", "# ="),
        ("a != b", "!", "a !="),
        ("(a = b) = c", "=", ") = c"),
        ("a = (b = c)", "=", "b = c"),
        ("a AND b = c", "AND", "a AND b"),
        ("a", "<EOF>", "a"),
        ("a =", "<EOF>", "="),
        ("(", "<EOF>", "("),
        ("a = b)", ")", "b)"),
        ("a = b c = d", "c", "b c ="),
        ("attribute_exists()", ")", "()"),
    ],
)
def test_a_syntax_error_shows_the_token_and_its_neighbours(text: str, token: str, near: str) -> None:
    assert f'Syntax error; token: "{token}", near: "{near}"' == refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "a=a and a > ((views))",
        "(a)between(((b.c)).d)and(c)",
        "a > whatever((:things), ((a)))",
        "a=a AND ((a=a AND a=a)) AND a=a",
        "a=a OR ((a=a OR (a=a OR a=a)))",
        "((attribute_exists(a)))",
        "((NOT a = b))",
    ],
)
def test_redundant_parentheses_are_reported_first(text: str) -> None:
    assert "The expression has redundant parentheses;" == refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "(a = b)",
        "(a = b) AND (c = d)",
        "((a = b) OR (c = d))",
        "(a = b OR (c = d))",
        "(NOT (a = b))",
        "((size(a)) = b)",
        "(attribute_exists(a)) AND (attribute_not_exists(b))",
        "(a.b).c[0] = (d)",
        "a BETWEEN (b) AND (c) AND d = e",
        "attribute_exists (a)",
        "a = b aNd c = d Or nOt e In (f)",
        "A between B and C",
    ],
)
def test_parentheses_case_and_space_are_accepted(text: str) -> None:
    assert expressions.compile(condition=text).condition is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=a and whatever((:things)) > a", "Invalid function name; function: whatever"),
        ("attRIbute_exIsts((views), #a)", "Invalid function name; function: attRIbute_exIsts"),
        (
            "if_not_exists(a, b)",
            "The function is not allowed in a condition expression; function: if_not_exists",
        ),
        ("attribute_exists(views, #a)", "Attribute name is a reserved keyword; reserved keyword: views"),
        (":a < abOrT", "Attribute name is a reserved keyword; reserved keyword: abOrT"),
        (
            "attribute_exists(#P.RearView, :a) and b=b",
            "An expression attribute name used in the document path is not defined; attribute name: #P",
        ),
        (
            "begins_with(:hello, #b, #c)",
            "An expression attribute value used in expression is not defined; attribute value: :hello",
        ),
        (
            "attribute_exists(things, a) and b=b",
            "Incorrect number of operands for operator or function; "
            "operator or function: attribute_exists, number of operands: 2",
        ),
        (
            "a = a AND #a = b AND :view > a",
            "The first operand must be distinct from the remaining operands for this operator or function; "
            "operator: =, first operand: [a]",
        ),
        (
            "contains(ab.bc[1].a, ab.bc[1].#a)",
            "The first operand must be distinct from the remaining operands for this operator or function; "
            "operator: contains, first operand: [ab, bc, [1], a]",
        ),
        (
            "attribute_type(ab.bc[1].a, SS)",
            "Incorrect operand type for operator or function; operator or function: attribute_type, "
            "operand type: {NS,SS,L,BS,N,M,B,BOOL,NULL,S}",
        ),
        (
            "begins_with(a, size(b))",
            "Incorrect operand type for operator or function; operator or function: begins_with, operand type: N",
        ),
        (
            "size(size(a)) > b",
            "Incorrect operand type for operator or function; operator or function: size, operand type: N",
        ),
        (
            "attribute_not_exists(size(b))",
            "Operator or function requires a document path; operator or function: attribute_not_exists",
        ),
        (
            f"a IN ({TOO_MANY})",
            "The IN operator is provided with too many operands; number of operands: 101",
        ),
    ],
)
def test_of_several_mistakes_the_gravest_is_named(text: str, message: str) -> None:
    assert message == refusal(text, NAMES)


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("attribute_not_exists(things) > b", "attribute_not_exists"),
        ("size(contains(a, b)) > a", "contains"),
        ("size(things)", "size"),
        ("a = b AND NOT (size(things))", "size"),
        ("a between b and attribute_exists(things)", "attribute_exists"),
        ("a in (b, attribute_exists(things))", "attribute_exists"),
    ],
)
def test_size_is_a_value_and_every_other_function_a_condition(text: str, function: str) -> None:
    rule = "The function is not allowed to be used this way in an expression"
    assert f"{rule}; function: {function}" == refusal(text)


@pytest.mark.parametrize(
    ("text", "value", "operator", "type_name"),
    [
        ("attribute_type(a, :a)", {"N": "1"}, "attribute_type", "N"),
        ("begins_with(a, :a)", {"SS": ["1"]}, "begins_with", "SS"),
        ("begins_with(:a, a)", {"BOOL": True}, "begins_with", "BOOL"),
        ("size(:a) > a", {"NULL": True}, "size", "NULL"),
        ("a < :a", {"L": []}, "<", "L"),
        (":a >= a", {"M": {}}, ">=", "M"),
        ("a BETWEEN :a AND b", {"BOOL": True}, "BETWEEN", "BOOL"),
    ],
)
def test_a_value_of_a_wrong_type_for_the_operator_is_refused(
    text: str, value: dict[str, Any], operator: str, type_name: str
) -> None:
    message = f"operator or function: {operator}, operand type: {type_name}"
    assert f"Incorrect operand type for operator or function; {message}" == refusal(text, None, {":a": value})


def test_bounds_must_be_of_one_type_and_in_order() -> None:
    number, first, second = {"N": "1"}, {"S": "a"}, {"S": "b"}

    assert (
        "The BETWEEN operator requires same data type for lower and upper bounds; "
        "lower bound operand: AttributeValue: {N:1}, upper bound operand: AttributeValue: {S:a}"
    ) == refusal("a between :b and :a", None, {":a": first, ":b": number})
    assert (
        "The BETWEEN operator requires upper bound to be greater than or equal to lower bound; "
        "lower bound operand: AttributeValue: {S:b}, upper bound operand: AttributeValue: {S:a}"
    ) == refusal("a between :b and :a", None, {":a": first, ":b": second})


def test_a_type_name_must_be_a_known_type() -> None:
    assert (
        "Invalid attribute type name found; type: 1, valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}"
    ) == refusal("attribute_type(a, :a)", None, {":a": {"S": "1"}})


@pytest.mark.spec("SEC16")
def test_an_expression_has_4096_bytes_and_not_one_more() -> None:
    assert expressions.compile(condition="a = b".ljust(4096)).condition is not None
    message = "Expression size has exceeded the maximum allowed size; expression size: 4097"
    assert message == refusal("a = b".ljust(4097))
    assert message == refusal("é" * 2048 + "a")


@pytest.mark.spec("SEC16")
def test_an_expression_has_300_operators_and_not_one_more() -> None:
    """DynamoDB stops counting at 301, and reports that for any larger number."""
    nested = "a<b " + "or (a<b " * 149 + ")" * 149
    assert expressions.compile(condition=nested).condition is not None
    too_many = "a<b " + "or (a<b " * 150 + ")" * 150
    message = "The expression contains too many operators; operator count: 301"
    assert message == refusal(too_many)
    assert message == refusal("NOT " * 1000 + "a<b")


@pytest.mark.spec("SEC16")
def test_thousands_of_parentheses_are_a_mistake_like_any_other() -> None:
    assert 'Syntax error; token: "<EOF>", near: "("' == refusal("(" * 4096)
    assert "The expression has redundant parentheses;" == refusal("(" * 2046 + "a<b" + ")" * 2046)
    assert "Invalid function name; function: f" == refusal("a < " + "f(" * 1300 + "b" + ")" * 1300)


@pytest.mark.spec("SEC16")
def test_a_path_has_32_steps_and_an_index_fits_31_bits() -> None:
    assert expressions.compile(condition="a" + ".b" * 31 + " = c").condition is not None
    assert "The document path has too many nesting levels; nesting levels: 33" == refusal(
        "a" + ".b" * 32 + " = c"
    )
    assert "List index is not within the allowable range; index: [2147483648]" == refusal("a[2147483648] = c")


def test_a_message_repeats_at_most_a_kilobyte_of_the_request() -> None:
    assert 1100 > len(refusal("a " + "b" * 4000))
