"""The end of the log, and the only code that writes it.

    group of appends ──► blocks ──► one write ──► one sync ──► Appended for each

A group is written when the one before it is durable, never sooner. So a crash can tear only the last group, and
recovery knows what it may cut. A failed sync leaves nothing that could be trusted, not even by syncing again (the
system may have dropped the pages and forgotten the error): it goes up to the caller, whose process must stop.
Only running out of space is told before anything was promised, and can be undone.

After each sync, and before the group is acknowledged, the segment and the file `lock` must still have their names: what
is written to a file that was removed or replaced would be gone with this process (displaced.py).

Behind the end the segment is filled with zeros, in steps, between one group and the next: then a sync need not make a
new size of the file durable, which takes as long again. The chained hash tells where records end. Before a segment gets
a follower, and when the log is closed, the zeros are cut off.
"""

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from ...model.errors import LogFullError
from ..codec import CURRENT
from ..log import AppendCallback, Appended
from . import segment
from .displaced import DisplacedError, save
from .durable_position import NAME as MARK_NAME
from .durable_position import DurablePosition, open_mark, write_mark
from .filesystem import File, Filesystem, create_file, write_all
from .history import History, Limit
from .segment import Chain

# The disk is full, its owner's share of it is, or the process may not make larger files (ulimit -f).
NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# As much is filled ahead as the segment has, so that a small log stays small, within these bounds.
FILL_LEAST: Final = 64 << 10
FILL_MOST: Final = 4 << 20
LOCK_NAME: Final = "lock"

Fsync: TypeAlias = Literal["always", "interval", "never"]


@dataclass(frozen=True, slots=True)
class Append:
    """An entry on its way into the log."""

    partition: int
    body: bytes
    time_ms: int
    done: AppendCallback


@dataclass(frozen=True, slots=True)
class Durable:
    """How far the log may be read: what was acknowledged, or is about to be."""

    limit: Limit
    ends: tuple[int, ...]


class Writer:
    """Continues a segment that recovery has left whole and synced."""

    def __init__(
        self,
        disk: Filesystem,
        lock: File,
        history: History,
        chain: Chain,
        position: int,
        *,
        fsync: Fsync,
        segment_bytes: int,
    ) -> None:
        """Continue at `position` of the last segment. `lock` is the folder's file of that name, locked."""
        self._disk = disk
        self._lock = lock
        self._history = history
        self._folder = history.folder
        self._header = history.last
        self._chain = chain
        self._position = self._synced = self._filled = position
        self._fills = fsync == "always"
        self._fsync = fsync
        self._segment_bytes = segment_bytes
        self._file: File = disk.open(history.path(self._header))
        self._mark = open_mark(disk, self._folder)
        self._publish()

    def commit(self, group: Sequence[Append]) -> list[Appended]:
        """Write the group and make it as durable as the log was told to.

        Raises:
            LogFullError: There is no space; nothing of the group is in the log, not even after a crash.
            DisplacedError: The segment or the lock is not in its place. See `check`.
            OSError: Nobody knows what is in the log. Nothing more may be written to it by this process.
        """
        try:
            self._make_room(sum(len(append.body) + segment.BLOCK_BYTES for append in group))
            chain = self._chain.copy()
            appended, data = self._blocks(group, chain)
            write_all(self._file, self._position, data)
            if self._fsync == "always":
                self._file.sync()
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            self._take_back()
            raise LogFullError(
                f"no space left for the log in {self._folder}: make room, writes then succeed"
            ) from error
        self._chain = chain
        self._position += len(data)
        self._filled = max(self._filled, self._position)
        if self._fsync == "always":
            self._synced = self._position
        self.check()
        self._publish()
        return appended

    def check(self) -> None:
        """Check that the segment and the file `lock` still have their names in the folder.

        Raises:
            DisplacedError: One of them was removed or replaced. Nothing may be written or acknowledged any longer.
        """
        name = segment.name(self._header.chain.sequence)
        for file, its in (self._file, name), (self._lock, LOCK_NAME):
            if not file.is_at(its):
                raise DisplacedError(its, is_segment=file is self._file)

    def look_for_mark(self) -> None:
        """Leave the mark in a file of its name again, if that was removed or replaced: readers follow it."""
        if self._mark and not self._mark.is_at(MARK_NAME):
            self._mark.close()
            self._mark = open_mark(self._disk, self._folder)
            self._publish()

    def save(self) -> Path:
        """Write the records of a segment that was displaced to a side file, and return its path.

        Raises:
            OSError: They are in no other file; this process alone can still read them.
        """
        name = segment.name(self._header.chain.sequence)
        return save(self._disk, self._folder, name, self._file.read(0, self._position))

    def fill_ahead(self) -> None:
        """Write zeros behind the end if few are left there. What hinders that hinders nothing else."""
        step = min(FILL_MOST, max(FILL_LEAST, self._position))
        target = min(self._position + step, self._segment_bytes)
        if not self._fills or self._filled - self._position > step // 4 or target <= self._filled:
            return
        try:
            write_all(self._file, self._filled, bytes(target - self._filled))
        except OSError:
            self._fills = False  # until the next segment: what there is of space is for records
        else:
            self._filled = target

    def finish(self) -> None:
        """Make everything durable, and leave the segment without zeros at its end.

        Raises:
            DisplacedError: See `check`.
            OSError: What was acknowledged may be lost.
        """
        self.sync()
        self.check()
        if self._file.size() > self._position:
            self._file.truncate(self._position)
            self._file.sync()
            self._filled = self._position

    def sync(self) -> None:
        """Make durable what was acknowledged before it was.

        Raises:
            OSError: It may be lost. That is never only a lack of space: the error has another errno.
        """
        if self._synced < self._position:
            try:
                self._file.sync()
            except OSError as error:
                raise OSError(errno.EIO, "entries that were acknowledged could not be synced") from error
            self._synced = self._position
            self._publish()

    def close(self) -> None:
        """Let go of the files. What is to be durable must be synced before."""
        self._file.close()
        if self._mark:
            self._mark.close()

    def _blocks(self, group: Sequence[Append], chain: Chain) -> tuple[list[Appended], bytes]:
        appended: list[Appended] = []
        data = bytearray()
        unsynced = self._position - self._synced
        for append in group:
            offset = chain.ends[append.partition]
            data += segment.block(
                chain,
                self._header.marker,
                append.partition,
                append.time_ms,
                unsynced + len(data),
                append.body,
            )
            appended.append(Appended(append.partition, offset, chain.time))
        return appended, bytes(data)

    def _make_room(self, size: int) -> None:
        """Begin a new segment if this one has records and would grow too large, or has another schema than ours."""
        full = self._position + size > self._segment_bytes and self._position > self._header.size
        if full or self._header.fingerprint != CURRENT:
            self._roll()

    def _roll(self) -> None:
        # A segment that is not the last is durable in every mode, and whole: so damage in it is never a torn write.
        self.finish()
        data = segment.header(self._header.log_id, CURRENT, self._chain)
        # The one segment that is replaced: ours, of an earlier schema, which never had a record.
        replaces = self._header.chain.sequence == self._chain.sequence
        path = self._folder / segment.name(self._chain.sequence)
        file = create_file(self._disk, path, data, replaces=replaces)
        if not replaces:
            self.check()  # once more before the full segment is let go
        self._file.close()
        self._file = file
        self._header = segment.read_header(data)
        self._position = self._synced = self._filled = len(data)
        self._fills = self._fsync == "always"
        self._history.add(self._header)
        self._publish()

    def _take_back(self) -> None:
        """Undo a write that found no space, durably: what was refused must not come back after a crash."""
        self._file.truncate(self._position)
        self._file.sync()
        self._synced = self._filled = self._position

    def _publish(self) -> None:
        sequence = self._header.chain.sequence
        if self._mark:
            write_mark(self._mark, DurablePosition(sequence, self._position, self._synced))
        self.durable = Durable(Limit(sequence, self._position), tuple(self._chain.ends))
