"""The storage of an epoch on disk: a RocksDB database with two column families.

    <folder>/<generation>/    the files of the database; one that cannot be opened is deleted, and the next is empty

RocksDB because its keys have any length, it compresses, it checks its blocks, and after a crash it recovers the first
batches whole. The write-ahead log is written with each batch and synced by `sync`: a killed process loses nothing, a
power cut at most the time since then, which the log of commands has. One process opens the database at a time.
"""

import logging
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from rocksdict import (
    BlockBasedOptions,
    Cache,
    ColumnFamily,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    Rdict,
    RdictIter,
    ReadOptions,
    SliceTransform,
    WriteBatch,
)

from ...log.local.writer import NO_SPACE
from ..fold.storage import Stored
from .engine import DamagedHistoryError, FullDiskError, HistoryInUseError
from .version_keys import COLLECTION_PREFIX_BYTES

logger = logging.getLogger(__name__)

_ROWS: Final = "rows"
_SIZE_BYTES: Final = 4
_CACHE: Final = Cache(128 << 20)  # of the blocks of all storages that the process has open
_BLOCK_BYTES: Final = 16 << 10
_RESTART_KEYS: Final = 4  # the keys of a block between two that a seek finds by bisection
_BUFFER_BYTES: Final = 32 << 20
_LOCKED: Final = "/LOCK: "  # in RocksDB's message
_FULL: Final = tuple(os.strerror(number) for number in NO_SPACE)
_BLOOM_BITS: Final = 10  # one in a hundred keys without a version is searched on disk

Result = TypeVar("Result")


class RocksEngine:
    """See engine.py."""

    __deletable__ = ("_database", "_row_family", "_rows")  # mypyc: `close` frees them

    def __init__(self, folder: Path) -> None:
        """Open the storage in `folder`, or create it.

        A storage that is damaged or of a later RocksDB is deleted.

        Raises:
            FullDiskError: The disk is full.
            HistoryInUseError: Another process has opened the storage.
        """
        self._folder = folder
        self._generation = max(self._generations(), default=0)
        try:
            self._open()
        except DamagedHistoryError as error:
            logger.warning("the history in %s is deleted: %s", folder, error)
            self._generation += 1
            self._open()
        self._delete_older()

    def _open(self) -> None:
        path = self._folder / f"{self._generation}"
        path.mkdir(parents=True, exist_ok=True)
        versions = _options()
        versions.set_prefix_extractor(SliceTransform.create_fixed_prefix(COLLECTION_PREFIX_BYTES))
        families = {"default": versions, _ROWS: _options()}
        self._database = _checked(lambda: Rdict(str(path), _options(), families))
        self._rows = self._database.get_column_family(_ROWS)
        self._row_family = self._database.get_column_family_handle(_ROWS)
        self._ordered = ReadOptions()
        self._ordered.set_total_order_seek(True)
        self._chained = ReadOptions()

    def versions(self) -> "_VersionCursor":
        """Return a cursor over all versions."""
        return _VersionCursor(self._database.iter(self._ordered))

    def chains(self) -> "_VersionCursor":
        """Return a cursor that skips the files whose Bloom filter excludes a store and hash."""
        return _VersionCursor(self._database.iter(self._chained))

    def rows(self) -> "_RowCursor":
        """Return a cursor over all rows."""
        return _RowCursor(self._rows.iter())

    def row(self, key: bytes) -> bytes | None:
        """Return the value of a row."""
        value: bytes | None = _checked(lambda: self._rows.get(key))
        return value

    def batch(self) -> "_Batch":
        """Return an empty batch."""
        return _Batch(self._database, self._row_family)

    def sync(self) -> None:
        """Sync the write-ahead log."""
        _checked(lambda: self._database.flush_wal(sync=True))

    def seal(self) -> None:
        """Sync, and let a thread of RocksDB write its memory to files: `close` would wait for that."""
        self.sync()
        for family in (self._database, self._rows):
            _checked(partial(family.flush, wait=False))

    def compact(self) -> None:
        """Merge all files, as RocksDB does over time."""
        for family in (self._database, self._rows):
            family.flush()
            family.compact_range(None, None)

    def close(self) -> None:
        """Sync, and release the database. Another process can open it when the last cursor is freed.

        Raises:
            FullDiskError, DamagedHistoryError: It was not synced. It is released.
        """
        rows, database = self._rows, self._database
        del self._rows, self._row_family, self._database
        try:
            _checked(rows.close)
        finally:
            _checked(database.close)

    def _generations(self) -> list[int]:
        names = [path.name for path in self._folder.glob("*")]
        return [int(name) for name in names if name.isdecimal()]

    def _delete_older(self) -> None:
        for generation in self._generations():
            if generation < self._generation:
                shutil.rmtree(self._folder / f"{generation}", ignore_errors=True)


class _Batch:
    """A batch of RocksDB; see engine.py."""

    __slots__ = ("_database", "_delete", "_put", "_row_family", "_writes")

    def __init__(self, database: Rdict, row_family: ColumnFamily) -> None:
        self._database = database
        self._writes = WriteBatch(raw_mode=True)
        self._put, self._delete = self._writes.put, self._writes.delete
        self._row_family = row_family

    def put_version(self, key: bytes, stored: Stored | None) -> None:
        self._put(key, b"" if stored is None else stored[1].to_bytes(_SIZE_BYTES, "big") + stored[0])

    def delete_version(self, key: bytes) -> None:
        self._delete(key)

    def put_row(self, key: bytes, value: bytes) -> None:
        self._put(key, value, self._row_family)

    def delete_row(self, key: bytes) -> None:
        self._delete(key, self._row_family)

    def write(self) -> None:
        _checked(lambda: self._database.write(self._writes))


class _RowCursor:
    """A cursor over one column family. Its methods of the iterator are bound once: a page calls them for each item."""

    __slots__ = ("_key", "_next", "_seek", "_seek_back", "_status", "_value")

    def __init__(self, iterator: RdictIter) -> None:
        self._key, self._value, self._status = iterator.key, iterator.value, iterator.status
        self._next, self._seek, self._seek_back = iterator.next, iterator.seek, iterator.seek_for_prev

    def seek(self, key: bytes) -> bytes | None:
        self._seek(key)
        at: bytes | None = self._key()
        if at is None:
            _checked(self._status)
        return at

    def seek_back(self, key: bytes) -> bytes | None:
        self._seek_back(key)
        at: bytes | None = self._key()
        if at is None:
            _checked(self._status)
        return at

    def next(self) -> bytes | None:
        self._next()
        at: bytes | None = self._key()
        if at is None:
            _checked(self._status)
        return at

    def value(self) -> Any:
        return self._value()


class _VersionCursor(_RowCursor):
    """A cursor over the versions."""

    __slots__ = ()

    def value(self) -> Stored | None:
        data: bytes = self._value()
        return (data[_SIZE_BYTES:], int.from_bytes(data[:_SIZE_BYTES], "big")) if data else None


def _options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_write_buffer_size(_BUFFER_BYTES)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_bottommost_compression_type(DBCompressionType.zstd())
    options.set_wal_recovery_mode(DBRecoveryMode.point_in_time())
    options.set_allow_concurrent_memtable_write(False)  # one thread writes
    options.set_keep_log_file_num(2)
    options.set_stats_dump_period_sec(0)
    options.set_max_open_files(256)
    table = BlockBasedOptions()
    table.set_block_cache(_CACHE)
    table.set_block_size(_BLOCK_BYTES)
    table.set_block_restart_interval(_RESTART_KEYS)
    table.set_bloom_filter(_BLOOM_BITS, False)
    table.set_format_version(5)
    options.set_block_based_table_factory(table)
    return options


def _checked(call: Callable[[], Result]) -> Result:
    """Call RocksDB, whose binding raises plain exceptions."""
    try:
        return call()
    except Exception as error:
        if _LOCKED in str(error):
            raise HistoryInUseError(f"another process has opened the history: {error}") from error
        if any(text in str(error) for text in _FULL):
            raise FullDiskError(f"the disk is full: {error}") from error
        raise DamagedHistoryError(f"the history cannot be read: {error}") from error
