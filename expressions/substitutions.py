"""ExpressionAttributeNames and ExpressionAttributeValues as maps: what their keys may be."""

import re
from typing import Any, Final

from ..model.errors import ValidationError
from ..model.limits import MODERN, Limits
from .parser import Names

_NAME: Final = re.compile(r"#[0-9A-Za-z_]+")
_REFERENCE: Final = re.compile(r":[0-9A-Za-z_]+")


def check_substitutions(names: Any, values: Any, limits: Limits = MODERN) -> None:
    """Refuse empty maps and keys that are no placeholders. The values are for `model.values.check_values`."""
    _check("ExpressionAttributeNames", names, _NAME, limits)
    _check("ExpressionAttributeValues", values, _REFERENCE, limits)


def check_substitution_size(names: Names, values_size: int, limits: Limits = MODERN) -> None:
    """Refuse names and values that are too large together; `values_size` is what `check_values` returned."""
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
