"""Which keys a key condition reads."""

import re
from typing import Any

import pytest

from foldb import expressions
from foldb.expressions import KeyRange, compile_legacy, key_range
from foldb.model import keys
from foldb.model.errors import ValidationError
from foldb.model.key_schema import KeyAttribute, KeySchema

HASH = KeySchema((KeyAttribute("pk", "S"),))
TABLE = KeySchema((KeyAttribute("pk", "S"),), (KeyAttribute("sk", "S"),))
NUMBERED = KeySchema((KeyAttribute("pk", "N"),), (KeyAttribute("sk", "N"),))
BINARY = KeySchema((KeyAttribute("pk", "S"),), (KeyAttribute("sk", "B"),))
# X10: a global index of several attributes.
WIDE = KeySchema(
    (KeyAttribute("p1", "S"), KeyAttribute("p2", "N")),
    (KeyAttribute("s1", "S"), KeyAttribute("s2", "N"), KeyAttribute("s3", "S")),
)

EXPRESSIONS = "Invalid KeyConditionExpression: KeyConditionExpressions "
TOO_MANY = (
    "The number of query conditions ({}) exceeds the number of key attributes defined in the schema ({})"
)

NO_EQUALITY = (
    "RANGE key attributes {} must have equality conditions specified in the query because a condition is present on "
    "key attribute {}"
)

VALUES: dict[str, dict[str, Any]] = {
    ":p": {"S": "car"},
    ":a": {"S": "b"},
    ":z": {"S": "d"},
    ":n": {"N": "5"},
    ":m": {"N": "7"},
    ":x": {"B": "/w=="},
    ":empty": {"S": ""},
}


def resolved(text: str, schema: KeySchema = TABLE, *, composite: bool = False) -> KeyRange:
    values = {name: VALUES[name] for name in re.findall(r":\w+", text)}
    condition = expressions.compile(key_condition=text, values=values or None).key_condition
    assert condition is not None
    return key_range(condition, schema, values, composite=composite)


def refusal(text: str, schema: KeySchema = TABLE) -> str:
    with pytest.raises(ValidationError) as caught:
        resolved(text, schema)
    return caught.value.message


@pytest.mark.spec("S74")
@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("pk = :p", "abcdef"),
        ("pk = :p AND sk = :a", "b"),
        (":p = pk AND :a = sk", "b"),
        ("pk = :p AND sk < :a", "a"),
        ("pk = :p AND sk <= :a", "ab"),
        ("pk = :p AND sk > :a", "cdef"),
        ("pk = :p AND sk >= :a", "bcdef"),
        ("pk = :p AND :a < sk", "cdef"),
        ("sk BETWEEN :a AND :z AND pk = :p", "bcd"),
        ("((pk = :p) AND begins_with(sk, :a))", "b"),
    ],
)
@pytest.mark.parametrize("composite", [False, True])
def test_a_sort_key_range(text: str, read: str, composite: bool) -> None:
    """In an index the table's key follows the sort attribute; the ranges are the same."""
    pk, low, high = resolved(text, composite=composite)
    stored = {key: keys.part(key.encode()) + b"tail" if composite else key.encode() for key in "abcdef"}

    assert b"car" == pk
    assert list(read) == [
        key for key, data in stored.items() if low <= data and (high is None or data < high)
    ]


def test_begins_with_includes_keys_after_the_last_byte() -> None:
    _, low, high = resolved("pk = :p AND begins_with(sk, :a)")
    assert (b"b", b"c") == (low, high)

    _, low, high = resolved("pk = :p AND begins_with(sk, :x)", BINARY)
    assert (b"\xff", None) == (low, high)

    _, low, high = resolved("pk = :p AND begins_with(sk, :x)", BINARY, composite=True)
    assert low <= keys.part(b"\xff\xff\0") < (high or b"\xff\xff\xff\xff")


def test_numbers_range_by_value() -> None:
    pk, low, high = resolved("pk = :n AND sk BETWEEN :n AND :m", NUMBERED)
    read = [
        n for n in ("-5", "4.9", "5", "6", "7", "7.01", "100") if low <= keys.encode({"N": n}) < (high or b"")
    ]

    assert keys.encode({"N": "5"}) == pk
    assert ["5", "6", "7"] == read


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("", [0, 1, 2, 3, 4, 5]),
        ("AND s1 = :a", [1, 2, 3, 4]),
        ("AND s1 >= :a", [1, 2, 3, 4, 5]),
        ("AND s1 = :a AND s2 = :n", [2, 3]),
        ("AND s1 = :a AND s2 > :n", [4]),
        ("AND s1 = :a AND s2 <= :n", [1, 2, 3]),
        ("AND s1 = :a AND s2 = :n AND begins_with(s3, :z)", [3]),
        ("AND s3 = :z AND s2 = :n AND s1 = :a", [3]),
    ],
)
def test_several_sort_attributes_are_given_from_left_to_right(text: str, read: list[int]) -> None:
    rows = [
        ("a", "9", "z"),
        ("b", "-1", "d"),
        ("b", "5", "a"),
        ("b", "5", "d"),
        ("b", "6", "d"),
        ("c", "5", "d"),
    ]
    stored = [
        b"".join(keys.part(data) for data in (s1.encode(), keys.encode({"N": s2}), s3.encode())) + b"tail"
        for s1, s2, s3 in rows
    ]
    pk, low, high = resolved(f"p1 = :p AND p2 = :m {text}", WIDE, composite=True)

    assert keys.part(b"car") + keys.part(keys.encode({"N": "7"})) == pk
    assert read == [n for n, data in enumerate(stored) if low <= data and (high is None or data < high)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a > b and size(b) > c or a > c", "Invalid operator used in KeyConditionExpression: OR"),
        ("a in (b, size(c), d)", "Invalid operator used in KeyConditionExpression: IN"),
        ("attribute_exists(a)", "Invalid operator used in KeyConditionExpression: attribute_exists"),
        ("contains(a.d, b)", "Invalid operator used in KeyConditionExpression: contains"),
        ("not a > b", "Invalid operator used in KeyConditionExpression: NOT"),
        ("a <> b", "Invalid operator used in KeyConditionExpression: <>"),
        (
            ":p between size(b) and size(a) and b > :a",
            "Invalid condition in KeyConditionExpression: BETWEEN operator must have the key attribute "
            "as its first operand",
        ),
        (
            "begins_with(:p, b)",
            "Invalid condition in KeyConditionExpression: begins_with operator must have the key attribute "
            "as its first operand",
        ),
        ("size(b) > a AND a.b > b", EXPRESSIONS + "cannot contain nested operations"),
        ("a between size(b) and size(a)", EXPRESSIONS + "cannot contain nested operations"),
        (
            "b > a.b",
            "Invalid condition in KeyConditionExpression: Multiple attribute names used in one condition",
        ),
        (
            "begins_with(a, b)",
            "Invalid condition in KeyConditionExpression: Multiple attribute names used in one condition",
        ),
        ("a.d > c", EXPRESSIONS + "cannot have conditions on nested attributes"),
        (":a > :z AND a < :a", "Invalid condition in KeyConditionExpression: No key attribute specified"),
        ("b > :a AND b < :a and c = :a", EXPRESSIONS + "must only contain one condition per key"),
    ],
)
def test_a_condition_that_is_no_key_condition(text: str, message: str) -> None:
    assert message == refusal(text)


@pytest.mark.spec("X10")
@pytest.mark.parametrize(
    ("text", "schema", "message"),
    [
        ("sk = :a", TABLE, "Query condition missed key schema element: pk"),
        ("color = :a", TABLE, "Query condition missed key schema element: pk"),
        ("pk = :p AND color = :a", TABLE, "Query condition missed key schema element: sk"),
        ("pk = :p AND sk = :a AND color = :z", TABLE, TOO_MANY.format(3, 2)),
        ("pk = :p AND sk = :a", HASH, TOO_MANY.format(2, 1)),
        ("pk > :p", TABLE, "Query key condition not supported"),
        ("begins_with(pk, :p)", TABLE, "Query key condition not supported"),
        (
            "pk = :n AND begins_with(sk, :a)",
            NUMBERED,
            "One or more parameter values were invalid: Condition parameter type does not match schema type",
        ),
        (
            "pk = :n",
            TABLE,
            "One or more parameter values were invalid: Condition parameter type does not match schema type",
        ),
        (
            "pk = :empty",
            TABLE,
            "One or more parameter values are not valid. The AttributeValue for a key attribute "
            "cannot contain an empty string value. Key: pk",
        ),
        ("p1 = :p", WIDE, "Query condition missed key schema element: p2"),
        ("p1 = :p AND p2 = :n AND s2 = :n", WIDE, NO_EQUALITY.format("s1", "s2")),
        ("p1 = :p AND p2 = :n AND s1 > :a AND s2 = :n", WIDE, NO_EQUALITY.format("s1", "s2")),
        ("p1 = :p AND p2 = :n AND s1 = :a AND s3 = :a", WIDE, NO_EQUALITY.format("s2", "s3")),
        ("p1 = :p AND p2 > :n", WIDE, "Query key condition not supported"),
    ],
)
def test_a_key_condition_that_does_not_fit_the_schema(text: str, schema: KeySchema, message: str) -> None:
    assert message == refusal(text, schema)


def test_the_legacy_form_gives_the_same_range() -> None:
    clauses = {
        "sk": {"ComparisonOperator": "BETWEEN", "AttributeValueList": [{"S": "b"}, {"S": "d"}]},
        "pk": {"ComparisonOperator": "EQ", "AttributeValueList": [{"S": "car"}]},
    }
    plan, values = compile_legacy(key_conditions=clauses)

    assert plan.key_condition is not None
    assert resolved("pk = :p AND sk BETWEEN :a AND :z") == key_range(plan.key_condition, TABLE, values)


@pytest.mark.parametrize(
    ("operator", "operands"),
    [("NE", [{"S": "x"}]), ("NOT_NULL", []), ("CONTAINS", [{"S": "x"}]), ("IN", [{"S": "x"}])],
)
def test_legacy_operators_that_no_index_serves(operator: str, operands: list[dict[str, str]]) -> None:
    clauses = {
        "pk": {"ComparisonOperator": "EQ", "AttributeValueList": [{"S": "car"}]},
        "sk": {"ComparisonOperator": operator, "AttributeValueList": operands},
    }
    plan, values = compile_legacy(key_conditions=clauses)

    assert plan.key_condition is not None
    with pytest.raises(
        ValidationError, match="Attempted conditional constraint is not an indexable operation"
    ):
        key_range(plan.key_condition, TABLE, values)
