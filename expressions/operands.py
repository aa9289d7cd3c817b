"""Evaluate operands, and compare their values.

A tree is compiled to closures once, with its plan; a request only calls them. An operand without a value (a missing
attribute, size() of a number) evaluates to None.

Values are canonical, so they are equal to DynamoDB iff they are equal in Python. S, N and B have an order. A comparison
by order of other types, or of two types, is false in both directions.
"""

from binascii import a2b_base64
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from ..model.values import Item, Value, compare, type_of, value_size
from .tree import Call, Operand, Path, Reference

Bound: TypeAlias = Mapping[str, Value]
OperandReader: TypeAlias = Callable[[Item, Bound], Value | None]

_ORDERED: Final = frozenset({"S", "N", "B"})
_UNSIZED: Final = frozenset({"N", "BOOL", "NULL"})


def reader(operand: Operand) -> OperandReader:
    """Build the closure for an operand of a condition."""
    if isinstance(operand, Reference):
        return _reference_reader(operand.name)
    if isinstance(operand, Path):
        return path_reader(operand)
    assert isinstance(operand, Call)
    return _size_reader(reader(operand.operands[0]))


def _reference_reader(name: str) -> OperandReader:
    return lambda _item, values: values[name]


def path_reader(path: Path) -> OperandReader:
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
    """Return an element of a map or list; None if it is missing or `value` is of another type."""
    inner: Value | None
    if isinstance(step, str):
        inner = value["M"].get(step) if "M" in value else None
        return inner
    elements = value.get("L")
    inner = elements[step] if elements is not None and step < len(elements) else None
    return inner


def _size_reader(read: OperandReader) -> OperandReader:
    def measure(item: Item, values: Bound) -> Value | None:
        value = read(item, values)
        count = None if value is None else size(value)
        return None if count is None else {"N": str(count)}

    return measure


def ordered(left: Value, right: Value) -> int | None:
    """Compare by DynamoDB's order: negative, zero or positive; None for values without an order."""
    type_name = type_of(left)
    return compare(left, right) if type_name in right and type_name in _ORDERED else None


def begins_with(value: Value, prefix: Value) -> bool:
    """Return whether a string or binary begins with another."""
    if "S" in value and "S" in prefix:
        return bool(value["S"].startswith(prefix["S"]))
    if "B" in value and "B" in prefix:
        # Base64 text of equal length holds at least as many bytes: only the compared part of a value is decoded.
        return a2b_base64(value["B"][: len(prefix["B"])]).startswith(a2b_base64(prefix["B"]))
    return False


def size(value: Value) -> int | None:
    """Return the result of size(): a string's length, a binary's bytes, a collection's elements; None for other types.

    DynamoDB counts a string in UTF-16 code units, so a character outside the basic plane counts twice.
    """
    ((type_name, content),) = value.items()
    if type_name == "S" and not content.isascii():
        return len(content.encode("utf-16-le")) >> 1
    if type_name in _UNSIZED:
        return None
    return value_size(value) if type_name == "B" else len(content)
