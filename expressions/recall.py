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

# Something that is equal for equal values, and can be the member of a Python set.
_Key: TypeAlias = tuple[str, Any]

_FEW: Final = 16  # elements that are looked through faster than remembered
_COLLECTIONS: Final = frozenset({"L", "M", "SS", "NS", "BS"})


class _Found:
    """What was found out about values, by their identity: none of them goes away meanwhile."""

    __slots__ = ("bytes", "hashes", "members")

    def __init__(self) -> None:
        self.hashes: dict[int, bytes] = {}
        self.members: dict[int, frozenset[_Key] | None] = {}
        self.bytes: dict[int, bytes] = {}


class Recall(dict[str, Value]):
    """The request's values, and what an evaluation with them has found out."""

    __slots__ = ("_of_item", "_of_request", "_own")

    def __init__(self, values: Mapping[str, Value]) -> None:
        super().__init__(values)
        self._own = frozenset(map(id, values.values()))
        self._of_request = _Found()
        self._of_item = _Found()

    def forget_item(self) -> None:
        """The next item is another one."""
        self._of_item = _Found()

    def equal(self, a: Value, b: Value) -> bool:
        """As `a == b`."""
        if a is b:
            return True
        tag, content = next(iter(a.items()))
        if tag not in b:
            return False
        if tag not in _COLLECTIONS:
            return bool(content == b[tag])
        return len(content) == len(b[tag]) and self._hash(a) == self._hash(b)

    def compare(self, a: Value, b: Value) -> int:
        """As `compare` of the model: two S, two N or two B."""
        if "B" not in a:
            return model.compare(a, b)
        left, right = self._binary(a), self._binary(b)
        return (left > right) - (left < right)

    def contains(self, container: Value, operand: Value) -> bool:
        """As `contains` of the model."""
        tag, content = next(iter(container.items()))
        wanted = next(iter(operand))
        if tag == "B" and wanted == "B":
            return self._binary(operand) in self._binary(container)
        if (tag != "L" and tag != wanted + "S") or len(content) <= _FEW:
            return model.contains(container, operand)
        asked = self._found(container).members
        if id(container) not in asked:
            asked[id(container)] = None  # who asks once pays for no more than looking
            return model.contains(container, operand)
        members = asked[id(container)]
        if members is None:
            members = asked[id(container)] = frozenset(_members(tag, content))
        return _key(operand) in members

    def _found(self, value: Value) -> _Found:
        return self._of_request if id(value) in self._own else self._of_item

    def _hash(self, value: Value) -> bytes:
        hashes = self._found(value).hashes
        found = hashes.get(id(value))
        if found is None:
            found = hashes[id(value)] = _hash(value)
        return found

    def _binary(self, value: Value) -> bytes:
        known = self._found(value).bytes
        found = known.get(id(value))
        if found is None:
            found = known[id(value)] = a2b_base64(value["B"])
        return found


def _members(tag: str, content: list[Any]) -> list[_Key]:
    return [_key(element) for element in content] if tag == "L" else [(tag[0], each) for each in content]


def _key(value: Value) -> _Key:
    tag, content = next(iter(value.items()))
    return (tag, content) if tag not in _COLLECTIONS else (tag, _hash(value))


def _hash(value: Value) -> bytes:
    return blake2b(orjson.dumps(value, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()
