"""The interface of a history's storage: two sorted maps from bytes, one of versions and one of rows.

    versions   version key (version_keys.py) ──► item, or a tombstone
    rows       kind, ... ──► bytes               (timeline.py)

A batch is written whole or not at all, and after a crash the batches that remain are the first ones. Versions never
change: a read at a cut gives the same answer while newer versions are written.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from ...log.local.writer import NO_SPACE
from ...model.errors import FoldbError
from ..fold.storage import Stored


class DamagedHistoryError(FoldbError):
    """The storage of a history cannot be read. The history is derived from the log: delete it and fold again."""


class FullDiskError(FoldbError):
    """The disk is full. The storage is intact up to the last batch: open it again when there is space."""


class HistoryInUseError(FoldbError):
    """Another process has opened the history. One process opens it at a time."""


@contextmanager
def finding_full_disk() -> Iterator[None]:
    """Raise FullDiskError in place of an OSError that says so."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_SPACE:
            raise FullDiskError(f"the disk is full: {error}") from error
        raise


class VersionCursor(Protocol):
    """A reader of the map of versions. It sees at least the versions that were written before it was made."""

    def seek(self, key: bytes) -> bytes | None:
        """Move to the first version at or after `key`; return its key."""
        ...

    def seek_back(self, key: bytes) -> bytes | None:
        """Move to the last version at or before `key`; return its key."""
        ...

    def next(self) -> bytes | None:
        """Move to the next version; return its key."""
        ...

    def value(self) -> Stored | None:
        """Return the version's item; None for a tombstone."""
        ...


class RowCursor(Protocol):
    """A reader of the map of rows."""

    def seek(self, key: bytes) -> bytes | None:
        """Move to the first row at or after `key`; return its key."""
        ...

    def seek_back(self, key: bytes) -> bytes | None:
        """Move to the last row at or before `key`; return its key."""
        ...

    def next(self) -> bytes | None:
        """Move to the next row; return its key."""
        ...

    def value(self) -> bytes:
        """Return the row's value."""
        ...


class Batch(Protocol):
    """Writes that take effect together, when `write` is called. A batch is written once."""

    def put_version(self, key: bytes, stored: Stored | None) -> None:
        """Add a version; None is a tombstone."""
        ...

    def delete_version(self, key: bytes) -> None:
        """Delete a version."""
        ...

    def put_row(self, key: bytes, value: bytes) -> None:
        """Add or replace a row."""
        ...

    def delete_row(self, key: bytes) -> None:
        """Delete a row."""
        ...

    def write(self) -> None:
        """Write the batch."""
        ...


class Engine(Protocol):
    """The storage of one epoch. All calls are made in one thread."""

    def versions(self) -> VersionCursor:
        """Return a cursor over all versions."""
        ...

    def chains(self) -> VersionCursor:
        """Return a cursor whose `seek` finds only versions of the same store and hash. It may miss all others."""
        ...

    def rows(self) -> RowCursor:
        """Return a cursor over all rows."""
        ...

    def row(self, key: bytes) -> bytes | None:
        """Return the value of a row."""
        ...

    def batch(self) -> Batch:
        """Return an empty batch."""
        ...

    def sync(self) -> None:
        """Make everything that was written durable."""
        ...

    def seal(self) -> None:
        """Make everything durable. Nothing is written afterwards, and `close` has little left to do."""
        ...

    def close(self) -> None:
        """Make everything durable and release the storage."""
        ...
