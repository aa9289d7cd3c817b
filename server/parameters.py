"""The expressions of a request, in whichever of the two dialects, read into plans.

    check     which parameters go together, and their values      before the rest of the request is looked at
    compile   the texts                                           after it

DynamoDB judges the values of an item between the two, so they are two calls.
"""

from typing import Any, NamedTuple

import orjson

from .. import expressions
from ..expressions import Plan
from ..log.commands import Expression
from ..model.limits import Limits
from ..model.values import Value, check_values

_WRITE_MEMBERS = frozenset(
    (
        "ConditionExpression",
        "UpdateExpression",
        "ExpressionAttributeNames",
        "ExpressionAttributeValues",
        "Expected",
        "ConditionalOperator",
        "AttributeUpdates",
    )
)
_LEGACY_WRITES = frozenset(("Expected", "ConditionalOperator", "AttributeUpdates"))
_LEGACY_READS = frozenset(
    ("KeyConditions", "QueryFilter", "ScanFilter", "AttributesToGet", "ConditionalOperator")
)


class Read(NamedTuple):
    """What a read asks of the items it finds."""

    plan: Plan | None = None
    values: dict[str, Value] | None = None


EVERYTHING = Read()


def check(body: dict[str, Any], limits: Limits, operation: str | None = None) -> None:
    """Judge which parameters go together, and make the expressions' values canonical.

    Args:
        body: The request, or a part of it that has expressions of its own.
        limits: What values are under.
        operation: The operation's name, if `body` is its whole request.

    Raises:
        ValidationError: Parameters do not go together, or a value is none.
    """
    expressions.check_mixing(body, operation)
    if "ExpressionAttributeValues" in body:
        check_values(body["ExpressionAttributeValues"], limits)


def has_write_expression(body: dict[str, Any]) -> bool:
    """Whether the request of a write says more than what to write."""
    return not _WRITE_MEMBERS.isdisjoint(body)


def write_expression(body: dict[str, Any], limits: Limits) -> Expression | None:
    """Compile the condition and the update of a write; None if it has neither."""
    if not _LEGACY_WRITES.isdisjoint(body):
        return _legacy_expression(body, limits)
    condition, update = body.get("ConditionExpression"), body.get("UpdateExpression")
    names, values = body.get("ExpressionAttributeNames"), body.get("ExpressionAttributeValues")
    plan = expressions.compile(condition=condition, update=update, names=names, values=values, limits=limits)
    if condition is None and update is None:
        return None
    return Expression(condition, update, names, values, "expression", plan)


def _legacy_expression(body: dict[str, Any], limits: Limits) -> Expression:
    legacy = expressions.compile_legacy(
        expected=body.get("Expected"),
        conditional_operator=body.get("ConditionalOperator"),
        attribute_updates=body.get("AttributeUpdates"),
        limits=limits,
    )
    condition = {name: body[name] for name in ("Expected", "ConditionalOperator") if name in body}
    return Expression(
        condition=_canonical(condition) if condition else None,
        update=_canonical(body["AttributeUpdates"]) if "AttributeUpdates" in body else None,
        dialect="legacy",
        plan=legacy.plan,
    )


def _canonical(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def read(body: dict[str, Any], limits: Limits) -> Read:
    """Compile the key condition, the filter and the projection of a read."""
    if not _LEGACY_READS.isdisjoint(body):
        legacy = expressions.compile_legacy(
            conditional_operator=body.get("ConditionalOperator"),
            key_conditions=body.get("KeyConditions"),
            query_filter=body.get("QueryFilter"),
            scan_filter=body.get("ScanFilter"),
            attributes_to_get=body.get("AttributesToGet"),
            limits=limits,
        )
        return Read(legacy.plan, legacy.values)
    values = body.get("ExpressionAttributeValues")
    plan = expressions.compile(
        filter=body.get("FilterExpression"),
        key_condition=body.get("KeyConditionExpression"),
        projection=body.get("ProjectionExpression"),
        names=body.get("ExpressionAttributeNames"),
        values=values,
        limits=limits,
    )
    return Read(plan, values)


def written_bytes(expression: Expression | None) -> int:
    """About how many bytes an expression adds to a command."""
    if expression is None:
        return 0
    size = len(expression.condition or "") + len(expression.update or "")
    if expression.values:
        size += len(orjson.dumps(expression.values))
    return size
