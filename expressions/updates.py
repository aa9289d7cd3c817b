"""Apply updates to items.

Every action reads the item before the update: `SET a = b, b = a` swaps, and a list index refers to the old list, even
if the update removes other elements. The result is a new item that shares its unchanged parts with the old one.

A legacy update (AttributeUpdates) has the same actions. It also adds to lists, and has another text for a type error.
"""

from binascii import a2b_base64
from bisect import insort
from collections.abc import Callable
from dataclasses import field
from typing import Any, Final, TypeAlias, final

from ..model import numbers
from ..model.errors import ValidationError
from ..model.lazy_dataclass import dataclass
from ..model.limits import Limits
from ..model.values import UPDATE_TOO_LARGE, Item, Value, depth_of, names_size, value_size
from .operands import Bound, OperandReader, path_reader
from .projections import CompiledProjection, Steps
from .tree import (
    AddAction,
    Arithmetic,
    Call,
    DeleteAction,
    Operand,
    Path,
    Reference,
    RemoveAction,
    SetAction,
    UpdateAction,
)

_MISSING: Final = "The provided expression refers to an attribute that does not exist in the item"
_WRONG_TYPE: Final = "An operand in the update expression has an incorrect data type"
_WRONG_TYPE_LEGACY: Final = "Type mismatch for attribute to update"
_WRONG_PATH: Final = "The document path provided in the update expression is invalid for update"
_TOO_DEEP: Final = (
    "Nesting Levels have exceeded supported limits: "
    "Attributes in the item have nested levels beyond supported limit"
)

# Computes the new value of a target from the item, the request's values and the old value; None removes the target.
AttributeWriter: TypeAlias = Callable[[Item, Bound, Value | None], Value | None]
Getter: TypeAlias = Callable[[Item, Bound], Value]

_NO_ITEM: Final[Item] = {}
# With more than one new element for this many existing ones, sorting is faster than insertion.
_FEW: Final = 64


@final
class Updated:
    """An item after an update, and the target paths of the update."""

    __slots__ = ("item", "touched")

    def __init__(self, item: Item, touched: CompiledProjection) -> None:
        self.item = item
        self.touched = touched


@dataclass(frozen=True, slots=True)
class CompiledUpdate:
    """A compiled update.

    Attributes:
        targets: The target paths. Its `attributes` must not be part of the key.
        attributes: Every top-level attribute that is read or written.
        nested: The attributes with nested paths.
    """

    actions: tuple[UpdateAction, ...]
    targets: CompiledProjection
    attributes: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()
    legacy: bool = False
    _writers: tuple[AttributeWriter, ...] = field(init=False, compare=False, repr=False)
    _flat: tuple[tuple[str, AttributeWriter], ...] | None = field(init=False, compare=False, repr=False)

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
        """Whether the update only removes, and therefore creates no item."""
        return bool(self.actions) and all(
            isinstance(action, RemoveAction | DeleteAction) for action in self.actions
        )

    @property
    def computed(self) -> frozenset[str]:
        """The attributes that are set to another value than one of the request."""
        return frozenset(
            action.path.attribute
            for action in self.actions
            if isinstance(action, SetAction) and not isinstance(action.value, Reference)
        )

    def apply(self, item: Item | None, values: Bound, limits: Limits, new_item: Item = _NO_ITEM) -> Updated:
        """Return the item after the update. If `item` is None, the update starts from `new_item` (the key).

        The caller checks the size of the result. An update whose values alone exceed the maximum item size is refused
        before they take up memory.

        Raises:
            ValidationError: The update cannot be applied to the item.
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
        """Return the growth of an item by the update in bytes, computed from the target attributes only.

        For an item above the maximum size the result may be too small, but still shows that the item is too large.
        """
        grown = new_bytes = 0
        for name in self.targets.attributes:
            old, new = before.get(name), after.get(name)
            if old == new:
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

    def select(self, item: Item, touched: CompiledProjection) -> Item:
        """Return the attributes of UPDATED_OLD (for the old item) or UPDATED_NEW (for the new item)."""
        return touched.apply(item)


class _Rebuild:
    """Computes a new item, copying only the maps and lists that contain targets."""

    __slots__ = ("before", "limits", "room", "values", "writers")

    def __init__(
        self, writers: tuple[AttributeWriter, ...], before: Item, values: Bound, limits: Limits
    ) -> None:
        self.writers = writers
        self.before = before
        self.values = values
        self.limits = limits
        self.room = limits.item_bytes

    def item(self, targets: CompiledProjection, existing: Item | None) -> Item:
        steps = targets.steps
        if existing is None:
            # DynamoDB accepts REMOVE a.b without an item, but not for an item without a.
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
        # An index past the end appends, in the order of the indexes.
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
    """Return the number of elements of a list or a set, a lower bound of its size: an update could make billions."""
    for content in value.values():
        if type(content) is list:
            return len(content)
    return 0


def _remove(_item: Item, _values: Bound, _old: Value | None) -> None:
    return None


def _writer(action: UpdateAction, *, legacy: bool) -> AttributeWriter:
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
    existing = old[type_name]
    if type_name == "N":
        return {"N": numbers.add(existing, content)}
    if type_name == "L":
        return {"L": [*existing, *content]}
    return {type_name: _union(existing, content, _SET_ORDER[type_name])}


def _union(existing: list[str], content: list[str], order: Callable[[str], Any]) -> list[str]:
    """Return a canonical set with added elements. A few elements are inserted, to save the sort of all others."""
    known = frozenset(existing)
    new = [element for element in content if element not in known]
    if len(new) * _FEW > len(existing):
        return sorted([*existing, *new], key=order)
    united = list(existing)
    for element in new:
        insort(united, element, key=order)
    return united


def _delete(old: Value | None, value: Value, mismatch: str) -> Value | None:
    if old is None:
        return None
    ((type_name, content),) = value.items()
    if type_name not in old:
        raise ValidationError(mismatch)
    removed = dict.fromkeys(content)
    kept = [element for element in old[type_name] if element not in removed]
    return {type_name: kept} if kept else None


# The sort key of canonical sets. Code points have the order of UTF-8 bytes.
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
    raise AssertionError("the parser creates no other operand")


def _present(read: OperandReader) -> Getter:
    def get(item: Item, values: Bound) -> Value:
        value = read(item, values)
        if value is None:
            raise ValidationError(_MISSING)
        return value

    return get


def _if_not_exists(read: OperandReader, fallback: Getter) -> Getter:
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
