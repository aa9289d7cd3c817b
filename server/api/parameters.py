"""Requests of item operations, parsed once: the expressions of either dialect, compiled into plans.

    check which parameters go together, and their values ──► validate items and keys ──► compile the expressions

DynamoDB reports errors in this order, so `parse_write` and `parse_read` validate the items of a request as well.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, final

import orjson

from ... import expressions
from ...expressions import Plan, refuse_key_paths
from ...log.commands import Expression, Returns
from ...model.errors import ValidationError
from ...model.limits import Limits
from ...model.service import OLDER_DEPTH, is_deeper
from ...model.tables import TableDefinition
from ...model.values import ITEM_TOO_LARGE, Item, Value, check_item, check_named_values, check_values

ONE_ERROR: Final = "1 validation error detected: "

_WRITE_MEMBERS: Final = frozenset(
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
_LEGACY_WRITES: Final = frozenset(("Expected", "ConditionalOperator", "AttributeUpdates"))
_LEGACY_READS: Final = frozenset(
    ("KeyConditions", "QueryFilter", "ScanFilter", "AttributesToGet", "ConditionalOperator")
)
_LEGACY: Final = _LEGACY_WRITES | _LEGACY_READS
_READ_EXPRESSIONS: Final = frozenset(("KeyConditionExpression", "FilterExpression", "ProjectionExpression"))
_EXPRESSIONS_WITH_VALUES: Final = frozenset(
    ("ConditionExpression", "UpdateExpression", "KeyConditionExpression", "FilterExpression")
)


@final
class WriteRequest:
    """A write of one item, parsed.

    Attributes:
        size: The size of its item or key.
        expression: Its condition and update; None if it has neither.
        expression_bytes: About how many bytes the expression adds to a command.
        return_values: Its ReturnValues.
        show_refused: Whether the answer to a failed condition shows the stored item.
    """

    __slots__ = ("expression", "expression_bytes", "return_values", "show_refused", "size")

    def __init__(
        self,
        size: int,
        expression: Expression | None,
        expression_bytes: int,
        return_values: Returns,
        show_refused: bool,
    ) -> None:
        self.size = size
        self.expression = expression
        self.expression_bytes = expression_bytes
        self.return_values = return_values
        self.show_refused = show_refused


@final
class ReadRequest:
    """The expressions of a read, compiled: a plan and the values of its placeholders."""

    __slots__ = ("plan", "values")

    def __init__(self, plan: Plan | None = None, values: dict[str, Value] | None = None) -> None:
        self.plan = plan
        self.values = values


def parse_write(
    body: dict[str, Any], item: Item, limits: Limits, operation: str | None = None
) -> WriteRequest:
    """Validate a write and compile its expressions.

    Args:
        body: The request, or an action of a transaction.
        item: Its item or key.
        operation: The name of the operation, if `body` is its whole request. Its errors begin with `ONE_ERROR`.

    Raises:
        ValidationError: A parameter, a value or an expression is invalid.
    """
    return_values: Returns = body.get("ReturnValues", "NONE")
    try:
        if _WRITE_MEMBERS.isdisjoint(body):
            size, expression, expression_bytes = check_item(item, limits), None, 0
            _check_return_values(return_values, operation)
        else:
            values_bytes = check(body, limits, operation)
            size = check_item(item, limits)
            _check_return_values(return_values, operation)
            expression = write_expression(body, limits)
            expression_bytes = _expression_bytes(expression, values_bytes)
    except ValidationError as error:
        if error.message == ITEM_TOO_LARGE:
            raise
        if is_deeper(body, OLDER_DEPTH):
            _check_as_older(body, limits, operation)
        if operation is None:
            raise
        raise ValidationError(ONE_ERROR + error.message) from None
    show_refused = body.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD"
    return WriteRequest(size, expression, expression_bytes, return_values, show_refused)


def parse_read(
    body: dict[str, Any],
    limits: Limits,
    validate: Callable[[], object],
    operation: str | None = None,
) -> ReadRequest:
    """Validate a read and compile its expressions; `validate` checks its keys in between.

    Raises:
        ValidationError: A parameter, a value, a key or an expression is invalid.
    """
    check(body, limits, operation)
    validate()
    return read(body, limits)


def check(body: dict[str, Any], limits: Limits, operation: str | None = None) -> int:
    """Check which parameters go together, make the expressions' values canonical and return the values' size.

    Raises:
        ValidationError: Two parameters cannot be used together, or a value is invalid.
    """
    # With an expression that can use values and without legacy parameters, no dialects can be mixed.
    if not _LEGACY.isdisjoint(body) or _EXPRESSIONS_WITH_VALUES.isdisjoint(body):
        expressions.check_mixing(body, operation)
    if "ExpressionAttributeValues" not in body:
        return 0
    check_each = check_named_values if operation == "Scan" else check_values
    size = check_each(body["ExpressionAttributeValues"], limits)
    expressions.check_substitution_size(body.get("ExpressionAttributeNames"), size, limits)
    return size


def _check_as_older(body: dict[str, Any], limits: Limits, operation: str | None) -> None:
    """Check the parts of a request that DynamoDB's older parser checks before the depth of its values.

    Raises:
        ValidationError: An expression of an action is invalid, or the ReturnValues of a write of one item.
    """
    if operation is None:
        write_expression(body, limits)
    else:
        _check_return_values(body.get("ReturnValues", "NONE"), operation)


def _check_return_values(return_values: str, operation: str | None) -> None:
    if return_values != "NONE" and return_values != "ALL_OLD" and operation != "UpdateItem":  # faster
        raise ValidationError("ReturnValues can only be ALL_OLD or NONE")


def write_expression(body: dict[str, Any], limits: Limits) -> Expression | None:
    """Compile the condition and the update of a write; return None if it has neither."""
    if not _LEGACY_WRITES.isdisjoint(body):
        return _legacy_expression(body, limits)
    condition, update = body.get("ConditionExpression"), body.get("UpdateExpression")
    names, values = body.get("ExpressionAttributeNames"), body.get("ExpressionAttributeValues")
    expressions.check_names(names, limits)
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


def read(body: dict[str, Any], limits: Limits) -> ReadRequest:
    """Compile the key condition, the filter and the projection of a read.

    Raises:
        ValidationError: An expression or a legacy parameter is invalid.
    """
    names, values = body.get("ExpressionAttributeNames"), body.get("ExpressionAttributeValues")
    expressions.check_names(names, limits)
    plan = expressions.compile(
        filter=body.get("FilterExpression"),
        key_condition=body.get("KeyConditionExpression"),
        projection=body.get("ProjectionExpression"),
        names=names,
        values=values,
        limits=limits,
    )
    if _LEGACY_READS.isdisjoint(body):
        return ReadRequest(plan, values)
    legacy = expressions.compile_legacy(
        conditional_operator=body.get("ConditionalOperator"),
        key_conditions=body.get("KeyConditions"),
        query_filter=body.get("QueryFilter"),
        scan_filter=body.get("ScanFilter"),
        attributes_to_get=body.get("AttributesToGet"),
        limits=limits,
    )
    if _READ_EXPRESSIONS.isdisjoint(body):
        return ReadRequest(legacy.plan, legacy.values)
    # `check` accepts only KeyConditions beside expressions.
    return ReadRequest(
        replace(plan, key_condition=legacy.plan.key_condition), {**(values or {}), **legacy.values}
    )


def check_key_paths(plan: Plan | None, definition: TableDefinition) -> None:
    """Refuse nested paths into a key attribute of the table or of an index, because keys are scalars.

    Raises:
        ValidationError: An expression has such a path.
    """
    if plan is None:
        return
    for part in (plan.condition, plan.filter, plan.update, plan.projection):
        if part is not None and part.nested:
            refuse_key_paths(part, definition.key.names)
            for index in definition.indexes:
                refuse_key_paths(part, index.key.names, "IndexKey")


def _expression_bytes(expression: Expression | None, values_bytes: int) -> int:
    if expression is None:
        return 0
    return len(expression.condition or "") + len(expression.update or "") + values_bytes
