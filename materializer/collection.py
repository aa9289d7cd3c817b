"""One partition key's items, in the order of their sort keys.

Two plain lists, keys and items, hold a collection that is small, which nearly all are: they take a quarter
of the memory of a sorted map and are as fast up to some thousand entries. A large one moves into a SortedDict,
and comes back when it has shrunk to half of that. Which of the two holds it is nobody's business outside.
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import TypeAlias, final

from sortedcontainers import SortedDict

# An item at rest: its canonical bytes and its size by DynamoDB's rule. A plain tuple and not a NamedTuple,
# because only plain tuples of atoms are left alone by the garbage collector.
Stored: TypeAlias = tuple[bytes, int]

LISTS_UP_TO = 4096
LISTS_AGAIN_AT = LISTS_UP_TO // 2


@final
class Collection:
    """A sorted map from sort-key bytes to items. `size` is the sum of the items' sizes."""

    __slots__ = ("_keys", "_tree", "_values", "size")

    def __init__(self) -> None:
        self._keys: list[bytes] = []
        self._values: list[Stored] = []
        self._tree: SortedDict | None = None
        self.size = 0

    def __len__(self) -> int:
        return len(self._keys) if self._tree is None else len(self._tree)

    def get(self, sk: bytes) -> Stored | None:
        """The item at `sk`."""
        if self._tree is not None:
            found: Stored | None = self._tree.get(sk)
            return found
        at = bisect_left(self._keys, sk)
        return self._values[at] if at < len(self._keys) and self._keys[at] == sk else None

    def put(self, sk: bytes, stored: Stored) -> Stored | None:
        """Store at `sk`; return what was there."""
        old = self._put_in_lists(sk, stored) if self._tree is None else self._put_in_tree(sk, stored)
        self.size += stored[1] if old is None else stored[1] - old[1]
        return old

    def remove(self, sk: bytes) -> Stored | None:
        """Take the item at `sk` away and return it."""
        old = self._remove_from_lists(sk) if self._tree is None else self._remove_from_tree(sk)
        if old is not None:
            self.size -= old[1]
        return old

    def range(
        self, low: bytes = b"", high: bytes | None = None, reverse: bool = False
    ) -> Iterator[tuple[bytes, Stored]]:
        """Items with low <= sort key < high, from either end. The collection must not change meanwhile."""
        if self._tree is not None:
            if high is not None and high <= low:
                return iter(())  # irange does not say what it does then
            keys = self._tree.irange(low, high, inclusive=(True, False), reverse=reverse)
            tree = self._tree
            return ((sk, tree[sk]) for sk in keys)
        first = bisect_left(self._keys, low) if low else 0
        last = len(self._keys) if high is None else bisect_left(self._keys, high)
        places = range(last - 1, first - 1, -1) if reverse else range(first, last)
        return zip(map(self._keys.__getitem__, places), map(self._values.__getitem__, places), strict=True)

    def _put_in_lists(self, sk: bytes, stored: Stored) -> Stored | None:
        keys = self._keys
        at = bisect_left(keys, sk)
        if at < len(keys) and keys[at] == sk:
            old = self._values[at]
            self._values[at] = stored
            return old
        keys.insert(at, sk)
        self._values.insert(at, stored)
        if len(keys) > LISTS_UP_TO:
            self._tree = SortedDict(zip(keys, self._values, strict=True))
            self._keys, self._values = [], []
        return None

    def _put_in_tree(self, sk: bytes, stored: Stored) -> Stored | None:
        assert self._tree is not None
        old: Stored | None = self._tree.get(sk)
        self._tree[sk] = stored
        return old

    def _remove_from_lists(self, sk: bytes) -> Stored | None:
        at = bisect_left(self._keys, sk)
        if at == len(self._keys) or self._keys[at] != sk:
            return None
        del self._keys[at]
        return self._values.pop(at)

    def _remove_from_tree(self, sk: bytes) -> Stored | None:
        assert self._tree is not None
        old: Stored | None = self._tree.pop(sk, None)
        if len(self._tree) <= LISTS_AGAIN_AT:
            self._keys, self._values = list(self._tree.keys()), list(self._tree.values())
            self._tree = None
        return old
