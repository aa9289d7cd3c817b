"""The snapshots of a database: made by one process, loaded by the next start.

    make    newest usable + the rest of the log ──► temporary file ──► synced ──► renamed ──► older ones removed
    start   newest usable, else the beginning of the log ──► the worker folds the rest of the log

The folder `snapshots` beside the log holds `<offset of the last record folded>.snapshot`; with several partitions it
is `<partition>-<offset>.snapshot`, made one after the other. A crash at any moment leaves only complete files of
these names; the next run removes temporary files. An unusable snapshot is skipped with a warning, because the log
has everything: without any snapshot a start only takes longer.
"""

import gc
import logging
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import field
from itertools import islice
from pathlib import Path
from typing import Final, TypeAlias

from ..log.chain import Chain
from ..log.commands import Position, Record
from ..log.local.filesystem import File, Filesystem, read_all, write_all
from ..log.local.writer import LOCK_NAME
from ..log.log import HashedLog, ReadableLog
from ..model.errors import LogLockedError
from ..model.lazy_dataclass import dataclass
from .fold.state import PartitionState
from .foundation import initial_chain, initial_state
from .gc_tuning import no_collections
from .refold import refold_log
from .snapshot import (
    OpenSnapshot,
    SnapshotHead,
    UnusableError,
    load_state,
    read_dump,
    read_head,
    write_snapshot,
)

FOLDER: Final = "snapshots"
KEPT: Final = 2
_MANY_ITEMS: Final = 100_000
_UNFINISHED: Final = ".new"
_COPIED: Final = ".copied"
_FILE_NAME: Final = re.compile(r"(?:([0-9]+)-)?([0-9]{20})\.snapshot")

logger = logging.getLogger(__name__)

IsSuitable: TypeAlias = Callable[[PartitionState, int], bool]


@dataclass(slots=True)
class LoadedState:
    """The start of a refold: a loaded state, or an empty one.

    Attributes:
        head: The head of the loaded snapshot.
        unusable: The offsets of the skipped snapshots.
    """

    state: PartitionState
    head: SnapshotHead | None = None
    unusable: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class MadeSnapshot:
    """The newest snapshot after a `make`; `is_new` is whether it was written by it."""

    head: SnapshotHead
    bytes: int
    digest: str
    is_new: bool


@dataclass(frozen=True, slots=True)
class SnapshotReport:
    """The result of reading a snapshot file: its head if that is readable, and the fault that makes it unusable."""

    offset: int
    bytes: int
    head: SnapshotHead | None
    digest: str | None
    fault: str | None


class _ChainedLog:
    """A log that extends a chain with each record that is read for the first time."""

    def __init__(self, log: ReadableLog, chain: Chain) -> None:
        self._log = log
        self._chain = chain
        self.genesis, self.begin, self.bases, self.end = log.genesis, log.begin, log.bases, log.end

    def read(self, partition: int, start: int = 0) -> Iterator[Record]:
        """Read the records from offset `start` on."""
        chain = self._chain
        for record in self._log.read(partition, start):
            if record.offset == chain.next_offset:
                chain.extend(record)
            yield record


class Snapshots:
    """The snapshots of one partition beside the log in `folder`; `partitions` is the number of the log's partitions."""

    def __init__(self, folder: Path, disk: Filesystem, partition: int = 0, partitions: int = 1) -> None:
        self.folder = folder / FOLDER
        self._disk = disk
        self._partition = partition
        self._prefix = "" if partitions == 1 else f"{partition}-"

    def offsets(self) -> list[int]:
        """Return the offsets of all snapshots, from their file names, newest first."""
        matches = (_FILE_NAME.fullmatch(name) for name in self._names())
        ours = self._prefix.removesuffix("-") or None
        return sorted((int(match[2]) for match in matches if match and match[1] == ours), reverse=True)

    def path(self, offset: int) -> Path:
        return self.folder / f"{self._prefix}{offset:020d}.snapshot"

    def load_newest(
        self, log: HashedLog, suits: IsSuitable = lambda *_: True, *, before: int | None = None
    ) -> LoadedState:
        """Load the newest usable snapshot. Log a warning for each unusable one, and leave it in place.

        Older ones are loaded until `suits` returns True for the state and the log time of the newest. With `before`
        only snapshots of records before that offset are considered.
        """
        unusable: list[int] = []
        newest_ms: int | None = None
        for offset in self.offsets():
            if before is not None and offset >= before:
                continue
            if offset < log.begin(self._partition) - 1:
                continue  # the base of the log is newer
            try:
                with self._opened(offset) as file, no_collections():
                    snapshot = self.verified(log, offset, read_head(file))
                    state = load_state(snapshot)
                    newest_ms = state.log_time if newest_ms is None else newest_ms
                    if not suits(state, newest_ms):
                        continue
                    if snapshot.head.items > _MANY_ITEMS:
                        gc.freeze()  # as after a refold
                    return LoadedState(state, snapshot.head, unusable)
            except (UnusableError, OSError) as error:
                logger.warning(
                    "skipping snapshot %s: %s; an older one, or the log alone, is used",
                    self.path(offset),
                    error,
                )
                unusable.append(offset)
        return LoadedState(initial_state(log, self._partition), None, unusable)

    @contextmanager
    def open_usable(self, log: HashedLog, offset: int) -> Iterator[OpenSnapshot]:
        """Open a snapshot of this log to read its dump, which is not verified yet.

        Raises:
            UnusableError: The snapshot is of another log, position or history, or its head is damaged.
            OSError: The file cannot be read.
        """
        with self._opened(offset) as file:
            yield self.verified(log, offset, read_head(file))

    def make(
        self, log: HashedLog, *, keep: int = KEPT, progress: Callable[[int], None] | None = None
    ) -> MadeSnapshot:
        """Make a snapshot of the log's current end, and keep the `keep` newest usable ones.

        Raises:
            LogLockedError: Another process is making a snapshot.
            OSError: The disk refused the write. The older snapshots are unchanged.
        """
        lock = self._lock()
        try:
            self._remove_unfinished()
            start = self.load_newest(log)
            state, chain = start.state, self._chain(log, start.head)
            refold_log(state, _ChainedLog(log, chain), self._partition, progress)
            assert chain.next_offset == state.next_offset, "the fold has read every record"
            hash_ = log.hash_of(self._partition, state.next_offset - 1)
            head = SnapshotHead.of(state, hash_, chain.value)
            is_new = head != start.head
            if is_new:
                self._write(head, state)
            # The new snapshot may have the name of an unusable one.
            self._remove_old(head.offset, keep, [each for each in start.unusable if each != head.offset])
            with self._opened(head.offset) as file:
                return MadeSnapshot(head, file.size(), read_head(file).digest, is_new)
        finally:
            lock.close()

    def _chain(self, log: HashedLog, head: SnapshotHead | None) -> Chain:
        """Return the chain at a snapshot, from which the chain of the next one continues."""
        if head is not None and head.chain is not None:
            return Chain(log.genesis(self._partition), head.offset + 1, head.chain)
        chain = initial_chain(log, self._partition)
        if head is not None:  # an earlier release made the snapshot
            begin = chain.next_offset
            for record in islice(log.read(self._partition, begin), head.offset + 1 - begin):
                chain.extend(record)
        return chain

    def heads(self) -> list[SnapshotHead]:
        """Return the readable heads of all snapshots, newest first. Their dumps are not verified."""
        found = []
        for offset in self.offsets():
            with suppress(UnusableError, OSError), self._opened(offset) as file:
                found.append(read_head(file).head)
        return found

    def newest_head(self, log: HashedLog) -> SnapshotHead | None:
        """Return the newest head with a chain of this log's history, or None. Its dump is not verified."""
        for offset in self.offsets():
            if offset >= log.begin(self._partition):
                with suppress(UnusableError, OSError), self._opened(offset) as file:
                    head = self.verified(log, offset, read_head(file)).head
                    if head.chain is not None:
                        return head
        return None

    def examine(self, offset: int, log: HashedLog) -> SnapshotReport:
        """Read a snapshot to its end and report on it."""
        size, snapshot, fault = 0, None, None
        try:
            with self._opened(offset) as file:
                size = file.size()
                snapshot = read_head(file)
                for _ in read_dump(self.verified(log, offset, snapshot)):
                    pass
        except (UnusableError, OSError) as error:
            fault = str(error)
        if snapshot is None:
            return SnapshotReport(offset, size, None, None, fault)
        return SnapshotReport(offset, size, snapshot.head, snapshot.digest, fault)

    def fault(self, offset: int) -> str | None:
        """Return the fault that makes a snapshot unreadable; None if it is readable or does not exist."""
        try:
            with self._opened(offset) as file:
                for _ in read_dump(read_head(file)):
                    pass
        except FileNotFoundError:
            return None  # a newer one has replaced it
        except (UnusableError, OSError) as error:
            return str(error)
        return None

    def remove_damaged(self, offset: int) -> bool:
        """Remove a snapshot if it is still damaged, and return whether it was.

        Raises:
            LogLockedError: Another process is making a snapshot.
        """
        lock = self._lock()
        try:
            if self.fault(offset) is None:
                return False
            self._disk.remove(self.path(offset))
            return True
        finally:
            lock.close()

    def portion(self, offset: int, start: int, size: int) -> tuple[int, bytes]:
        """Return the size of a snapshot's file, and at most `size` of its bytes from `start` on.

        Raises:
            FileNotFoundError: The snapshot does not exist; a newer one may have replaced it.
        """
        with self._opened(offset) as file:
            return file.size(), file.read(start, size)

    def begin_copy(self, offset: int) -> "SnapshotCopy":
        """Begin to copy the snapshot of an offset from another node.

        Raises:
            OSError: The disk refused the file.
        """
        if not self._names():
            self._disk.make_folder(self.folder)
        return SnapshotCopy(self, self._disk, offset)

    def remove_before(self, offset: int) -> None:
        """Remove the snapshots of records before an offset."""
        for each in self.offsets():
            if each < offset:
                with suppress(FileNotFoundError):  # a process that makes a snapshot removes old ones too
                    self._disk.remove(self.path(each))
        if self._names():
            self._disk.sync_folder(self.folder)

    def _write(self, head: SnapshotHead, state: PartitionState) -> None:
        """Write a file that is complete after a crash, or absent: the bytes are synced before the rename."""
        path = self.path(head.offset)
        unfinished = path.with_name(path.name + _UNFINISHED)
        file = self._disk.open(unfinished, create=True)
        try:
            write_snapshot(file, head, state)
            self._disk.rename(unfinished, path)
        except OSError:
            with suppress(OSError):
                self._disk.remove(unfinished)
            raise
        finally:
            file.close()
        self._disk.sync_folder(self.folder)

    def _remove_old(self, newest: int, keep: int, unusable: list[int]) -> None:
        """Remove the snapshots that no start needs. Damaged ones are removed too, and do not count towards `keep`.

        A snapshot ahead of the log's visible end stays: a reader beside a crashed writer may not see all durable
        records.
        """
        behind = [offset for offset in self.offsets() if offset <= newest]
        usable = [offset for offset in behind if offset not in unusable]
        for offset in behind:
            if offset not in usable[:keep]:
                with suppress(FileNotFoundError):  # a trim removes old ones too
                    self._disk.remove(self.path(offset))

    def _remove_unfinished(self) -> None:
        """Remove the temporary files of crashed processes. The lock excludes a running one.

        The next copy from another node replaces the file of an interrupted one, which another process may write.
        """
        for name in self._names():
            if name.endswith(_UNFINISHED):
                self._disk.remove(self.folder / name)

    def _lock(self) -> File:
        if not self._names():
            self._disk.make_folder(self.folder)
        try:
            return self._disk.lock(self.folder / LOCK_NAME, b"pid %d\n" % os.getpid())
        except BlockingIOError:
            holder = read_all(self._disk, self.folder / LOCK_NAME).decode(errors="replace").strip()
            raise LogLockedError(
                f"another process ({holder or 'unknown'}) is making a snapshot in {self.folder}: wait for it"
            ) from None

    def _names(self) -> list[str]:
        try:
            return self._disk.names(self.folder)
        except FileNotFoundError:
            return []

    @contextmanager
    def _opened(self, offset: int) -> Iterator[File]:
        file = self._disk.open(self.path(offset), write=False)
        try:
            yield file
        finally:
            file.close()

    def verified(self, log: HashedLog, offset: int, snapshot: OpenSnapshot) -> OpenSnapshot:
        """Return the snapshot, if it is of this log and the log's history has not changed since.

        Raises:
            UnusableError: The snapshot is of another log, position or history.
        """
        head = snapshot.head
        if head.log_id != log.log_id:
            raise UnusableError(f"it belongs to the log {head.log_id.hex()}")
        if (head.partition, head.offset) != (self._partition, offset):
            raise UnusableError(
                f"its name states another position than its head, {head.partition}:{head.offset}"
            )
        if offset < log.begin(self._partition) - 1:
            raise UnusableError("a trim removed its record from the log")
        end = log.end(self._partition)
        if offset >= end:
            raise UnusableError(f"the log ends before it, at {end - 1}: was it restored from a backup?")
        if log.hash_of(self._partition, offset) != head.hash:
            raise UnusableError("the log has another history: was it restored from a backup?")
        return snapshot


class SnapshotCopy:
    """A snapshot that is being copied from another node into a temporary file.

    Attributes:
        size: The number of bytes written so far.
    """

    def __init__(self, snapshots: Snapshots, disk: Filesystem, offset: int) -> None:
        self.size = 0
        self._snapshots = snapshots
        self._disk = disk
        self._offset = offset
        self._path = snapshots.path(offset)
        self._unfinished = self._path.with_name(self._path.name + _COPIED)
        self._file = disk.open(self._unfinished, create=True)
        self._file.truncate(0)

    def write(self, data: bytes) -> None:
        """Append bytes to the file."""
        write_all(self._file, self.size, data)
        self.size += len(data)

    def finish(self, log: HashedLog) -> None:
        """Give the file its name, if all its bytes are a snapshot of this log and of its history.

        Raises:
            UnusableError: The bytes are not such a snapshot.
            OSError: The disk refused the file.
        """
        self._file.sync()
        for _ in read_dump(self._snapshots.verified(log, self._offset, read_head(self._file))):
            pass
        self._disk.rename(self._unfinished, self._path)
        self._disk.sync_folder(self._snapshots.folder)

    def close(self) -> None:
        """Close the file, and remove it if it has not got its name."""
        self._file.close()
        with suppress(FileNotFoundError):
            self._disk.remove(self._unfinished)


def snapshots_of_each(folder: Path, disk: Filesystem, partitions: int) -> list[Snapshots]:
    return [Snapshots(folder, disk, partition_id, partitions) for partition_id in range(partitions)]


def newest_positions(folder: Path, disk: Filesystem, partitions: int) -> list[Position]:
    """Return the position of each partition's newest snapshot, from its file name, if it has one."""
    return [
        Position(partition_id, offset)
        for partition_id, each in enumerate(snapshots_of_each(folder, disk, partitions))
        for offset in each.offsets()[:1]
    ]
