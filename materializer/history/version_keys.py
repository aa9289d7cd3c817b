"""Keys of versions: their byte order is the order of a scan and, at one key, from the newest version to the oldest.

    version   ::= key  stamp
    key       ::= store (4)  hash of the partition key (8)  part(partition key)  part(sort key)      (model/keys.py)
    stamp     ::= inverse of the effective time (8)  inverse of the packed position (8)
    packed    ::= offset * 2^14 + index of the command
    inverse n ::= 2^64 - 1 - n

A cut is a stamp too: that of the newest version that a read at the cut may find. A cut by time has the greatest
position, so every version of that time is visible. A cut by position has the log time there. The effective time of a
version is at most the log time of its record, and never falls along a key. So the first version at or after the stamp
of the cut is the right one, unless its position is after the cut: the write of a transaction that was decided before
the cut and folded after it. Such versions are skipped.
"""

from hashlib import blake2b
from struct import Struct
from typing import Final

from ...model.keys import key_hash, part, split

STAMP_BYTES: Final = 16
POSITION_AT: Final = 8
"""The place of the position in a stamp."""
NEWEST: Final = bytes(STAMP_BYTES)
"""The stamp at which the newest version is visible."""
AFTER_OLDEST: Final = b"\xff" * STAMP_BYTES + b"\0"
"""Sorts after the stamps of all versions of a key."""
COLLECTION_PREFIX_BYTES: Final = 12
"""The bytes of a key that all versions under one partition key share: store and hash."""

LAST_INDEX: Final = (1 << 14) - 1  # an entry has at most 10,000 commands
_INDEX_BITS: Final = 14
_LAST: Final = (1 << 64) - 1
_STAMP: Final = Struct(">QQ")
_ESCAPED_NUL: Final = b"\0\xff"
_END: Final = b"\0\0"
_COLLECTIONS_KEPT: Final = 256


def pack_position(offset: int, index: int | None) -> int:
    """Return the position of a command as one integer; without an index that of the end of its entry."""
    return offset << _INDEX_BITS | (LAST_INDEX if index is None else index)


def offset_of(packed: int) -> int:
    """Return the offset of a packed position."""
    return packed >> _INDEX_BITS


def unpack_position(packed: int) -> tuple[int, int]:
    """Return offset and index of a packed position.

    >>> unpack_position(pack_position(7, 3))
    (7, 3)
    """
    return packed >> _INDEX_BITS, packed & LAST_INDEX


def inverse(number: int) -> bytes:
    """Return half of a stamp, for a time or a packed position."""
    return (_LAST - number).to_bytes(8, "big")


def stamp(time_ms: int, packed: int) -> bytes:
    """Return the stamp of a version, or of a cut by position."""
    return _STAMP.pack(_LAST - time_ms, _LAST - packed)


def time_stamp(time_ms: int) -> bytes:
    """Return the stamp of a cut by time."""
    return _STAMP.pack(_LAST - time_ms, 0)


def position_stamp(packed: int) -> bytes:
    """Return the stamp of a cut by position in an epoch whose versions are all below the cut's log time."""
    return _STAMP.pack(0, _LAST - packed)


def read_stamp(data: bytes) -> tuple[int, int]:
    """Return effective time and packed position of a stamp.

    >>> read_stamp(stamp(1700000000000, pack_position(7, 3))) == (1700000000000, pack_position(7, 3))
    True
    """
    time_ms, packed = _STAMP.unpack(data)
    return _LAST - time_ms, _LAST - packed


def is_visible(version: bytes, cut: bytes) -> bool:
    """Return whether a read at the cut may find the version; both are stamps."""
    return version >= cut and version[POSITION_AT:] >= cut[POSITION_AT:]


class StoreKeys:
    """Computes the keys of one store. The last key is kept, because a write first reads its item; and the collections
    used last, because their hash is the dearest part of a key.
    """

    __slots__ = ("_collections", "_id", "_key", "_owner", "_pk", "_sk", "prefix")

    def __init__(self, store_id: int) -> None:
        self._id = store_id
        self._owner = blake2b(store_id.to_bytes(8, "big"), digest_size=8)
        self.prefix = store_id.to_bytes(4, "big")
        self._collections: dict[bytes, bytes] = {}
        self._pk: bytes | None = None
        self._sk = self._key = b""

    def collection(self, pk: bytes) -> bytes:
        """Return the beginning of all keys under a partition key."""
        found = self._collections.get(pk)
        if found is None:
            if len(self._collections) >= _COLLECTIONS_KEPT:
                self._collections.clear()
            hashed = self._owner.copy()
            hashed.update(pk)
            found = self._collections[pk] = self.prefix + hashed.digest() + part(pk)
        return found

    def key(self, pk: bytes, sk: bytes) -> bytes:
        """Return the key of an item."""
        if pk != self._pk or sk != self._sk:
            self._key = self.collection(pk) + part(sk)
            self._pk, self._sk = pk, sk
        return self._key

    def slot_of(self, pk: bytes) -> int:
        """Return the slot of a partition key."""
        collection = self.collection(pk)
        return collection[4] << 4 | collection[5] >> 4

    def hash_of(self, pk: bytes) -> int:
        """Return the hash of a partition key."""
        return key_hash(self._id, pk)

    def range(self, pk: bytes, low: bytes, high: bytes | None) -> tuple[bytes, bytes]:
        """Return the bounds of the keys under `pk` with low <= sort key < high; the upper bound is excluded."""
        collection = self.collection(pk)
        first = collection + low.replace(b"\0", _ESCAPED_NUL)
        if high is None:
            return first, collection[:-1] + b"\1"  # the partition key's part ends in 00 00
        return first, collection + high.replace(b"\0", _ESCAPED_NUL)

    def hashes(self, start: tuple[int, bytes, bytes] | None, low: int, high: int) -> tuple[bytes, bytes]:
        """Return the bounds of the keys after `start` with low <= hash < high; the upper bound is excluded."""
        first, end = self._hash_bound(low), self._hash_bound(high)
        if start is not None:
            after = self._hash_bound(start[0]) + part(start[1]) + part(start[2]) + AFTER_OLDEST
            first = max(first, after)
        return first, end

    def _hash_bound(self, hash_: int) -> bytes:
        """Return the first bytes of keys with that hash. The hash after the last is the next store's first."""
        return ((self._id << 64) + hash_).to_bytes(COLLECTION_PREFIX_BYTES, "big")


def read_key(key: bytes) -> tuple[int, bytes, bytes]:
    """Return hash, partition key and sort key of a key."""
    pk, sk = split(key[COLLECTION_PREFIX_BYTES:])
    return int.from_bytes(key[4:COLLECTION_PREFIX_BYTES], "big"), pk, sk


def read_sort_key(key: bytes, start: int) -> bytes:
    """Return the sort key of a key, whose part begins at `start`."""
    return key[start : -len(_END)].replace(_ESCAPED_NUL, b"\0")
