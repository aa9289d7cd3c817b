"""The expressions of a request, in whichever of the two dialects, read into plans.

    check     which parameters go together, and their values      before the rest of the request is looked at
    compile   the texts                                           after it

DynamoDB judges the values of an item between the two, so they are two calls.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import orjson

from ... import expressions
from ...expressions import Plan, refuse_key_paths
from ...log.commands import Expression
from ...model.limits import Limits
from ...model.tables import TableDefinition
from ...model.values import Value, check_values

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
_LEGACY = _LEGACY_WRITES | _LEGACY_READS
_READ_EXPRESSIONS = frozenset(("KeyConditionExpression", "FilterExpression", "ProjectionExpression"))
_EXPRESSIONS_WITH_VALUES = frozenset(
    ("ConditionExpression", "UpdateExpression", "KeyConditionExpression", "FilterExpression")
)


class Read(NamedTuple):
    """What a read asks of the items it finds."""

    plan: Plan | None = None
    values: dict[str, Value] | None = None


def check(body: dict[str, Any], limits: Limits, operation: str | None = None) -> int:
    """Judge which parameters go together, make the expressions' values canonical and return the values' size.

    Args:
        body: The request, or a part of it that has expressions of its own.
        limits: What values are under.
        operation: The operation's name, if `body` is its whole request.

    Raises:
        ValidationError: Parameters do not go together, or a value is none.
    """
    # Where there is a use for names and values and nothing of the other dialect, nothing can be mixed.
    if not _LEGACY.isdisjoint(body) or _EXPRESSIONS_WITH_VALUES.isdisjoint(body):
        expressions.check_mixing(body, operation)
    if "ExpressionAttributeValues" not in body:
        return 0
    size = check_values(body["ExpressionAttributeValues"], limits)
    expressions.check_substitution_size(body.get("ExpressionAttributeNames"), size, limits)
    return size


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
    """Compile the key condition, the filter and the projection of a read.

    Raises:
        ValidationError: An expression or a legacy parameter is wrong.
    """
    values = body.get("ExpressionAttributeValues")
    plan = expressions.compile(
        filter=body.get("FilterExpression"),
        key_condition=body.get("KeyConditionExpression"),
        projection=body.get("ProjectionExpression"),
        names=body.get("ExpressionAttributeNames"),
        values=values,
        limits=limits,
    )
    if _LEGACY_READS.isdisjoint(body):
        return Read(plan, values)
    legacy = expressions.compile_legacy(
        conditional_operator=body.get("ConditionalOperator"),
        key_conditions=body.get("KeyConditions"),
        query_filter=body.get("QueryFilter"),
        scan_filter=body.get("ScanFilter"),
        attributes_to_get=body.get("AttributesToGet"),
        limits=limits,
    )
    if _READ_EXPRESSIONS.isdisjoint(body):
        return Read(legacy.plan, legacy.values)
    # `check` lets only KeyConditions pass beside expressions.
    return Read(replace(plan, key_condition=legacy.plan.key_condition), {**(values or {}), **legacy.values})


def check_key_paths(plan: Plan | None, definition: TableDefinition) -> None:
    """Refuse paths into what is a key of the table or of one of its indexes: keys are scalars.

    Raises:
        ValidationError: There is one.
    """
    if plan is None:
        return
    for part in (plan.condition, plan.filter, plan.update, plan.projection):
        if part is not None and part.nested:
            refuse_key_paths(part, definition.key.names)
            for index in definition.indexes:
                refuse_key_paths(part, index.key.names, "IndexKey")


def written_bytes(expression: Expression | None, values_bytes: int) -> int:
    """About how many bytes an expression, whose values are of that size, adds to a command."""
    if expression is None:
        return 0
    return len(expression.condition or "") + len(expression.update or "") + values_bytes
