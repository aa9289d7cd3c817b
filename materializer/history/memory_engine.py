"""The storage of an epoch in memory: two sorted dicts. The items are the objects that the fold made, not copies."""

from typing import Any

from sortedcontainers import SortedDict

from ..fold.storage import Stored


class MemoryEngine:
    """See engine.py."""

    def __init__(self) -> None:
        self._versions: SortedDict = SortedDict()
        self._rows: SortedDict = SortedDict()

    def versions(self) -> "_Cursor":
        """Return a cursor over all versions."""
        return _Cursor(self._versions)

    def chains(self) -> "_Cursor":
        """Return a cursor over all versions."""
        return _Cursor(self._versions)

    def rows(self) -> "_Cursor":
        """Return a cursor over all rows."""
        return _Cursor(self._rows)

    def row(self, key: bytes) -> bytes | None:
        """Return the value of a row."""
        value: bytes | None = self._rows.get(key)
        return value

    def batch(self) -> "_Batch":
        """Return an empty batch."""
        return _Batch(self._versions, self._rows)

    def sync(self) -> None:
        """Do nothing."""

    def seal(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class _Batch:
    def __init__(self, versions: SortedDict, rows: SortedDict) -> None:
        self._versions = versions
        self._rows = rows
        self._new_versions: dict[bytes, Stored | None] = {}
        self._new_rows: dict[bytes, bytes] = {}
        self._deleted_versions: list[bytes] = []
        self._deleted_rows: list[bytes] = []

    def put_version(self, key: bytes, stored: Stored | None) -> None:
        self._new_versions[key] = stored

    def delete_version(self, key: bytes) -> None:
        self._deleted_versions.append(key)

    def put_row(self, key: bytes, value: bytes) -> None:
        self._new_rows[key] = value

    def delete_row(self, key: bytes) -> None:
        self._deleted_rows.append(key)

    def write(self) -> None:
        self._versions.update(self._new_versions)
        self._rows.update(self._new_rows)
        for key in self._deleted_versions:
            self._versions.pop(key, None)
        for key in self._deleted_rows:
            self._rows.pop(key, None)


class _Cursor:
    """Keeps its key, not an index: the map may grow between two moves."""

    __slots__ = ("_key", "_map")

    def __init__(self, sorted_map: SortedDict) -> None:
        self._map = sorted_map
        self._key = b""

    def seek(self, key: bytes) -> bytes | None:
        return self._at(self._map.bisect_left(key))

    def seek_back(self, key: bytes) -> bytes | None:
        return self._at(self._map.bisect_right(key) - 1)

    def next(self) -> bytes | None:
        return self._at(self._map.bisect_right(self._key))

    def value(self) -> Any:
        return self._map[self._key]

    def _at(self, index: int) -> bytes | None:
        keys = self._map.keys()
        if not 0 <= index < len(keys):
            return None
        key: bytes = keys[index]
        self._key = key
        return key
