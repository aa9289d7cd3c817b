r"""Encode key values as bytes that sort in DynamoDB's order.

    key       := string | number | binary      // the type is the table definition's, not in the bytes
    string    := UTF-8
    number    := see `numbers`
    binary    := the bytes themselves

    composite := part+                         // several values, compared one after the other
    part      := ( byte except 00 | 00 FF )* 00 00

In a part a 00 is written as 00 FF, so 00 00 ends it and no part is a prefix of another: composites
compare like lists of keys, and "a" comes before "a\0" and before "ab". Index sort keys are composites.

    "red", then 150      72 65 64 00 00 C2 01 50 00 00

The slot of a key follows from a hash of its partition key: 64 bits of BLAKE2b over the owner's id (table or index,
8 bytes, most significant first) and the key; the first 12 bits are its slot. Every log depends on this encoding:
never change it.
"""

from binascii import a2b_base64, b2a_base64
from hashlib import blake2b
from typing import Any, Final

from . import numbers

SLOTS: Final = 4096
_SLOT_SHIFT: Final = 64 - (SLOTS - 1).bit_length()

_NUL: Final = b"\0"
_ESCAPED: Final = b"\0\xff"
_END: Final = b"\0\0"


def encode(value: dict[str, Any]) -> bytes:
    """Return the key bytes of a canonical S, N or B."""
    if "S" in value:
        text: str = value["S"]
        return text.encode()
    if "N" in value:
        return numbers.encode(value["N"])
    return a2b_base64(value["B"])


def decode(type_name: str, data: bytes) -> dict[str, Any]:
    """Return the value of key bytes, the reverse of `encode`."""
    if type_name == "S":
        return {"S": data.decode()}
    if type_name == "N":
        return {"N": numbers.decode(data)}
    return {"B": b2a_base64(data, newline=False).decode("ascii")}


def part(data: bytes) -> bytes:
    """Return one key as a part of a composite."""
    # Few keys have a NUL, and to look for one costs a fifth of a call of `replace`.
    return (data.replace(_NUL, _ESCAPED) if 0 in data else data) + _END


def split(composite: bytes) -> list[bytes]:
    """Return the keys of a composite."""
    return [escaped.replace(_ESCAPED, _NUL) for escaped in composite.split(_END)[:-1]]


def key_hash(owner_id: int, pk: bytes) -> int:
    """Return the 64-bit hash that orders partition keys in a scan."""
    return int.from_bytes(blake2b(owner_id.to_bytes(8, "big") + pk, digest_size=8).digest(), "big")


class Slots:
    """Computes the slots of one owner's keys: `slot(key_hash(owner_id, pk))`, in less time."""

    __slots__ = ("_owner",)

    def __init__(self, owner_id: int) -> None:
        self._owner = blake2b(owner_id.to_bytes(8, "big"), digest_size=8)

    def of(self, pk: bytes) -> int:
        """Return the slot of a partition key."""
        hashed = self._owner.copy()
        hashed.update(pk)
        digest = hashed.digest()
        return digest[0] << 4 | digest[1] >> 4


def slot(hash_: int) -> int:
    """Return the slot of a hash, one of 4096. Slots have the order of their hashes."""
    return hash_ >> _SLOT_SHIFT
