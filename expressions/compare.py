"""DynamoDB's relations between two values, where they may be of any types.

Values are canonical, so equal means equal as Python sees it. Order exists within S, N and B only; anywhere
else a comparison does not hold, whichever way round it is asked. See `model.values` for the rest.
"""

from binascii import a2b_base64
from typing import Final

from ..model.values import Value, compare

_ORDERED: Final = frozenset({"S", "N", "B"})
_UNSIZED: Final = frozenset({"N", "BOOL", "NULL"})


def ordered(left: Value, right: Value) -> int | None:
    """Compare by DynamoDB's order: negative, zero or positive; None where there is no order."""
    type_name = next(iter(left))
    return compare(left, right) if type_name in right and type_name in _ORDERED else None


def begins_with(value: Value, prefix: Value) -> bool:
    """Whether a string or binary begins with another."""
    if "S" in value and "S" in prefix:
        return bool(value["S"].startswith(prefix["S"]))
    if "B" in value and "B" in prefix:
        return a2b_base64(value["B"]).startswith(a2b_base64(prefix["B"]))
    return False


def size(value: Value) -> int | None:
    """What size() gives: characters of a string, bytes of a binary, elements; None for the other types."""
    ((type_name, content),) = value.items()
    if type_name in _UNSIZED:
        return None
    return len(a2b_base64(content)) if type_name == "B" else len(content)
