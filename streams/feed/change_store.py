"""Where a partition keeps its changes: segments in a folder, and the mark that says how far they are whole.

    <db>/changes/<partition>/     survives a stop and a crash; what was not marked is folded again
    a temporary folder            where there is no folder for the database: made anew by every start

All of it can be removed at any time while nobody serves: the next start makes it anew from the log, number for number.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...log.local.filesystem import Filesystem, SystemFilesystem
from ...materializer.fold.state import PartitionState
from ..temp_dirs import scratch
from .change_codec import DamagedError, Owner
from .durable_offset import DurableOffset, read_mark, remove_mark, write_mark
from .segments import SEGMENT_BYTES, Blocks, Extent, Segments, remove_others

FOLDER: Final = "changes"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Whole:
    """What is to be marked: all changes of records before `through`, of each table up to its number `lasts`."""

    through: int
    lasts: dict[int, int]
    horizon_ms: int


class NotThereError(Exception):
    """What is to be marked has not all been written: the disk refused some of it."""


class ChangeStore:
    """The segments of one partition.

    Attributes:
        through: The changes of all records before this offset are in what was found at the start.
        found: The segments that were found, by table.
        is_lasting: Whether they are to be found by the next start.
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
        """Keep them in `folder`, or in a temporary one."""
        self.through = 0
        self.found: dict[int, Segments] = {}
        self.is_lasting = folder is not None
        self._folder = folder
        self._log_id = log_id
        self._partition = partition
        self._disk = disk or SystemFilesystem()
        self._segment_bytes = segment_bytes
        self._blocks = Blocks()
        self._temporary: Path | None = None
        self._remove_temporary: Callable[[], None] = lambda: None

    def open(self, end: int) -> None:
        """Find what the last start has left; `end` is where the log ends."""
        if self._folder is not None:
            self._find(self._folder, end)
            self._remove_others()

    def _find(self, folder: Path, end: int) -> None:
        try:
            mark = read_mark(self._disk, folder)
            if mark is None:
                return
            if mark.log_id != self._log_id or mark.through > end:
                raise DamagedError("it is not of this log, or the log was restored from a backup")
            for table, extent in mark.tables.items():
                self.found[table] = Segments.open(
                    self._disk, folder, self._owner(table), self._blocks, extent, self._segment_bytes
                )
        except (DamagedError, OSError) as error:
            logger.warning("changes in %s are made again from the log: %s", folder, error)
            self.forget()
        else:
            self.through = mark.through

    def _remove_others(self) -> None:
        """Remove segments of tables of which none were found: those that a killed process had no time to remove."""
        assert self._folder is not None, "what is temporary is new"
        try:
            remove_others(self._disk, self._folder, self.found)
        except FileNotFoundError:
            return  # the folder is made with the first segment

    def forget(self) -> None:
        """Begin anew: nothing of what is there is to be relied upon."""
        if self._folder is not None:
            remove_mark(self._disk, self._folder)
        for segments in self.found.values():
            segments.close()
        self.found.clear()
        self.through = 0

    def suits(self, state: PartitionState, now_ms: int, retention_ms: int) -> bool:
        """Whether a start from this state leaves no change out that is still to be served.

        Args:
            state: From a snapshot.
            now_ms: Log time of the newest snapshot.
            retention_ms: For how long changes are served, 0 for ever.
        """
        if state.next_offset <= self.through:
            return True
        over_ms = now_ms - retention_ms if retention_ms else 0
        return state.log_time < over_ms or all(
            window.is_over(over_ms) for windows in state.periods.values() for window in windows
        )

    def segments(self, table: int, after: int = 0) -> Segments:
        """Segments of a table that has none, which will go on from the change with number `after`."""
        return Segments(
            self._disk,
            self._place,
            self._owner(table),
            self._blocks,
            after=after,
            segment_bytes=self._segment_bytes,
        )

    def mark(self, segments: dict[int, Segments], whole: Whole) -> dict[int, int]:
        """Sync all, remove what is over, and leave a mark; what each table's oldest segment goes on from now.

        Raises:
            OSError: The mark is the one before, or this one.
            NotThereError, DamagedError: Nothing was marked.
        """
        extents: dict[int, Extent] = {}
        over: dict[int, int] = {}
        for table, each in segments.items():
            if each.last != whole.lasts[table]:
                raise NotThereError
            extent = each.sync()
            if extent is not None:
                over[table] = each.over(whole.horizon_ms)
                extents[table] = each.extent_without(over[table], extent)
        if self._folder is not None:
            self._disk.make_folder(self._folder)
            write_mark(self._disk, self._folder, DurableOffset(self._log_id, whole.through, extents))
        for table, count in over.items():
            segments[table].remove(count)
        return {table: extent.first_after for table, extent in extents.items()}

    def unmark(self) -> None:
        """Have no mark: what is removed next is made anew by the next start, if nothing is marked before."""
        if self._folder is not None:
            remove_mark(self._disk, self._folder)

    def close(self, segments: dict[int, Segments]) -> None:
        """Let go of all files, and of a temporary folder."""
        for each in segments.values():
            each.close()
        self._remove_temporary()

    def _owner(self, table: int) -> Owner:
        return Owner(self._log_id, self._partition, table)

    def _place(self) -> Path:
        if self._folder is not None:
            return self._folder
        if self._temporary is None:
            self._temporary, self._remove_temporary = scratch()
        return self._temporary


def folder_of(database: Path, partition: int) -> Path:
    """Where a database keeps the changes of a partition."""
    return database / FOLDER / str(partition)
