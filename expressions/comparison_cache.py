"""A condition of many terms costs what one look at each large value costs, not one look a term.

A few kilobytes of text can name a list of 400,000 elements a thousand times, beside a value as large. So where there
are many terms the values that they are evaluated with remember, for as long as that takes, what was found out:

    equality of lists, maps and sets    a hash of each value's canonical bytes
    whether a list or a set contains    its members, once it is asked again
    order of binaries                   their bytes

What was found out about the request's values holds for the next item too, so that a page of a Scan looks at them once.
"""

from binascii import a2b_base64
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final, TypeAlias

import orjson

from ..model import values as model
from ..model.values import Value
from .tree import Operand, Reference

# Something that is equal for equal values, and can be the member of a Python set.
_Key: TypeAlias = tuple[str, Any]

_FEW: Final = 16  # elements that are looked through faster than remembered
_COLLECTIONS: Final = frozenset({"L", "M", "SS", "NS", "BS"})


class _Found:
    """What was found out about values, by the operands that they are the values of."""

    __slots__ = ("bytes", "hashes", "members")

    def __init__(self) -> None:
        self.hashes: dict[Operand, bytes] = {}
        self.members: dict[Operand, frozenset[_Key] | None] = {}
        self.bytes: dict[Operand, bytes] = {}


class ComparisonCache(dict[str, Value]):
    """The request's values, and what an evaluation with them has found out.

    A relation is asked with two values and the operands that they belong to.
    """

    __slots__ = ("_of_item", "_of_request")

    def __init__(self, values: Mapping[str, Value]) -> None:
        super().__init__(values)
        self._of_request = _Found()
        self._of_item = _Found()

    def forget_item(self) -> None:
        """The next item is another one."""
        self._of_item = _Found()

    def equal(self, a: Value, b: Value, left: Operand, right: Operand) -> bool:
        """As `a == b`."""
        tag, content = next(iter(a.items()))
        if tag not in b:
            return False
        if tag not in _COLLECTIONS:
            return bool(content == b[tag])
        return len(content) == len(b[tag]) and self._hash(a, left) == self._hash(b, right)

    def compare(self, a: Value, b: Value, left: Operand, right: Operand) -> int:
        """As `compare` of the model, of two binaries."""
        first, second = self._binary(a, left), self._binary(b, right)
        return (first > second) - (first < second)

    def contains(self, container: Value, wanted: Value, left: Operand, right: Operand) -> bool:
        """As `contains` of the model."""
        tag, content = next(iter(container.items()))
        type_name = next(iter(wanted))
        if tag == "B" and type_name == "B":
            return self._binary(wanted, right) in self._binary(container, left)
        if (tag != "L" and tag != type_name + "S") or len(content) <= _FEW:
            return model.contains(container, wanted)
        asked = self._found(left).members
        if left not in asked:
            asked[left] = None  # who asks once pays for no more than looking
            return model.contains(container, wanted)
        members = asked[left]
        if members is None:
            members = asked[left] = frozenset(_members(tag, content))
        key = (
            (type_name, wanted[type_name])
            if type_name not in _COLLECTIONS
            else (type_name, self._hash(wanted, right))
        )
        return key in members

    def _found(self, operand: Operand) -> _Found:
        return self._of_request if type(operand) is Reference else self._of_item

    def _hash(self, value: Value, operand: Operand) -> bytes:
        hashes = self._found(operand).hashes
        found = hashes.get(operand)
        if found is None:
            found = hashes[operand] = _hash(value)
        return found

    def _binary(self, value: Value, operand: Operand) -> bytes:
        known = self._found(operand).bytes
        found = known.get(operand)
        if found is None:
            found = known[operand] = a2b_base64(value["B"])
        return found


def _members(tag: str, content: list[Any]) -> list[_Key]:
    return [_key(element) for element in content] if tag == "L" else [(tag[0], each) for each in content]


def _key(value: Value) -> _Key:
    tag, content = next(iter(value.items()))
    return (tag, content) if tag not in _COLLECTIONS else (tag, _hash(value))


def _hash(value: Value) -> bytes:
    return blake2b(orjson.dumps(value, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()
