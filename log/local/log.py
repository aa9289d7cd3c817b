"""A log on this machine's disk: the default, without other software.

    owner's loop                           the writer's thread
    append   ── encode ──► queue ────────► all pending appends: blocks, one write, one sync
    callback ◄─────────── deliver ◄──────┘

Encoding, folding and responses stay on the owner's loop. The thread chains hashes, writes and syncs, mostly outside
Python. One sequence of segments holds all partitions, so one sync commits all pending appends.

A log that writes much has a disk process (disk_process.py), which writes and syncs in place of the thread:

    append   ── encode ──► queue, blocks ──► one write, one sync
    callback ◄─────────────────────────────┘

The thread keeps the rest: segments, zeros, checks, a full disk, failures. One of both has the writer at a time.
"""

import logging
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn, Protocol

from ...model.errors import AppendUnknownError, LogError, LogFullError
from ..codec import encode_entry
from ..commands import LEVEL, Entry, Record
from ..log import AppendCallback, Appended, Clock, Deliver, Log, genesis_entries
from . import recovery
from .disk_process import MOST_BYTES, DiskWrite, Done
from .displaced import DisplacedError, take_back
from .filesystem import File, Filesystem, SystemFilesystem
from .foundation import Foundation, mend, name_head, remove_before
from .history import FolderLog
from .reader import LogReader
from .recovery import Cut
from .writer import Append, Fsync, Group, Writer, size_of

SEGMENT_BYTES: Final = 32 << 20
INTERVAL_SECONDS: Final = 0.1
# Interval of checks for removed files while no entry is written.
CHECK_SECONDS: Final = 1.0
LOG_ID_BYTES: Final = 16

logger = logging.getLogger(__name__)


class Background(Protocol):
    """The executor of the writer: a thread, or a substitute of a test or the simulator."""

    def run(self, job: Callable[[], None]) -> None:
        """Run the job after all earlier ones, one at a time."""
        ...

    def close(self) -> None:
        """Wait until every job has run."""
        ...


class DiskWriter(Protocol):
    """Writes and syncs in place of the writer's thread (disk_process.py), or a substitute of a test."""

    @property
    def starts_after(self) -> int:
        """The number of groups that the thread writes before `start`."""
        ...

    def start(self, folder: Filesystem, lock: File) -> None:
        """Start, in the writer's thread.

        Raises:
            OSError: The system has no room for another process.
        """
        ...

    def attach(self, ended: Callable[[], None]) -> None:
        """Begin to work for the owner's loop. `ended` is called there if this ends by itself."""
        ...

    def write(self, write: DiskWrite, done: Done) -> None:
        """Write and sync, write the mark if the bytes are durable, and call `done` on the owner's loop."""
        ...

    def wait(self) -> None:
        """Wait for the end of a write, and call its `done`."""
        ...

    def close(self) -> None:
        """Release everything after all writes."""
        ...


class LocalLog(FolderLog):
    """A log in a folder. Opens the folder's log, or creates one.

    Args:
        path: The folder. A missing folder is created, with access for its owner only.
        deliver: Schedules a callback on the owner's loop.
        random_bytes: Draws a new log's id.
        on_fatal: Called on the owner's loop with an AppendUnknownError when the disk failed. The result of appends in
            flight is unknown and the log refuses further appends: the process should stop and start again.
        fsync: Sync before an append is acknowledged (`always`), ten times a second (`interval`), or when a segment
            is full or the log is closed (`never`).
        create: Whether to create a log if the folder has none.
        first: The first entry of each partition of a new log that continues the history of another.
        disk_writer: Writes and syncs outside this process in mode `always`; None if the thread does.

    Raises:
        LogLockedError, CorruptionError, ForeignLogError, NewerVersionError, LogError: See recovery.py.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        clock: Clock,
        deliver: Deliver,
        random_bytes: Callable[[int], bytes],
        on_fatal: Callable[[BaseException], None],
        fsync: Fsync = "always",
        segment_bytes: int = SEGMENT_BYTES,
        partitions: int = 1,
        limits: str = "modern",
        level: int = LEVEL,
        create: bool = True,
        first: Sequence[Entry] | None = None,
        disk: Filesystem | None = None,
        background: Background | None = None,
        disk_writer: DiskWriter | None = None,
    ) -> None:
        self._folder = Path(path)
        self._clock = clock
        self._deliver = deliver
        self._on_fatal = on_fatal
        self._waiting: deque[Append] = deque()
        self._failure: Exception | None = None
        self._closed = False
        self._is_full = False
        self._is_moved = False
        self._displaced: DisplacedError | None = None
        self._unsaved: list[Append] = []  # appends of a displaced segment without a side file
        self._disk_writer = disk_writer if fsync == "always" else None
        self._has_attached = False
        self._is_outside = False  # the disk writer has a group
        self._writing = threading.Lock()  # held by who uses the writer
        self._thread_waits = False  # for that
        self._unsettled: Callable[[], None] | None = None  # the first task of the thread
        self._groups = 0
        note = b"pid %d\n" % os.getpid()
        self.disk, self._lock = recovery.lock(disk or SystemFilesystem(), self._folder, note)
        disk = self.disk
        try:
            take_back(disk, self._folder)
            if not recovery.has_log(disk, self._folder):
                if not create:
                    raise LogError(
                        f"there is no log in {self._folder}: name a folder that `foldb serve` has served"
                    )
                if first is None:
                    first = genesis_entries(
                        random_bytes(LOG_ID_BYTES), partitions, limits=limits, level=level
                    )
                recovery.create(disk, self._folder, first, clock())
            recovered = recovery.recover(disk, self._folder)
            self._history = recovered.history
            self._genesis = recovered.genesis
            self.cut: Cut | None = recovered.cut
            self._writer = Writer(
                disk,
                self._lock,
                self._history,
                recovered.chain,
                recovered.position,
                fsync=fsync,
                segment_bytes=segment_bytes,
            )
        except BaseException:
            self._unlock()
            raise
        self._syncs = fsync == "interval"
        seconds = INTERVAL_SECONDS if self._syncs else CHECK_SECONDS
        self._background = background or WriterThread(self.maintain, seconds)

    @staticmethod
    def open_reader(path: Path | str, disk: Filesystem | None = None) -> LogReader:
        """Open the log in a folder for reading, while another process may write to it."""
        return LogReader(Path(path), disk or SystemFilesystem())

    def append(self, partition: int, entry: Entry, callback: AppendCallback) -> None:
        assert 0 <= partition < self.partitions, "no such partition"
        if self._closed:
            self._complete(callback, LogError("the log is closed"))
            return
        self._waiting.append(Append(partition, encode_entry(entry), self._clock(), callback))
        if not self._has_attached:
            self._background.run(self._commit)
        elif not self._is_outside:
            self._begin_outside()

    def read(self, partition: int, start: int = 0) -> Iterator[Record]:
        return self._history.read(partition, start, self._writer.durable.limit)

    def hash_of(self, partition: int, offset: int) -> bytes:
        """Return a hash that identifies the history up to and including a record."""
        return self._history.hash_of(partition, offset, self._writer.durable.limit)

    def end(self, partition: int) -> int:
        return self._writer.durable.ends[partition]

    def mend_foundation(self) -> list[str]:
        """Write a damaged copy of the foundation again from the other, and return the damage that was found.

        Raises:
            CorruptionError: Both copies are damaged.
            OSError: The disk refused the files.
        """
        return [] if self.foundation is None else mend(self.disk, self._folder, self.foundation)

    def trim(self, foundation: Foundation, callback: Callable[[int | Exception], None]) -> None:
        """Remove the records before a verified foundation, after all earlier appends.

        Args:
            foundation: Its bases and its heads without names are durable, and another process has verified them.
            callback: Receives the number of removed segments, or the error: OSError and ValueError leave the log as
                it was, or are followed by the rest of the trim at the next start.
        """

        def work() -> None:
            try:
                with self._alone():
                    removed: int | Exception = self._trim(foundation)
            except (OSError, ValueError, LogError) as error:
                removed = error
            self._deliver(lambda: callback(removed))

        self._background.run(work)

    def close(self) -> None:
        """Write and sync all appends, and release the locks.

        Raises:
            LogError: Entries that were acknowledged without a sync could not be synced.
        """
        if self._closed:
            return
        self._closed = True
        while self._is_outside and self._disk_writer is not None:
            self._disk_writer.wait()
        self._background.close()
        if self._disk_writer is not None:
            self._disk_writer.close()
        try:
            if self._displaced is not None:
                raise self._displaced
            if self._failure is None:
                self._check_folder()  # it may have been renamed since the last check
                self._writer.finish()
        except DisplacedError as error:
            raise self._saved_or_lost(error) from error
        except OSError as error:
            raise LogError(
                f"the log in {self._folder} could not be synced: {error}. The last acknowledged writes may be lost; "
                "check the disk, then start again."
            ) from error
        finally:
            self._writer.close()
            self._unlock()

    def _unlock(self) -> None:
        self._lock.close()
        self.disk.close()

    # With a disk writer, on the owner's loop

    def _begin_outside(self) -> None:
        """Write all pending appends outside, or in the background if the writer has other work or may not write."""
        disk_writer, writer = self._disk_writer, self._writer
        if disk_writer is not None and not self._thread_waits and self._writing.acquire(blocking=False):
            size = size_of(self._waiting)
            if not size:
                self._writing.release()  # the thread has taken them
                return
            if self._is_sound() and size <= MOST_BYTES and writer.has_room(size):
                group = self._take_waiting()
                blocks = writer.blocks_of(group)
                self._is_outside = True
                disk_writer.write(
                    writer.disk_write(blocks), lambda result: self._end_outside(group, blocks, result)
                )
                return
            self._writing.release()
        self._background.run(self._commit)

    def _end_outside(self, group: list[Append], blocks: Group, result: int | None) -> None:
        """Acknowledge a group that is durable, and begin the next one; leave all else to the background."""
        results: list[Appended] = []
        if result is None:
            self._waiting.extendleft(reversed(group))  # to be written again, the same bytes to the same place
        elif result:
            error = OSError(result, os.strerror(result))
            self._unsettled = lambda: self._settle(group, lambda: self._give_up(error))
        else:
            results = self._end(group, blocks)
        has_other_work = not results or self._writer.needs_filling()
        self._is_outside = False
        self._writing.release()
        if has_other_work:
            self._background.run(self._commit)
        elif self._waiting:
            self._begin_outside()
        if results:
            for append, appended in zip(group, results, strict=True):
                if self._closed:
                    self._complete(append.callback, appended)
                else:
                    append.callback(appended)

    def _end(self, group: list[Append], blocks: Group) -> list[Appended]:
        """Make a durable group part of the log; [] if that failed, which the background reports."""
        try:
            return self._writer.end(blocks)
        except (OSError, DisplacedError) as error:
            failure = error
        self._unsettled = lambda: self._fail(failure, group)
        return []

    def _is_sound(self) -> bool:
        return not self._is_full and self._failure is None and self._displaced is None

    def _attach(self) -> None:
        if self._disk_writer is not None and not self._closed:
            self._disk_writer.attach(self._detach)
            self._has_attached = True

    def _detach(self) -> None:
        """Continue without a disk writer, which has ended by itself."""
        logger.warning(
            "the disk process of the log in %s has ended; writes continue without it", self._folder
        )
        self._has_attached, self._disk_writer = False, None

    # The methods below run in the background.

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Use the writer alone, after the end of a group that is outside."""
        self._thread_waits = True
        with self._writing:
            self._thread_waits = False
            unsettled, self._unsettled = self._unsettled, None
            if unsettled is not None:
                unsettled()
            yield

    def _commit(self) -> None:
        """Write all pending appends. Every append schedules this once, so a call often finds none."""
        with self._alone():
            group = self._take_waiting()
            if group:
                self._settle(group, lambda: self._writer.commit(group))
            if self._is_sound():
                self._writer.fill_ahead()

    def _take_waiting(self) -> list[Append]:
        group: list[Append] = []
        while self._waiting:
            group.append(self._waiting.popleft())
        return group

    def _settle(self, group: list[Append], commit: Callable[[], Sequence[Appended]]) -> None:
        """Commit a group, and answer its appends."""
        try:
            results = self._write(group, commit)
        except Exception as error:
            self._fail(error, group)
            return
        for append, result in zip(group, results, strict=True):
            self._complete(append.callback, result)
        self._groups += 1
        if self._disk_writer is not None and self._groups == self._disk_writer.starts_after:
            self._start(self._disk_writer)

    def _give_up(self, error: OSError) -> NoReturn:
        raise self._writer.failed(error)

    def _start(self, disk_writer: DiskWriter) -> None:
        try:
            disk_writer.start(self.disk, self._lock)
        except OSError as error:
            logger.warning("cannot start the disk process of the log, which continues without it: %s", error)
        else:
            self._deliver(self._attach)

    def _write(
        self, group: list[Append], commit: Callable[[], Sequence[Appended]]
    ) -> Sequence[Appended | LogError]:
        """Write the group, or refuse it if the disk is full. Only the first refusal is logged."""
        if self._displaced is not None:
            raise self._displaced
        if self._failure is not None:
            raise self._failure
        try:
            results = commit()
        except LogFullError as error:
            if not self._is_full:
                logger.warning("%s; until then writes are refused", error)
            self._is_full = True
            return [error] * len(group)
        if self._is_full:
            logger.warning("there is space for the log in %s again; writes are accepted", self._folder)
        self._is_full = False
        return results

    def _trim(self, foundation: Foundation) -> int:
        """Put a foundation into force, then remove the segments before it (FORMAT.md, Trimmed logs)."""
        if self._failure is not None or self._displaced is not None:
            raise LogError("the log has failed: it was not trimmed")
        self._writer.check()
        if not any(foundation.continues_in(header) for header in self._history.headers):
            raise ValueError(f"no segment begins with record {foundation.sequence}")
        name_head(self.disk, self._folder, foundation)
        self._history.begin_with(foundation)
        return remove_before(self.disk, self._folder, foundation)

    def maintain(self) -> None:
        """Sync in mode `interval`, and check that the log's files still have their names."""
        with self._alone():
            self._maintain()

    def _maintain(self) -> None:
        if self._displaced is not None:
            self._save_displaced(self._displaced)
            return
        if self._failure is not None:
            return
        try:
            if self._syncs:
                self._writer.sync()
            self._writer.check()
            self._writer.restore_mark()
        except (OSError, DisplacedError) as error:
            self._fail(error, [])
        else:
            self._check_folder()

    def _check_folder(self) -> None:
        is_moved = not self.disk.is_in_place()
        if is_moved and not self._is_moved:
            logger.warning(
                "%s no longer leads to the folder that this process writes to, which was renamed or covered by a "
                "mount; writes continue in that folder. To serve it under its new name, stop this process first.",
                self._folder,
            )
        self._is_moved = is_moved

    def _fail(self, error: Exception, group: list[Append]) -> None:
        """Stop the log after a failed write or sync. The result of all pending appends is unknown."""
        if self._failure is None:
            error = self._displaced_or(error)
        if isinstance(error, DisplacedError):
            self._displaced = error
            self._unsaved += group
            self._save_displaced(error)
        else:
            unknown = AppendUnknownError(
                f"the log in {self._folder} could not be written: {error}. Check the disk, then start again."
            )
            unknown.__cause__ = error
            self._stop_with(unknown, group)

    def _stop_with(self, unknown: AppendUnknownError, group: list[Append]) -> None:
        for append in group:
            self._complete(append.callback, unknown)
        if self._failure is None:
            self._failure = unknown
            self._deliver(lambda: self._on_fatal(unknown))

    def _displaced_or(self, error: Exception) -> Exception:
        """Return the DisplacedError if a displaced file explains the failed write, otherwise `error`."""
        try:
            self._writer.check()
        except DisplacedError as displaced:
            return displaced
        except OSError:
            pass
        return error

    def _save_displaced(self, error: DisplacedError) -> None:
        """Save the records of a displaced segment in a side file, then stop the process.

        Until that succeeds only this process holds the records. It therefore keeps running and completes no append,
        because a completion with this error stops the process.
        """
        try:
            unknown = self._saved(error)
        except OSError as failure:
            logger.critical(
                "%s, and its records cannot be saved: %s. Only this process holds them. Make room for a side file in "
                "%s; foldb retries every second, and stops when the side file is written.",
                error,
                failure,
                self._folder,
            )
            return
        self._displaced, group, self._unsaved = None, self._unsaved, []
        self._stop_with(unknown, group)

    def _saved(self, error: DisplacedError) -> AppendUnknownError:
        """Write the side file, and return the error to stop with.

        Raises:
            OSError: The side file could not be written.
        """
        if not error.is_segment:
            return AppendUnknownError(
                f"the file `{error.name}` in {self._folder} was removed or replaced while this process held it. "
                "No write is lost: start again, and do not touch that file."
            )
        side_file = self._writer.save()
        step = "start again"
        if side_file.parent != self._folder:
            step = "put that file into the log's folder, then start"
        elif not self.disk.is_in_place():
            step = "that folder was renamed; start with its new name"
        return AppendUnknownError(
            f"the segment {error.name} in {self._folder} was removed or replaced while this process wrote to it. "
            f"{step.capitalize()}: the next start restores the records from the side file {side_file}"
        )

    def _saved_or_lost(self, error: DisplacedError) -> AppendUnknownError:
        """Write the side file, and return the error of a process that stops in any case."""
        try:
            return self._saved(error)
        except OSError as failure:
            return AppendUnknownError(
                f"{error}, and no side file could be written ({failure}): the records of that segment are lost"
            )

    def _complete(self, callback: AppendCallback, result: Appended | LogError) -> None:
        self._deliver(lambda: callback(result))


def disk_of(log: Log) -> Filesystem:
    """Return the disk that holds the log's folder, for other files in it, or a new one for a log without a folder."""
    return log.disk if isinstance(log, LocalLog) else SystemFilesystem()


class WriterThread:
    """A thread that runs jobs in order, and calls `tick` about every `seconds`."""

    def __init__(self, tick: Callable[[], None], seconds: float) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._tick = tick
        self._seconds = seconds
        self._thread = threading.Thread(target=self._work, name="foldb log", daemon=True)
        self._thread.start()

    def run(self, job: Callable[[], None]) -> None:
        self._jobs.put(job)

    def close(self) -> None:
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        due = time.monotonic() + self._seconds
        while True:
            try:
                job = self._jobs.get(timeout=max(0.0, due - time.monotonic()))
            except queue.Empty:
                pass
            else:
                if job is None:
                    return
                job()
            if time.monotonic() >= due:
                self._tick()
                due = time.monotonic() + self._seconds
