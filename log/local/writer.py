"""Write the end of the log. No other module appends to segments.

    group of appends ──► blocks ──► one write ──► one sync ──► Appended for each

A group is written only when the group before it is durable. So a crash can tear only the last group, and recovery knows
which bytes it may cut. After a failed sync the state on disk is unknown, and a second sync proves nothing (the system
may have dropped the pages and cleared the error): the error goes to the caller, whose process must stop. Only a full
disk is detected before an acknowledgement, and can be undone.

After each sync and before the acknowledgement, the segment and the file `lock` must still have their names: bytes in a
file that was removed or replaced would be lost with this process (displaced.py).

Between groups, zeros are written after the end of the segment in steps. A sync then need not make a new file size
durable, which takes as long again. The chain of hashes shows the end of the records. The zeros are cut off before a
segment gets a successor and when the log is closed.
"""

import errno
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

from ...model.errors import LogFullError
from ...model.lazy_dataclass import dataclass
from ..codec import CURRENT
from ..log import AppendCallback, Appended
from . import segment
from .disk_process import DiskWrite
from .displaced import DisplacedError, save
from .durable_position import NAME as MARK_NAME
from .durable_position import DurablePosition, open_mark, write_mark
from .filesystem import File, Filesystem, create_file, write_all
from .history import History, Limit
from .segment import Chain

# The disk or the user's quota is full, or the process reached its file size limit (ulimit -f).
NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Bounds of the bytes filled ahead. Between them it is the segment's size, so that a small log stays small.
FILL_LEAST: Final = 64 << 10
FILL_MOST: Final = 4 << 20
LOCK_NAME: Final = "lock"

Fsync: TypeAlias = Literal["always", "interval", "never"]


@dataclass(frozen=True, slots=True)
class Append:
    """A pending append."""

    partition: int
    body: bytes
    time_ms: int
    callback: AppendCallback


def size_of(group: Iterable[Append]) -> int:
    """Return the bytes that the blocks of a group take at most."""
    return sum(len(append.body) + segment.BLOCK_BYTES for append in group)


@dataclass(frozen=True, slots=True)
class Durable:
    """The readable end of the log: entries that are acknowledged, or durable and about to be."""

    limit: Limit
    ends: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """The blocks of a group of appends, to be written at `position`, and the end of the log after them."""

    position: int
    data: bytes
    chain: Chain
    appended: list[Appended]


class Writer:
    """Continues a segment that is intact and synced after recovery."""

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
        """Continue at `position` of the last segment. `lock` is the folder's locked file of that name."""
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
        """Write the group, and sync it in mode `always`.

        Raises:
            LogFullError: The disk is full. The log holds no entry of the group, not even after a crash.
            DisplacedError: The segment or the file `lock` lost its name. See `check`.
            OSError: The state of the log is unknown. This process must not write to it again.
        """
        try:
            self._make_room(size_of(group))
            blocks = self.blocks_of(group)
            write_all(self._file, blocks.position, blocks.data)
            if self._fsync == "always":
                self._file.sync()
        except OSError as error:
            failure = self.failed(error)
            if failure is error:
                raise
            raise failure from error
        appended = self.end(blocks)
        self._write_mark()
        return appended

    def has_room(self, size: int) -> bool:
        """Return whether a group of this size (`size_of`) needs no new segment."""
        fits = self._position + size <= self._segment_bytes or self._position <= self._header.size
        return fits and self._header.fingerprint == CURRENT

    def blocks_of(self, group: Sequence[Append]) -> Group:
        """Return the blocks of a group, for which the segment has room. They are not part of the log until `end`."""
        chain = self._chain.copy()
        appended, data = self._blocks(group, chain)
        return Group(self._position, data, chain, appended)

    def disk_write(self, group: Group) -> DiskWrite:
        """Return the write of a group for a disk writer."""
        end = group.position + len(group.data)
        mark = DurablePosition(self._header.chain.sequence, end, end)
        return DiskWrite(self._file, group.position, group.data, self._mark, mark)

    def end(self, group: Group) -> list[Appended]:
        """Make a group part of the log that is written, and in mode `always` synced. The caller writes the mark.

        Raises:
            DisplacedError, OSError: See `commit`.
        """
        self._chain = group.chain
        self._position += len(group.data)
        self._filled = max(self._filled, self._position)
        if self._fsync == "always":
            self._synced = self._position
        self.check()
        self._show()
        return group.appended

    def failed(self, error: OSError) -> Exception:
        """Return the error of a group whose write or sync failed. If the disk is full, the write is undone.

        Raises:
            OSError: The write to a full disk could not be undone.
        """
        if error.errno not in NO_SPACE:
            return error
        self._undo_write()
        return LogFullError(f"no space left for the log in {self._folder}: make room, then writes succeed")

    def check(self) -> None:
        """Check that the segment and the file `lock` still have their names in the folder.

        Raises:
            DisplacedError: A file was removed or replaced. The log must not write or acknowledge an entry.
        """
        segment_name = segment.name(self._header.chain.sequence)
        for file, name in (self._file, segment_name), (self._lock, LOCK_NAME):
            if not file.is_at(name):
                raise DisplacedError(name, is_segment=file is self._file)

    def restore_mark(self) -> None:
        """Create the file `mark` again if it was removed or replaced, because readers follow it."""
        if self._mark and not self._mark.is_at(MARK_NAME):
            self._mark.close()
            self._mark = open_mark(self._disk, self._folder)
            self._publish()

    def save(self) -> Path:
        """Write the records of a displaced segment to a side file, and return its path.

        Raises:
            OSError: The side file was not written; only this process can still read the records.
        """
        name = segment.name(self._header.chain.sequence)
        return save(self._disk, self._folder, name, self._file.read(0, self._position))

    def needs_filling(self) -> bool:
        """Return whether few zeros are left after the end."""
        enough = self._fill_step() // 4
        return self._fills and self._filled - self._position <= enough and self._filled < self._fill_target()

    def fill_ahead(self) -> None:
        """Write zeros after the end if few are left there. Errors are ignored until the next segment."""
        if not self.needs_filling():
            return
        target = self._fill_target()
        try:
            write_all(self._file, self._filled, bytes(target - self._filled))
        except OSError:
            self._fills = False  # until the next segment: the remaining space is for records
        else:
            self._filled = target

    def _fill_step(self) -> int:
        return min(FILL_MOST, max(FILL_LEAST, self._position))

    def _fill_target(self) -> int:
        return min(self._position + self._fill_step(), self._segment_bytes)

    def finish(self) -> None:
        """Sync the segment, and cut the zeros at its end.

        Raises:
            DisplacedError: See `check`.
            OSError: Acknowledged entries may be lost.
        """
        self.sync()
        self.check()
        if self._file.size() > self._position:
            self._file.truncate(self._position)
            self._file.sync()
            self._filled = self._position

    def sync(self) -> None:
        """Sync entries that were acknowledged without a sync.

        Raises:
            OSError: Acknowledged entries may be lost. The errno is EIO, never that of a full disk.
        """
        if self._synced < self._position:
            try:
                self._file.sync()
            except OSError as error:
                raise OSError(errno.EIO, "entries that were acknowledged could not be synced") from error
            self._synced = self._position
            self._publish()

    def close(self) -> None:
        """Close the files without a sync."""
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
        """Begin a new segment if this one has records and would grow too large, or has an older schema."""
        if not self.has_room(size):
            self._roll()

    def _roll(self) -> None:
        # Every segment but the last is durable and complete in every mode, so damage in it is never a torn write.
        self.finish()
        data = segment.header(self._header.log_id, CURRENT, self._chain)
        # The only segment that may be replaced: one of an earlier schema without records.
        replaces = self._header.chain.sequence == self._chain.sequence
        path = self._folder / segment.name(self._chain.sequence)
        file = create_file(self._disk, path, data, replaces=replaces)
        if not replaces:
            self.check()  # once more before the full segment is closed
        self._file.close()
        self._file = file
        self._header = segment.read_header(data)
        self._position = self._synced = self._filled = len(data)
        self._fills = self._fsync == "always"
        self._history.add(self._header)
        self._publish()

    def _undo_write(self) -> None:
        """Undo a write to a full disk, durably: refused entries must not return after a crash."""
        self._file.truncate(self._position)
        self._file.sync()
        self._synced = self._filled = self._position

    def _publish(self) -> None:
        self._write_mark()
        self._show()

    def _write_mark(self) -> None:
        if self._mark:
            sequence = self._header.chain.sequence
            write_mark(self._mark, DurablePosition(sequence, self._position, self._synced))

    def _show(self) -> None:
        self.durable = Durable(Limit(self._header.chain.sequence, self._position), tuple(self._chain.ends))
