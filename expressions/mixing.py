"""Expressions and the legacy parameters do not mix, and placeholders need an expression."""

from collections.abc import Mapping
from typing import Any, Final

from ..model.errors import ValidationError

# In the orders in which DynamoDB lists them.
_EXPRESSIONS: Final = (
    "UpdateExpression",
    "ConditionExpression",
    "ProjectionExpression",
    "FilterExpression",
    "KeyConditionExpression",
)
_LEGACY: Final = (
    "AttributesToGet",
    "ScanFilter",
    "QueryFilter",
    "AttributeUpdates",
    "Expected",
    "ConditionalOperator",
    "KeyConditions",
)
# The expressions of an operation that can hold values.
_WITH_VALUES: Final = {
    "PutItem": ("ConditionExpression",),
    "DeleteItem": ("ConditionExpression",),
    "UpdateItem": ("UpdateExpression", "ConditionExpression"),
    "Query": ("FilterExpression", "KeyConditionExpression"),
    "Scan": ("FilterExpression",),
}


def check_mixing(body: Mapping[str, Any], operation: str | None = None) -> None:
    """Refuse a request that mixes both dialects, or that has placeholders and nothing to use them in.

    Args:
        body: The request; of a BatchGetItem, the part for one table.
        operation: Its name; without it, values that no expression could use pass.
    """
    expressions = [name for name in _EXPRESSIONS if body.get(name) is not None]
    if expressions:
        legacy = [name for name in _LEGACY if body.get(name) is not None]
        if "KeyConditions" in legacy and "KeyConditionExpression" not in expressions:
            legacy.remove("KeyConditions")
        if legacy:
            raise ValidationError(
                "Can not use both expression and non-expression parameters in the same request: "
                f"Non-expression parameters: {{{', '.join(legacy)}}} "
                f"Expression parameters: {{{', '.join(expressions)}}}"
            )
    elif body.get("ExpressionAttributeNames") is not None:
        raise ValidationError("ExpressionAttributeNames can only be specified when using expressions")
    takers = _WITH_VALUES.get(operation or "", ())
    if (
        takers
        and body.get("ExpressionAttributeValues") is not None
        and not any(name in expressions for name in takers)
    ):
        verb = "are" if len(takers) > 1 else "is"
        raise ValidationError(
            "ExpressionAttributeValues can only be specified when using expressions: "
            f"{' and '.join(takers)} {verb} null"
        )
