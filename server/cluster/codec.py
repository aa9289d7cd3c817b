"""Dataclasses and named tuples as lists that msgpack packs, and back.

    class ──► type hints ──► one converter per member, compiled once ──► [member, member, ...]

Members are sent in the order of the fields. A release may add a field with a default at the end: a reader ignores
members that it does not know, and fills in missing ones from the defaults. The sender names no type and no code is
executed: the reader knows from the method (wire.py) which class it decodes.
"""

import ast
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Any,
    Final,
    Generic,
    NamedTuple,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from ...model.lazy_dataclass import is_compiled

PlainValue: TypeAlias = Any
"""None, bool, int, str, bytes, and lists and dicts of them."""

T = TypeVar("T")


class Converter(NamedTuple):
    """How a member is encoded and decoded; None where it is sent or read as it is. A member that is None stays None."""

    encode: Callable[[Any], PlainValue] | None
    decode: Callable[[PlainValue], Any] | None


AS_IS: Final = Converter(None, None)

DECIMAL: Final = Converter(str, int)
"""Of a sequence number: it has more digits than an integer of msgpack."""

_PLAIN: Final = (bool, int, str, bytes, dict, Any)


class WireMessage(Generic[T]):
    """The codec of one class.

    Its two functions are compiled from source, as those of a dataclass are: a loop over converters took twice as long
    for a page of changes.

    Attributes:
        names: The fields that are sent, in order.
        encode: Returns the members of an object as a list.
        decode: Returns the object of a list of members. The last members may be missing, and unknown ones may follow.
    """

    def __init__(self, kind: type[T], *, omit: Collection[str] = (), **members: Converter) -> None:
        """Compile the codec. `members` overrides the converters that follow from the type hints."""
        hints = _hints(kind)
        self.kind = kind
        self.names = tuple(name for name in _names(kind) if name not in omit)
        self._converters = [members.get(name) or converter_of(hints[name]) for name in self.names]
        optional = [NoneType in get_args(hints[name]) for name in self.names]
        self.encode, self.decode = _compiled(self, self._converters, optional)

    def decode_some(self, data: PlainValue) -> T:
        """Return the object of a list with fewer or more members than this release has."""
        found = {
            name: member if member is None or each.decode is None else each.decode(member)
            for name, member, each in zip(self.names, data, self._converters, strict=False)
        }
        return self.kind(**found)

    @property
    def converter(self) -> Converter:
        return Converter(self.encode, self.decode)


class Tagged:
    """The codec of a union of classes: the index of the class comes first. Add classes at the end only."""

    def __init__(self, *messages: WireMessage[Any]) -> None:
        self._messages = messages
        self._tags = {message.kind: (tag, message.encode) for tag, message in enumerate(messages)}

    def encode(self, value: Any) -> list[PlainValue]:
        """Return the tag and the members."""
        tag, encode = self._tags[type(value)]
        return [tag, *encode(value)]

    def decode(self, data: PlainValue) -> Any:
        tag, *members = data
        return self._messages[tag].decode(members)


def converter_of(hint: Any) -> Converter:
    """Return the converter of a type.

    Raises:
        TypeError: The type has no converter. Register one.
    """
    known = _CONVERTERS.get(hint)
    if known is not None:
        return known
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in _PLAIN or origin in _PLAIN:
        return AS_IS
    if origin in (Union, UnionType):
        inner = {converter_of(each) for each in arguments if each is not NoneType}
        if len(inner) == 1:
            return inner.pop()
    elif origin in (list, Sequence):
        return _list_of(converter_of(arguments[0]))
    elif origin is tuple and all(converter_of(each) is AS_IS for each in arguments):
        return Converter(None, _tuple_of(len(arguments)))
    elif is_dataclass(hint) or hasattr(hint, "_fields"):
        return WireMessage(hint).converter
    raise TypeError(f"no converter for {hint}")


def register(kind: type, converter: Converter) -> None:
    """Use a converter for all members of a class."""
    _CONVERTERS[kind] = converter


_CONVERTERS: Final[dict[Any, Converter]] = {}


def _compiled(
    message: WireMessage[T], converters: Sequence[Converter], optional: Sequence[bool]
) -> tuple[Callable[[T], list[PlainValue]], Callable[[PlainValue], T]]:
    """Return the functions `encode` and `decode` of a message."""
    scope: dict[str, Any] = {"kind": message.kind, "decode_some": message.decode_some}
    names = message.names
    is_positional = names == _names(message.kind)[: len(names)]  # keywords take twice as long
    encoded, decoded = [], []
    for nth, (name, converter, may_be_none) in enumerate(zip(names, converters, optional, strict=True)):
        scope[f"encode{nth}"], scope[f"decode{nth}"] = converter
        keyword = "" if is_positional else f"{name}="
        encoded.append(_call(converter.encode, f"encode{nth}", f"value.{name}", may_be_none))
        decoded.append(keyword + _call(converter.decode, f"decode{nth}", name, may_be_none))
    source = f"""
def encode(value):
    return [{", ".join(encoded)}]

def decode(data):
    if len(data) != {len(names)}:
        return decode_some(data)
    {", ".join(names)}, = data
    return kind({", ".join(decoded)})
"""
    exec(source, scope)  # noqa: S102  # the source has names of our own fields alone
    return scope["encode"], scope["decode"]


def _call(function: Callable[..., Any] | None, name: str, argument: str, may_be_none: bool) -> str:
    if function is None:
        return argument
    return f"None if {argument} is None else {name}({argument})" if may_be_none else f"{name}({argument})"


def _hints(kind: type) -> dict[str, Any]:
    """Return the type hints of a class. A compiled one keeps none: they are read from the source beside its module."""
    if not is_compiled(kind):
        return get_type_hints(kind)
    annotations = {
        each.target.id: ast.unparse(each.annotation)
        for each in _classes(kind.__module__)[kind.__name__].body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }
    return get_type_hints(
        type(kind.__name__, (), {"__annotations__": annotations, "__module__": kind.__module__})
    )


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    """Return the classes in the source of a compiled module, by name."""
    built = Path(str(sys.modules[module].__file__))
    tree = ast.parse(built.with_name(f"{built.name.partition('.')[0]}.py").read_bytes())
    return {each.name: each for each in tree.body if isinstance(each, ast.ClassDef)}


def _names(kind: type) -> tuple[str, ...]:
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind))
    names: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]  # of a named tuple
    return names


def _list_of(inner: Converter) -> Converter:
    encode, decode = inner
    return Converter(
        None if encode is None else lambda values: [encode(each) for each in values],
        None if decode is None else lambda values: [decode(each) for each in values],
    )


def _tuple_of(count: int) -> Callable[[PlainValue], Any]:
    def decode(data: PlainValue) -> Any:
        if len(data) != count:
            raise ValueError(f"{len(data)} members for a tuple of {count}")
        return tuple(data)

    return decode
