"""Cache comparisons, so that a condition of many terms reads each large value once instead of once for each term.

A few kilobytes of text can compare a list of 400,000 elements a thousand times with an equally large value. Conditions
with many terms are therefore evaluated with a cache of:

    equality of lists, maps and sets    a hash of each value's canonical bytes
    contains on a list or a set         its members, from the second lookup
    order of binaries                   their bytes

Entries for the request's values stay valid for the next item, so that a page of a Scan reads them once.
"""

from binascii import a2b_base64
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final, TypeAlias

import orjson

from ..model import values as model
from ..model.values import Value
from .tree import Operand, Reference

# A hashable representation of a value: equal for equal values.
_Hashable: TypeAlias = tuple[str, Any]

_FEW: Final = 16  # elements of a collection that is searched faster than cached
_COLLECTIONS: Final = frozenset({"L", "M", "SS", "NS", "BS"})


class _Entries:
    """Cached properties of values, by their operands."""

    __slots__ = ("bytes", "hashes", "members")

    def __init__(self) -> None:
        self.hashes: dict[Operand, bytes] = {}
        self.members: dict[Operand, frozenset[_Hashable] | None] = {}
        self.bytes: dict[Operand, bytes] = {}


class ComparisonCache(dict[str, Value]):
    """The request's values, with a cache of comparisons.

    Each relation takes two values and their operands.
    """

    __slots__ = ("_of_item", "_of_request")

    def __init__(self, values: Mapping[str, Value]) -> None:
        super().__init__(values)
        self._of_request = _Entries()
        self._of_item = _Entries()

    def forget_item(self) -> None:
        """Drop the entries of the last item."""
        self._of_item = _Entries()

    def equal(self, a: Value, b: Value, left: Operand, right: Operand) -> bool:
        tag, content = next(iter(a.items()))
        if tag not in b:
            return False
        if tag not in _COLLECTIONS:
            return bool(content == b[tag])
        return len(content) == len(b[tag]) and self._hash(a, left) == self._hash(b, right)

    def compare(self, a: Value, b: Value, left: Operand, right: Operand) -> int:
        """Compare two binaries, like `compare` of the model."""
        first, second = self._binary(a, left), self._binary(b, right)
        return (first > second) - (first < second)

    def contains(self, container: Value, wanted: Value, left: Operand, right: Operand) -> bool:
        """Return whether a value contains another, like `contains` of the model."""
        tag, content = next(iter(container.items()))
        type_name = next(iter(wanted))
        if tag == "B" and type_name == "B":
            return self._binary(wanted, right) in self._binary(container, left)
        if (tag != "L" and tag != type_name + "S") or len(content) <= _FEW:
            return model.contains(container, wanted)
        cached = self._entries(left).members
        if left not in cached:
            cached[left] = None  # the first lookup only searches
            return model.contains(container, wanted)
        members = cached[left]
        if members is None:
            members = cached[left] = frozenset(_members(tag, content))
        key = (
            (type_name, wanted[type_name])
            if type_name not in _COLLECTIONS
            else (type_name, self._hash(wanted, right))
        )
        return key in members

    def _entries(self, operand: Operand) -> _Entries:
        return self._of_request if type(operand) is Reference else self._of_item

    def _hash(self, value: Value, operand: Operand) -> bytes:
        hashes = self._entries(operand).hashes
        digest = hashes.get(operand)
        if digest is None:
            digest = hashes[operand] = _hash(value)
        return digest

    def _binary(self, value: Value, operand: Operand) -> bytes:
        binaries = self._entries(operand).bytes
        data = binaries.get(operand)
        if data is None:
            data = binaries[operand] = a2b_base64(value["B"])
        return data


def _members(tag: str, content: list[Any]) -> list[_Hashable]:
    return [_hashable(element) for element in content] if tag == "L" else [(tag[0], each) for each in content]


def _hashable(value: Value) -> _Hashable:
    tag, content = next(iter(value.items()))
    return (tag, content) if tag not in _COLLECTIONS else (tag, _hash(value))


def _hash(value: Value) -> bytes:
    return blake2b(orjson.dumps(value, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()
