"""What an update makes of an item.

Every action reads the item as it was before: `SET a = b, b = a` swaps, and a list index means the
element that stood there, whatever else the update removes. The result is a new item that shares
with the old one all that did not change.

A legacy update (AttributeUpdates) has the same actions; it also adds to lists, and words its type error
differently.
"""

from binascii import a2b_base64
from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from ..model import numbers
from ..model.errors import ValidationError
from ..model.limits import Limits
from ..model.values import UPDATE_TOO_LARGE, Item, Value, depth_of, names_size, value_size
from .operands import Bound, Reader, path_reader
from .projections import Projection, Steps
from .tree import (
    Action,
    AddAction,
    Arithmetic,
    Call,
    DeleteAction,
    Operand,
    Path,
    Reference,
    RemoveAction,
    SetAction,
)

_MISSING = "The provided expression refers to an attribute that does not exist in the item"
_WRONG_TYPE = "An operand in the update expression has an incorrect data type"
_WRONG_TYPE_LEGACY = "Type mismatch for attribute to update"
_WRONG_PATH = "The document path provided in the update expression is invalid for update"
_TOO_DEEP = (
    "Nesting Levels have exceeded supported limits: "
    "Attributes in the item have nested levels beyond supported limit"
)

# From the item, the request's values and what stands at the target to what shall stand there; None removes.
Writer: TypeAlias = Callable[[Item, Bound, Value | None], Value | None]
Getter: TypeAlias = Callable[[Item, Bound], Value]

_NO_ITEM: Final[Item] = {}
# More than one new element in so many that are there, and sorting all is faster than inserting them.
_FEW: Final = 64


class Updated(NamedTuple):
    """An item after an update, and the paths that the update wrote to."""

    item: Item
    touched: Projection


@dataclass(frozen=True, slots=True)
class Update:
    """An update, ready for any item.

    Attributes:
        targets: The paths written to. Its `attributes` are those that must not be part of the key.
        attributes: Every top-level attribute named, read or written.
        nested: Those of them that a path goes into.
    """

    actions: tuple[Action, ...]
    targets: Projection
    attributes: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()
    legacy: bool = False
    _writers: tuple[Writer, ...] = field(init=False, compare=False, repr=False)
    _flat: tuple[tuple[str, Writer], ...] | None = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        writers = tuple(_writer(action, legacy=self.legacy) for action in self.actions)
        flat = None
        if not self.targets.nested:
            flat = tuple(
                (action.path.attribute, writer) for action, writer in zip(self.actions, writers, strict=True)
            )
        object.__setattr__(self, "_writers", writers)
        object.__setattr__(self, "_flat", flat)

    @property
    def only_removes(self) -> bool:
        """Whether it has nothing to give to an item that is not there, and so makes none."""
        return bool(self.actions) and all(
            isinstance(action, RemoveAction | DeleteAction) for action in self.actions
        )

    def apply(self, item: Item | None, values: Bound, limits: Limits, new_item: Item = _NO_ITEM) -> Updated:
        """Return the item after the update, which starts from `new_item` (its key) where `item` is None.

        The size of the result is for the caller to check. An update whose parts alone are larger than an item may be
        is refused before they take up memory.

        Raises:
            ValidationError: The item does not fit the update; nothing was changed.
        """
        before = new_item if item is None else item
        if self._flat is None:
            return Updated(
                _Rebuild(self._writers, before, values, limits).item(self.targets, item), self.targets
            )
        after = dict(before)
        room = limits.item_bytes
        for name, write in self._flat:
            value = write(before, values, before.get(name))
            if value is not None:
                after[name] = value
                room -= _breadth(value)
                if room < 0:
                    raise ValidationError(UPDATE_TOO_LARGE)
            elif name in after:
                del after[name]
        return Updated(after, self.targets)

    def growth(self, before: Item, after: Item, limits: Limits) -> int:
        """Return by how many bytes the update made an item larger: only what it wrote to is counted.

        Of an item that is too large it may return less than the truth, but enough to see that.
        """
        grown = new_bytes = 0
        for name in self.targets.attributes:
            old, new = before.get(name), after.get(name)
            if old is new:
                continue
            if old is None or new is None:
                grown += names_size((name,)) if old is None else -names_size((name,))
            if old is not None:
                grown -= value_size(old, limits)
            if new is not None:
                size = value_size(new, limits)
                grown += size
                new_bytes += size
                if new_bytes > limits.item_bytes:
                    break
        return grown

    def select(self, item: Item, touched: Projection) -> Item:
        """Return what UPDATED_OLD (of the item before) or UPDATED_NEW (of the item after) shows."""
        return touched.apply(item)


class _Rebuild:
    """Copies the maps and lists on the way to each target, and nothing else."""

    __slots__ = ("before", "limits", "room", "values", "writers")

    def __init__(self, writers: tuple[Writer, ...], before: Item, values: Bound, limits: Limits) -> None:
        self.writers = writers
        self.before = before
        self.values = values
        self.limits = limits
        self.room = limits.item_bytes

    def item(self, targets: Projection, existing: Item | None) -> Item:
        steps = targets.steps
        if existing is None:
            # DynamoDB lets REMOVE a.b pass where there is no item, though not where there is no a.
            steps = {part: inner for part, inner in steps.items() if not self._only_removes(inner)}
        return self._members(self.before, steps, 1)

    def _only_removes(self, inner: Any) -> bool:
        if isinstance(inner, int):
            return self.writers[inner] is _remove
        return all(self._only_removes(deeper) for deeper in inner.values())

    def _members(self, members: Item, steps: Steps, depth: int) -> Item:
        after = dict(members)
        for part, inner in steps.items():
            name = str(part)
            value = self._element(members.get(name), inner, depth)
            if value is not None:
                after[name] = value
            elif name in after:
                del after[name]
        return after

    def _elements(self, elements: list[Value], steps: Steps, depth: int) -> list[Value]:
        after: list[Value | None] = list(elements)
        # Beyond the end there is only appending, in the order of the indexes.
        for index in sorted(index for index in steps if isinstance(index, int)):
            old = elements[index] if index < len(elements) else None
            value = self._element(old, steps[index], depth)
            if old is not None:
                after[index] = value
            elif value is not None:
                after.append(value)
        return [element for element in after if element is not None]

    def _element(self, old: Value | None, inner: Any, depth: int) -> Value | None:
        if isinstance(inner, int):
            value = self.writers[inner](self.before, self.values, old)
            if value is not None:
                self._check(value, depth)
            return value
        into_map = isinstance(next(iter(inner)), str)
        if old is None or ("M" if into_map else "L") not in old:
            raise ValidationError(_WRONG_PATH)
        if into_map:
            return {"M": self._members(old["M"], inner, depth + 1)}
        return {"L": self._elements(old["L"], inner, depth + 1)}

    def _check(self, value: Value, depth: int) -> None:
        self.room -= value_size(value, self.limits)
        if self.room < 0:
            raise ValidationError(UPDATE_TOO_LARGE)
        if depth + depth_of(value) - 1 > self.limits.depth:
            raise ValidationError(_TOO_DEEP)


def _breadth(value: Value) -> int:
    """The elements of a list or a set. No item has more of them than bytes, and an update could make billions."""
    (content,) = value.values()
    return len(content) if type(content) is list else 0


def _remove(_item: Item, _values: Bound, _old: Value | None) -> None:
    return None


def _writer(action: Action, *, legacy: bool) -> Writer:
    match action:
        case SetAction(_, value):
            get = _getter(value)
            return lambda item, values, _old: get(item, values)
        case RemoveAction():
            return _remove
        case AddAction(_, Reference(name)):
            mismatch = _WRONG_TYPE_LEGACY if legacy else _WRONG_TYPE
            return lambda _item, values, old: _add(old, values[name], mismatch)
        case DeleteAction(_, Reference(name)):
            mismatch = _WRONG_TYPE_LEGACY if legacy else _WRONG_TYPE
            return lambda _item, values, old: _delete(old, values[name], mismatch)


def _add(old: Value | None, value: Value, mismatch: str) -> Value:
    if old is None:
        return value
    ((type_name, content),) = value.items()
    if type_name not in old:
        raise ValidationError(mismatch)
    there = old[type_name]
    if type_name == "N":
        return {"N": numbers.add(there, content)}
    if type_name == "L":
        return {"L": [*there, *content]}
    return {type_name: _united(there, content, _SET_ORDER[type_name])}


def _united(there: list[str], content: list[str], order: Callable[[str], Any]) -> list[str]:
    """A canonical set with more elements in it; each of a few finds its place, so that only they are compared."""
    known = frozenset(there)
    new = [element for element in content if element not in known]
    if len(new) * _FEW > len(there):
        return sorted([*there, *new], key=order)
    united = list(there)
    for element in new:
        insort(united, element, key=order)
    return united


def _delete(old: Value | None, value: Value, mismatch: str) -> Value | None:
    if old is None:
        return None
    ((type_name, content),) = value.items()
    if type_name not in old:
        raise ValidationError(mismatch)
    gone = dict.fromkeys(content)
    kept = [element for element in old[type_name] if element not in gone]
    return {type_name: kept} if kept else None


# The order of canonical sets. Code points order strings as their UTF-8 bytes do.
_SET_ORDER: Final[dict[str, Callable[[str], Any]]] = {"SS": str, "NS": numbers.encode, "BS": a2b_base64}


def _getter(operand: Operand) -> Getter:
    match operand:
        case Reference(name):
            return lambda _item, values: values[name]
        case Path():
            return _present(path_reader(operand))
        case Arithmetic():
            return _arithmetic(operand)
        case Call("if_not_exists", (Path() as path, fallback)):
            return _if_not_exists(path_reader(path), _getter(fallback))
        case Call(_, (first, second)):
            return _list_append(_getter(first), _getter(second))
    raise AssertionError("the parser admits no other operand")


def _present(read: Reader) -> Getter:
    def get(item: Item, values: Bound) -> Value:
        value = read(item, values)
        if value is None:
            raise ValidationError(_MISSING)
        return value

    return get


def _if_not_exists(read: Reader, fallback: Getter) -> Getter:
    def get(item: Item, values: Bound) -> Value:
        value = read(item, values)
        return fallback(item, values) if value is None else value

    return get


def _list_append(first: Getter, second: Getter) -> Getter:
    def get(item: Item, values: Bound) -> Value:
        head, tail = first(item, values), second(item, values)
        if "L" not in head or "L" not in tail:
            raise ValidationError(_WRONG_TYPE)
        return {"L": [*head["L"], *tail["L"]]}

    return get


def _arithmetic(operand: Arithmetic) -> Getter:
    left, right = _getter(operand.left), _getter(operand.right)
    calculate = numbers.add if operand.operator == "+" else numbers.subtract

    def get(item: Item, values: Bound) -> Value:
        a, b = left(item, values), right(item, values)
        if "N" not in a or "N" not in b:
            raise ValidationError(_WRONG_TYPE)
        return {"N": calculate(a["N"], b["N"])}

    return get
