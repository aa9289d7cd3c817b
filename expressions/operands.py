"""What an operand is worth, for an item and the request's values.

A tree becomes closures once, when its plan is made; a request then only calls them. An operand that
has no value (no such attribute, size() of a number) is worth None.

The relations between two values follow. Values are canonical, so equal means equal as Python sees it. Order
exists within S, N and B only; anywhere else a comparison does not hold, whichever way round it is asked.
"""

from binascii import a2b_base64
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from ..model.values import Item, Value, compare, value_size
from .tree import Call, Operand, Path, Reference

Bound: TypeAlias = Mapping[str, Value]
Reader: TypeAlias = Callable[[Item, Bound], Value | None]

_ORDERED: Final = frozenset({"S", "N", "B"})
_UNSIZED: Final = frozenset({"N", "BOOL", "NULL"})


def reader(operand: Operand) -> Reader:
    """Build the closure for an operand of a condition."""
    if isinstance(operand, Reference):
        return _reference_reader(operand.name)
    if isinstance(operand, Path):
        return path_reader(operand)
    assert isinstance(operand, Call)
    return _size_reader(reader(operand.operands[0]))


def _reference_reader(name: str) -> Reader:
    return lambda _item, values: values[name]


def path_reader(path: Path) -> Reader:
    """Build the closure that follows a document path."""
    attribute, *steps = path.parts
    name = str(attribute)
    if not steps:
        return lambda item, _values: item.get(name)

    def read(item: Item, _values: Bound) -> Value | None:
        value = item.get(name)
        for step in steps:
            if value is None:
                return None
            value = step_into(value, step)
        return value

    return read


def step_into(value: Value, step: str | int) -> Value | None:
    """Go from a map or list to an element; None if there is none, or `value` is neither."""
    inner: Value | None
    if isinstance(step, str):
        inner = value["M"].get(step) if "M" in value else None
        return inner
    elements = value.get("L")
    inner = elements[step] if elements is not None and step < len(elements) else None
    return inner


def _size_reader(read: Reader) -> Reader:
    def measure(item: Item, values: Bound) -> Value | None:
        value = read(item, values)
        count = None if value is None else size(value)
        return None if count is None else {"N": str(count)}

    return measure


def ordered(left: Value, right: Value) -> int | None:
    """Compare by DynamoDB's order: negative, zero or positive; None where there is no order."""
    type_name = next(iter(left))
    return compare(left, right) if type_name in right and type_name in _ORDERED else None


def begins_with(value: Value, prefix: Value) -> bool:
    """Whether a string or binary begins with another."""
    if "S" in value and "S" in prefix:
        return bool(value["S"].startswith(prefix["S"]))
    if "B" in value and "B" in prefix:
        # As many characters hold at least as many bytes: no more of a large value is decoded than is looked at.
        return a2b_base64(value["B"][: len(prefix["B"])]).startswith(a2b_base64(prefix["B"]))
    return False


def size(value: Value) -> int | None:
    """What size() gives: a string's length, bytes of a binary, elements; None for the other types.

    DynamoDB counts a string in UTF-16 code units, so a character beyond the basic plane is two.
    """
    ((type_name, content),) = value.items()
    if type_name == "S" and not content.isascii():
        return len(content.encode("utf-16-le")) >> 1
    if type_name in _UNSIZED:
        return None
    return value_size(value) if type_name == "B" else len(content)
