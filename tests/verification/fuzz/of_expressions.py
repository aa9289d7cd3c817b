"""The five kinds of expressions, and the parameters that they replaced: any text is refused in words or evaluated."""

import re
from typing import Any

import orjson

from foldb import expressions
from foldb.expressions import plans
from foldb.model import service
from foldb.model.errors import RequestError, ValidationError
from foldb.model.limits import MODERN
from foldb.model.values import check_item, dump, load
from foldb.server.api import parameters
from tests.verification.fuzz.target import Target

KINDS = ("condition", "filter", "key_condition", "update", "projection")

# The first letter of a placeholder decides its value, so that a text needs no values of its own.
VALUES: dict[str, dict[str, Any]] = {
    "s": {"S": "S"},
    "t": {"S": "bc"},
    "n": {"N": "5"},
    "m": {"N": "-1E-130"},
    "b": {"B": "AQ=="},
    "l": {"L": [{"N": "1"}, {"S": "a"}]},
    "d": {"M": {"a": {"L": [{"N": "1"}]}}},
    "z": {"NULL": True},
    "y": {"BOOL": True},
    "u": {"SS": ["a", "b"]},
    "v": {"NS": ["1", "5"]},
    "w": {"BS": ["AQ=="]},
}
ITEM: dict[str, Any] = {
    "a": {"S": "abcé😀"},
    "b": {"N": "5"},
    "c": {"B": "AQID"},
    "d": {"M": {"a": {"L": [{"N": "1"}, {"M": {"b": {"S": "x"}}}]}, "e": {"N": "2"}}},
    "e": {"L": [{"N": "1"}, {"L": [{"S": "a"}]}, {"M": {"a": {"SS": ["a"]}}}]},
    "f": {"SS": ["a", "c"]},
    "g": {"NS": ["1", "2"]},
    "h": {"BS": ["AQ==", "Ag=="]},
    "i": {"NULL": True},
    "j": {"BOOL": False},
}
for _value in VALUES.values():
    check_item({"a": _value}, MODERN)
check_item(ITEM, MODERN)

TEXTS = {
    "condition": (
        "a = :s AND (b < :n OR NOT c BETWEEN :b AND :b2) AND attribute_exists(#d.a[1].b)",
        "d.a[0] IN (:n, :m, e[0], size(a)) OR begins_with(a, :t) AND contains(f, :s)",
        "attribute_type(e, :s) AND size(e) >= :n AND attribute_not_exists(q) AND contains(e, :n)",
    ),
    "filter": ("NOT (NOT (a <> b)) OR (a > :s)", "contains(g, :n) and e[1][0] = :s"),
    "key_condition": ("a = :s AND b BETWEEN :m AND :n", "#a = :s and begins_with(c, :b)"),
    "update": (
        "SET a = :s, d.a[1] = if_not_exists(q, :n) + b, e = list_append(e, :l) REMOVE e[0], i",
        "SET q = (b - :n), e[9] = d.e ADD f :u, b :n DELETE g :v, h :w",
    ),
    "projection": ("a, d.a[0], d.a[1].b, e[0], #x.y",),
}
WORDS = (
    *("AND", "OR", "NOT", "BETWEEN", "IN", "SET", "REMOVE", "ADD", "DELETE", "<>", "<=", ">=", "[0]", ", "),
    *("attribute_exists(", "attribute_not_exists(", "attribute_type(", "begins_with(", "contains(", "size("),
    *("if_not_exists(", "list_append(", "#a", *(f":{letter}" for letter in VALUES)),
)


def judge_expression(data: bytes) -> None:
    """The first byte chooses the kind; the rest is the text."""
    kind = KINDS[data[0] % len(KINDS)] if data else KINDS[0]
    try_expression(kind, data[1:].decode("utf-8", "replace"))


def try_expression(kind: str, text: str, item: dict[str, Any] | None = None) -> expressions.Plan | None:
    """Parse a text, and evaluate it; None if it was refused."""
    item = ITEM if item is None else item
    names, values = substitutions(text) if kind != "projection" else (substitutions(text)[0], None)
    texts = tuple(
        text if each == kind else None for each in ("update", "condition", "key_condition", "filter")
    )
    try:
        # Without the cache of plans, so that every text is parsed.
        plan = plans._compile((*texts, text if kind == "projection" else None), names, values, MODERN)
        evaluate(plan, item, values or {})
    except ValidationError:
        return None
    return plan


def substitutions(text: str) -> tuple[dict[str, str] | None, dict[str, Any] | None]:
    """Names and values for the placeholders of a text."""
    names = {name: name[1:] for name in re.findall("#[0-9A-Za-z_]+", text)}
    values = {name: VALUES.get(name[1], VALUES["n"]) for name in re.findall(":[0-9A-Za-z_]+", text)}
    return names or None, values or None


def evaluate(plan: expressions.Plan, item: dict[str, Any], values: dict[str, Any]) -> None:
    """Use every part of a plan on an item, which stays as it was."""
    before = dump(item)
    for condition in (plan.condition, plan.filter):
        if condition is not None:
            assert condition.holds(item, values) in (True, False)
            condition.holds(None, values)
    if plan.update is not None:
        for old in (item, None):
            try:
                updated = plan.update.apply(old, values, MODERN)
                plan.update.select(updated.item, updated.touched)
                assert load(dump(updated.item)) == updated.item
            except ValidationError:
                continue
    if plan.projection is not None:
        projected = plan.projection.apply(item)
        assert projected.keys() <= item.keys()
    assert before == dump(item)


OPERATIONS = ("PutItem", "UpdateItem", "Query", "Scan")
LEGACY: dict[str, tuple[dict[str, Any], ...]] = {
    "PutItem": (
        {"Expected": {"a": {"ComparisonOperator": "EQ", "AttributeValueList": [{"S": "a"}]}}},
        {"Expected": {"a": {"Exists": False}, "b": {"Value": {"N": "5"}}}, "ConditionalOperator": "OR"},
        {
            "Expected": {
                "a": {"ComparisonOperator": "BETWEEN", "AttributeValueList": [{"N": "1"}, {"N": "2"}]}
            }
        },
    ),
    "UpdateItem": (
        {"AttributeUpdates": {"b": {"Action": "ADD", "Value": {"N": "1"}}, "f": {"Action": "DELETE"}}},
        {"AttributeUpdates": {"g": {"Action": "DELETE", "Value": {"NS": ["1"]}}, "q": {"Value": {"L": []}}}},
    ),
    "Query": (
        {"KeyConditions": {"a": {"ComparisonOperator": "BEGINS_WITH", "AttributeValueList": [{"S": "a"}]}}},
        {"QueryFilter": {"a": {"ComparisonOperator": "NOT_NULL"}}, "AttributesToGet": ["a", "b"]},
    ),
    "Scan": (
        {
            "ScanFilter": {
                "e": {"ComparisonOperator": "NOT_CONTAINS", "AttributeValueList": [{"N": "1"}]},
                "b": {"ComparisonOperator": "IN", "AttributeValueList": [{"N": "1"}, {"N": "5"}]},
            },
            "ConditionalOperator": "AND",
        },
    ),
}
# Other members that the operations require.
REQUIRED: dict[str, dict[str, Any]] = {
    "PutItem": {"Item": {}},
    "UpdateItem": {"Key": {}},
    "Query": {},
    "Scan": {},
}


def judge_legacy(data: bytes) -> None:
    """The first byte chooses the operation; the rest is the JSON of its parameters."""
    operation = OPERATIONS[data[0] % len(OPERATIONS)] if data else OPERATIONS[0]
    try:
        body = orjson.loads(data[1:])
    except orjson.JSONDecodeError:
        return
    if type(body) is not dict:
        return
    body = {**REQUIRED[operation], **body, "TableName": "abc"}
    try:
        service.validate(operation, body)
        parameters.check(body, MODERN, operation)
        if operation in ("PutItem", "UpdateItem"):
            expression = parameters.write_expression(body, MODERN)
            plan, values = (None, None) if expression is None else (expression.plan, expression.values)
            if expression is not None and expression.dialect == "legacy":
                values = again(expression.condition, expression.update).values
        else:
            request = parameters.read(body, MODERN)
            plan, values = request.plan, request.values
        if plan is not None:
            evaluate(plan, ITEM, values or {})
    except RequestError:
        return


def again(condition: str | None, update: str | None) -> expressions.LegacyPlan:
    """Return the plan that the fold compiles from the stored legacy parameters."""
    kept = {} if condition is None else orjson.loads(condition)
    return expressions.compile_legacy(
        expected=kept.get("Expected"),
        conditional_operator=kept.get("ConditionalOperator"),
        attribute_updates=None if update is None else orjson.loads(update),
    )


TARGETS = (
    Target(
        "expressions",
        judge_expression,
        [bytes([number]) + text.encode() for number, kind in enumerate(KINDS) for text in TEXTS[kind]],
        WORDS,
        bytes_max=4097,
    ),
    Target(
        "legacy",
        judge_legacy,
        [
            bytes([number]) + orjson.dumps(body)
            for number, operation in enumerate(OPERATIONS)
            for body in LEGACY[operation]
        ],
        (
            *('"ComparisonOperator":', '"AttributeValueList":[', '"Value":', '"Exists":', '"Action":'),
            *('"EQ"', '"NE"', '"IN"', '"LE"', '"LT"', '"GE"', '"GT"', '"BETWEEN"', '"NOT_NULL"', '"NULL"'),
            *('"CONTAINS"', '"NOT_CONTAINS"', '"BEGINS_WITH"', '"PUT"', '"ADD"', '"DELETE"', '"OR"', '"AND"'),
            *(
                '{"S":"a"}',
                '{"N":"1"}',
                '{"B":"AQ=="}',
                '{"SS":["a"]}',
                '{"NS":["1"]}',
                '{"L":[]}',
                '{"M":{}}',
            ),
            *(
                '"ConditionalOperator":',
                '"QueryFilter":',
                '"ScanFilter":',
                '"KeyConditions":',
                "null",
                "true",
            ),
        ),
    ),
)
