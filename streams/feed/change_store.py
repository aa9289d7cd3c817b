"""The stored changes of a partition: segments in a folder, and the durable offset that says how far they are complete.

    <db>/changes/<partition>/     survives a stop and a crash; changes beyond the durable offset are folded again
    a temporary folder            for a database without a folder: each start begins with an empty one

Changes are derived data. The folder may be removed while no server runs: the next start rebuilds it from the log, with
the same sequence numbers.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ...log.local.filesystem import Filesystem, SystemFilesystem
from ...materializer.fold.state import PartitionState
from ...model.lazy_dataclass import dataclass
from ...model.sequence_numbers import SequenceNumber
from ..temp_dirs import make_temp_dir
from .change_codec import DamagedError, SegmentOwner
from .durable_offset import (
    DurableOffset,
    read_durable_offset,
    remove_durable_offset,
    write_durable_offset,
)
from .segment_files import BlockCache, remove_others
from .segments import REBUILT, SEGMENT_BYTES, Extent, Removal, Segments

FOLDER: Final = "changes"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SyncTarget:
    """The state that a sync makes durable.

    Attributes:
        offset: All changes of records before this offset are written.
        last: The last sequence number of each table.
        horizon_ms: Changes before this log time have expired: segments that have no others are removed.
        trimmed: The sequence number up to which the log has no records: expired changes of these are removed at once.
    """

    offset: int
    last: dict[int, int]
    horizon_ms: int
    trimmed: SequenceNumber = 0


class IncompleteWriteError(Exception):
    """Changes that a sync is to make durable are not written: the disk refused some of them."""


class ChangeStore:
    """The segments of one partition.

    Attributes:
        durable_offset: The changes of all records before this offset were found at the start.
        found: The segments that were found at the start, by table.
        is_durable: Whether the next start finds the segments.
    """

    def __init__(
        self,
        folder: Path | None,
        log_id: bytes,
        partition: int,
        *,
        disk: Filesystem | None = None,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        """Prepare a store in `folder`, or in a temporary folder."""
        self.durable_offset = 0
        self.found: dict[int, Segments] = {}
        self.is_durable = folder is not None
        self._folder = folder
        self._log_id = log_id
        self._partition = partition
        self._disk = disk or SystemFilesystem()
        self._segment_bytes = segment_bytes
        self._cache = BlockCache()
        self._temporary: Path | None = None
        self._remove_temporary: Callable[[], None] = lambda: None

    def open(self, end: int) -> None:
        """Open the segments that the last run left; `end` is the end offset of the log."""
        if self._folder is not None:
            self._find(self._folder, end)
            self._remove_others()

    def _find(self, folder: Path, end: int) -> None:
        try:
            durable = read_durable_offset(self._disk, folder)
            if durable is None:
                return
            if durable.log_id != self._log_id or durable.offset > end:
                raise DamagedError("they belong to another log, or the log was restored from a backup")
            for table, extent in durable.tables.items():
                self.found[table] = Segments.open(
                    self._disk, folder, self._owner(table), self._cache, extent, self._segment_bytes
                )
        except (DamagedError, OSError) as error:
            logger.warning("cannot use the changes in %s: %s; they are rebuilt from the log", folder, error)
            self.reset()
        else:
            self.durable_offset = durable.offset

    def _remove_others(self) -> None:
        """Remove segments of other tables than the found ones: a killed process had no time to remove them."""
        assert self._folder is not None, "a temporary folder is new"
        try:
            remove_others(self._disk, self._folder, self.found)
            remove_others(self._disk, self._folder / REBUILT, ())
        except FileNotFoundError:
            return  # a folder is made with its first segment

    def reset(self) -> None:
        """Discard everything that was found."""
        self.remove_durable_offset()
        for segments in self.found.values():
            segments.close()
        self.found.clear()
        self.durable_offset = 0

    def suits(self, state: PartitionState, now_ms: int, retention_ms: int) -> bool:
        """Return whether a start from this state has every change that must still be served.

        Args:
            state: From a snapshot.
            now_ms: Log time of the newest snapshot.
            retention_ms: How long changes are served; 0 for no limit.
        """
        if state.next_offset <= self.durable_offset:
            return True
        horizon_ms = now_ms - retention_ms if retention_ms else 0
        return state.log_time < horizon_ms or all(
            window.is_over(horizon_ms) for windows in state.periods.values() for window in windows
        )

    def segments(self, table: int, after: int = 0) -> Segments:
        """Return new segments for a table, which begin after a sequence number."""
        return Segments(
            self._disk,
            self._make_folder,
            self._owner(table),
            self._cache,
            after=after,
            segment_bytes=self._segment_bytes,
        )

    def sync(self, segments: dict[int, Segments], target: SyncTarget) -> dict[int, int]:
        """Sync all segments, write the durable offset, and remove expired changes.

        Return the lower bound of each table's oldest segment.

        Raises:
            IncompleteWriteError: Changes of the target are not written. The durable offset is unchanged.
            DamagedError: An earlier sync failed. The durable offset is unchanged.
            OSError: The disk refused a sync. The durable offset is the one before, or the new one.
        """
        extents: dict[int, Extent] = {}
        removals: dict[int, Removal] = {}
        for table, each in segments.items():
            if each.last != target.last[table]:
                raise IncompleteWriteError
            if each.sync() is not None:
                removals[table] = _removal(table, each, target)
                extents[table] = each.extent_without(removals[table])
        if self._folder is not None:
            self._disk.make_folder(self._folder)
            write_durable_offset(
                self._disk, self._folder, DurableOffset(self._log_id, target.offset, extents)
            )
        for table, removal in removals.items():
            segments[table].remove(removal)
        return {table: extent.first_after for table, extent in extents.items()}

    def remove_durable_offset(self) -> None:
        """Remove the durable offset: unless a sync follows, the next start rebuilds all changes."""
        if self._folder is not None:
            remove_durable_offset(self._disk, self._folder)

    def close(self, segments: dict[int, Segments]) -> None:
        """Close all files, and remove a temporary folder."""
        for each in segments.values():
            each.close()
        self._remove_temporary()

    def _owner(self, table: int) -> SegmentOwner:
        return SegmentOwner(self._log_id, self._partition, table)

    def _make_folder(self) -> Path:
        if self._folder is not None:
            return self._folder
        if self._temporary is None:
            self._temporary, self._remove_temporary = make_temp_dir()
        return self._temporary


def _removal(table: int, segments: Segments, target: SyncTarget) -> Removal:
    """Return the expired changes. Those that share a damaged segment with others stay until it is repaired."""
    try:
        return segments.removal(target.horizon_ms, target.trimmed)
    except DamagedError as error:
        logger.warning(
            "cannot remove expired changes of table %d: %s; the next sync repeats it", table, error
        )
        return segments.removal(target.horizon_ms, trimmed=0)


def folder_of(database: Path, partition: int) -> Path:
    """Return the folder of a partition's changes in a database's folder."""
    return database / FOLDER / str(partition)
