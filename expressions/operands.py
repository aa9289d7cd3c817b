"""What an operand is worth, for an item and the request's values.

A tree becomes closures once, when its plan is made; a request then only calls them. An operand that
has no value (no such attribute, size() of a number) is worth None.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from ..model.values import Item, Value
from .compare import size
from .tree import Call, Operand, Path, Reference

Bound: TypeAlias = Mapping[str, Value]
Reader: TypeAlias = Callable[[Item, Bound], Value | None]


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
