"""The log on this machine's disk: the default, with nothing to install.

    owner's loop                         the writer's thread
    append ── encode ──► queue ────────► everything that waits: blocks, one write, one sync
    done   ◄─────────── deliver ◄──────┘

Encoding, folding and answering stay on the owner's loop; the thread only chains, writes and syncs, which mostly
happens outside Python. One sequence of segments holds all partitions, so one sync commits whatever waits.
"""

import logging
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

from ...model.errors import AppendUnknownError, LogError, LogFullError
from ..codec import encode_entry
from ..commands import Entry, Genesis, Record
from ..log import LEVEL, AppendCallback, Appended, Clock, Deliver, Log, genesis_entries
from . import recovery
from .displaced import DisplacedError, take_back
from .filesystem import Filesystem, SystemFilesystem
from .reader import LogReader
from .recovery import Cut
from .writer import Append, Fsync, Writer

SEGMENT_BYTES: Final = 32 << 20
INTERVAL_SECONDS: Final = 0.1
# How long an acknowledged write may stand in a segment that was removed while nothing is written.
LOOK_SECONDS: Final = 1.0
LOG_ID_BYTES: Final = 16

logger = logging.getLogger(__name__)


class Background(Protocol):
    """Where the writer runs: a thread of its own, or whatever a test or a simulator makes of it."""

    def run(self, job: Callable[[], None]) -> None:
        """Do the job after all that were given before; never at the same time as another."""
        ...

    def close(self) -> None:
        """Return when every job is done."""
        ...


class LocalLog:
    """A log in a folder; opens the one that is there, or begins one.

    Args:
        path: The folder. It is made, for its owner alone, if there is none.
        clock: Milliseconds since 1970.
        deliver: Puts a callback on the owner's loop.
        random_bytes: Draws a new log's id.
        on_fatal: Told on the owner's loop, with an AppendUnknownError, that the disk failed. What was under way is
            unknown and the log takes nothing more: the process should stop, and the next start finds out.
        fsync: Sync before an append is acknowledged (`always`), ten times a second (`interval`), or when a segment
            is full or the log is closed (`never`).
        create: Whether to begin a log where there is none.
        first: What a new log begins with, a Genesis for each partition, if it goes on with the history of another.

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
        self._stuck: list[Append] = []  # those of a displaced segment that is not saved yet
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
        seconds = INTERVAL_SECONDS if self._syncs else LOOK_SECONDS
        self._background = background or WriterThread(self.look, seconds)

    @staticmethod
    def open_reader(path: Path | str, disk: Filesystem | None = None) -> LogReader:
        """Read the log in a folder, beside its writer or without one."""
        return LogReader(Path(path), disk or SystemFilesystem())

    @property
    def log_id(self) -> bytes:
        """What tells this log from any other."""
        return self._genesis[0].log_id

    @property
    def partitions(self) -> int:
        """How many there are."""
        return len(self._genesis)

    def append(self, partition: int, entry: Entry, done: AppendCallback) -> None:
        """Write `entry` after everything appended before it."""
        assert 0 <= partition < self.partitions, "no such partition"
        if self._closed:
            self._answer(done, LogError("the log is closed"))
            return
        self._waiting.append(Append(partition, encode_entry(entry), self._clock(), done))
        self._background.run(self._commit)

    def read(self, partition: int, start: int = 0) -> Iterator[Record]:
        """The durable records from offset `start` to the end as it is at the call."""
        return self._history.read(partition, start, self._writer.durable.limit)

    def hash_of(self, partition: int, offset: int) -> bytes:
        """What tells the history up to and including a record from any other."""
        return self._history.hash_of(partition, offset, self._writer.durable.limit)

    def end(self, partition: int) -> int:
        """The offset of the next record."""
        return self._writer.durable.ends[partition]

    def genesis(self, partition: int) -> Genesis:
        """The partition's first command."""
        return self._genesis[partition]

    def truncate_before(self, partition: int, offset: int) -> None:
        """Refused: history is kept."""
        raise LogError(f"the log keeps its whole history, what precedes {partition}:{offset} too")

    def close(self) -> None:
        """Write and sync what was appended, and let another process write the log.

        Raises:
            LogError: What was acknowledged without a sync could not be synced now.
        """
        if self._closed:
            return
        self._closed = True
        self._background.close()
        try:
            if self._displaced is not None:
                raise self._displaced
            if self._failure is None:
                self._look_for_folder()  # it may have been renamed since the last look
                self._writer.finish()
        except DisplacedError as error:
            raise self._rescued_at_last(error) from error
        except OSError as error:
            raise LogError(f"the log in {self._folder} could not be synced: {error}") from error
        finally:
            self._writer.close()
            self._unlock()

    def _unlock(self) -> None:
        self._lock.close()
        self.disk.close()

    # What follows runs in the background.

    def _commit(self) -> None:
        """Write whatever waits. Every append asks for this once, so mostly an earlier one has done it already."""
        group: list[Append] = []
        while self._waiting:
            group.append(self._waiting.popleft())
        if not group:
            return
        try:
            results = self._write(group)
        except Exception as error:
            self._fail(error, group)
            return
        for append, result in zip(group, results, strict=True):
            self._answer(append.done, result)
        if not self._is_full:
            self._writer.fill_ahead()

    def _write(self, group: list[Append]) -> Sequence[Appended | LogError]:
        """Write the group, or refuse it for lack of space; the operator hears once of either, clients each time."""
        if self._displaced is not None:
            raise self._displaced
        if self._failure is not None:
            raise self._failure
        try:
            results = self._writer.commit(group)
        except LogFullError as error:
            if not self._is_full:
                logger.warning("%s", error)
            self._is_full = True
            return [error] * len(group)
        if self._is_full:
            logger.warning("there is space for the log in %s again", self._folder)
        self._is_full = False
        return results

    def look(self) -> None:
        """Sync where an acknowledgement does not wait for it, and check that the log's files are where they were."""
        if self._displaced is not None:
            self._rescue(self._displaced)
            return
        if self._failure is not None:
            return
        try:
            if self._syncs:
                self._writer.sync()
            self._writer.check()
            self._writer.look_for_mark()
        except (OSError, DisplacedError) as error:
            self._fail(error, [])
        else:
            self._look_for_folder()

    def _look_for_folder(self) -> None:
        is_moved = not self.disk.is_in_place()
        if is_moved and not self._is_moved:
            logger.warning(
                "%s no longer leads to the folder that this process writes to, which was renamed or covered: "
                "writes go on to that folder. To serve it under its new name, stop this process first.",
                self._folder,
            )
        self._is_moved = is_moved

    def _fail(self, error: Exception, group: list[Append]) -> None:
        """After a failed write or sync nothing is known and nothing more is tried; every append is answered so."""
        if self._failure is None:
            error = self._displaced_or(error)
        if isinstance(error, DisplacedError):
            self._displaced = error
            self._stuck += group
            self._rescue(error)
        else:
            unknown = AppendUnknownError(
                f"the log in {self._folder} could not be written: {error}. Look at the disk, then start again."
            )
            unknown.__cause__ = error
            self._stop_with(unknown, group)

    def _stop_with(self, unknown: AppendUnknownError, group: list[Append]) -> None:
        for append in group:
            self._answer(append.done, unknown)
        if self._failure is None:
            self._failure = unknown
            self._deliver(lambda: self._on_fatal(unknown))

    def _displaced_or(self, error: Exception) -> Exception:
        """Return why a write failed: in a folder that is being removed, a segment that was displaced."""
        try:
            self._writer.check()
        except DisplacedError as displaced:
            return displaced
        except OSError:
            pass
        return error

    def _rescue(self, error: DisplacedError) -> None:
        """Save the records that are in no file with a name, and have the process stopped.

        Until that succeeds they are in this process alone. So it goes on, and answers nothing, because an answer of
        this kind ends it.
        """
        try:
            unknown = self._rescued(error)
        except OSError as failure:
            logger.critical(
                "%s, and its records cannot be saved: %s. They are in this process alone. Make room for a side file in "
                "%s; it is tried again every second, and this process ends when it is written.",
                error,
                failure,
                self._folder,
            )
            return
        self._displaced, group, self._stuck = None, self._stuck, []
        self._stop_with(unknown, group)

    def _rescued(self, error: DisplacedError) -> AppendUnknownError:
        """Return the error to stop with, when all acknowledged records are in a file that has a name.

        Raises:
            OSError: There is none for the records of the segment.
        """
        if not error.is_segment:
            return AppendUnknownError(
                f"the file `{error.name}` in {self._folder} was removed or replaced while this process held it. "
                "Nothing is lost: start again, and leave that file alone."
            )
        side_file = self._writer.save()
        step = "start again"
        if side_file.parent != self._folder:
            step = "put that file into the log's folder, then start"
        elif not self.disk.is_in_place():
            step = "that folder was renamed; start with its new name"
        return AppendUnknownError(
            f"the segment {error.name} in {self._folder} was removed or replaced while this process wrote to it. "
            f"{step.capitalize()}: the next start takes the records back from the side file {side_file}"
        )

    def _rescued_at_last(self, error: DisplacedError) -> AppendUnknownError:
        """The same, where the process ends in any case."""
        try:
            return self._rescued(error)
        except OSError as failure:
            return AppendUnknownError(
                f"{error}, and no side file could be written ({failure}): the records of that segment are lost"
            )

    def _answer(self, done: AppendCallback, result: Appended | LogError) -> None:
        self._deliver(lambda: done(result))


def disk_of(log: Log) -> Filesystem:
    """Return the disk that holds the log's folder, for other files of it; any disk for a log that has no folder."""
    return log.disk if isinstance(log, LocalLog) else SystemFilesystem()


class WriterThread:
    """A thread that does jobs in their order, and calls `tick` about every `seconds`."""

    def __init__(self, tick: Callable[[], None], seconds: float) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._tick = tick
        self._seconds = seconds
        self._thread = threading.Thread(target=self._work, name="foldb log", daemon=True)
        self._thread.start()

    def run(self, job: Callable[[], None]) -> None:
        """See Background."""
        self._jobs.put(job)

    def close(self) -> None:
        """See Background."""
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
