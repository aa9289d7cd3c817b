"""Check a request's parameters against each other, before an expression is parsed.

Expressions and the legacy parameters cannot be used together, except KeyConditions with a FilterExpression or a
ProjectionExpression. Placeholders need an expression that uses them, and must have their form.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from ..model.errors import ValidationError
from ..model.limits import MODERN, Limits
from ..model.values import NAME_TOO_LONG
from .parser import Names

# In the order of DynamoDB's error texts.
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

_NAME: Final = re.compile(r"#[0-9A-Za-z_]+")
_REFERENCE: Final = re.compile(r":[0-9A-Za-z_]+")


def check_mixing(body: Mapping[str, Any], operation: str | None = None) -> None:
    """Refuse a request that mixes both dialects, or that has placeholders without an expression.

    DynamoDB accepts KeyConditions with every expression of a Query but KeyConditionExpression.

    Args:
        body: The request; of a BatchGetItem, the part for one table.
        operation: The operation's name; without it, values without an expression are accepted.

    Raises:
        ValidationError: Two parameters cannot be used together.
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
    with_values = _WITH_VALUES.get(operation or "", ())
    if (
        with_values
        and body.get("ExpressionAttributeValues") is not None
        and not any(name in expressions for name in with_values)
    ):
        text = "ExpressionAttributeValues can only be specified when using expressions"
        if operation in ("Query", "Scan"):
            verb = "are" if len(with_values) > 1 else "is"
            text += f": {' and '.join(with_values)} {verb} null"
        raise ValidationError(text)


def check_names(names: Mapping[str, str] | None, limits: Limits) -> None:
    """Refuse attribute names of a request that are too long, if no placeholder is invalid.

    Not a part of `check_substitutions`, which the fold calls too: an older log may have such names in a condition.

    Raises:
        ValidationError: A name has too many bytes, or a placeholder is invalid.
    """
    longest = limits.attribute_name_bytes
    # No character has more than four bytes, and most names are short.
    if names and any(len(name) * 4 > longest and len(name.encode()) > longest for name in names.values()):
        _check("ExpressionAttributeNames", names, _NAME, limits)
        raise ValidationError(NAME_TOO_LONG)


def check_substitutions(names: Any, values: Any, limits: Limits = MODERN) -> None:
    """Refuse empty maps and invalid placeholders. `model.values.check_values` checks the values."""
    _check("ExpressionAttributeNames", names, _NAME, limits)
    _check("ExpressionAttributeValues", values, _REFERENCE, limits)


def check_substitution_size(names: Names, values_size: int, limits: Limits = MODERN) -> None:
    """Refuse names and values that are too large together. `values_size` is the result of `check_values`."""
    size = values_size + sum(len(key) + len(name.encode()) for key, name in (names or {}).items())
    if size > limits.substitution_bytes:
        raise ValidationError(
            "Combined size of ExpressionAttributeNames and ExpressionAttributeValues exceeds max size"
        )


def _check(parameter: str, placeholders: Any, pattern: re.Pattern[str], limits: Limits) -> None:
    if placeholders is None:
        return
    if not placeholders:
        raise ValidationError(f"{parameter} must not be empty")
    for key in placeholders:
        if len(key) > limits.name_placeholder_bytes:
            raise ValidationError(
                f"{parameter} contains invalid key: The expression attribute map contains a key that is too long;"
            )
        if pattern.fullmatch(key) is None:
            raise ValidationError(f'{parameter} contains invalid key: Syntax error; key: "{key}"')
