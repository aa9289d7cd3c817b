"""The history process: `python -m foldb.server.history.worker`, with its job on stdin and a socket to the server.

    frame ──► read ──► History.at(cut) ──► fold/reads.py ──► frame

It serves the calls of one server, in the encoding of calls between nodes, and ends with it. It is the only process that
opens the folder of the histories.
"""

import asyncio
import gc
import logging
import socket
import sys
from collections.abc import Collection
from dataclasses import asdict, field
from itertools import chain
from pathlib import Path
from typing import Any, Final

import orjson

from ...log.commands import Genesis, Position
from ...log.local.filesystem import SystemFilesystem
from ...log.local.reader import LogReader
from ...materializer.fold.fold_record import Void
from ...materializer.history.engine import DamagedHistoryError, FullDiskError, HistoryInUseError
from ...materializer.history.epochs import EpochHistory, Epochs, open_history
from ...materializer.history.history import NotFoldedError, PartitionCut
from ...materializer.history.reads import read_past
from ...materializer.history.requests import PastAnswer, PastRead
from ...materializer.os_process import hide
from ...materializer.snapshots import Snapshots
from ...model.errors import FoldbError, LogError, RequestError
from ...model.lazy_dataclass import dataclass
from ...model.limits import limits_named
from ...streams.temp_dirs import make_temp_dir
from ..cluster.codec import PlainValue
from ..cluster.frames import Frames
from ..cluster.messages import encode_position
from ..cluster.wire import ANSWERED, AS_OF, FAILED

logger = logging.getLogger(__name__)

NOT_FOLDED: Final = 3
"""The status of an answer: the log is not folded up to the cut yet. ANSWERED and FAILED are those between nodes."""


IDLE_S: Final = 1.0
"""The pause between two looks at a log that had nothing new. A read of newer records does not wait for it."""


_RETRY_S: Final = 2.0
"""The pause after a full disk, a disk that fails or a log that cannot be read.

After a full disk the history is opened again: RocksDB writes nothing more after a failed write.
"""


@dataclass(frozen=True, slots=True)
class HistoryJob:
    """The job that the process reads from stdin.

    Attributes:
        log_id: The id of the log, in hexadecimal.
        folder: The folder of the histories; None for a temporary one.
        database: The folder of the log, or None.
        kafka: The address of a log in Kafka, or None.
        security: The file of the Kafka settings, or None.
        variables: The variables that they use.
        descriptor: The file descriptor of the socket to the server.
    """

    log_id: str
    folder: str | None
    database: str | None = None
    kafka: str | None = None
    security: str | None = None
    variables: dict[str, str] = field(default_factory=dict, repr=False)
    descriptor: int = -1

    def encode(self) -> bytes:
        """Return the job as a line of JSON."""
        return orjson.dumps(asdict(self)) + b"\n"


class Histories:
    """The histories of the partitions that were read or are to be kept. Between reads they follow the log.

    The turns of a partition for which a read waits come first. So no page of a restore waits for partitions that are
    behind by the items of earlier pages.

    Args:
        log: The log.
        folder: The folder of the histories.
        snapshots: The folder of the database or node, which may have snapshots; None if there is none.
        loop: The event loop: each turn folds one partition for at most 5 ms, and reads and answers have the next.
    """

    def __init__(
        self, log: Any, folder: Path, snapshots: Path | None, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._log = log
        self._folder = folder
        self._snapshots = snapshots
        self._loop = loop
        self._followers: dict[int, Epochs] = {}
        self._timers: dict[int, asyncio.Handle] = {}  # of the partitions that have nothing to fold
        self._due: dict[int, None] = {}  # the partitions that have, in the order of their turns
        self._wanted: set[int] = set()  # the partitions for which reads wait
        self._has_turn = False  # `_fold_next` is scheduled
        self._is_paused = False
        self._full: set[int] = set()  # the partitions whose full disk was reported
        self._reported: set[int] = set()  # the partitions whose failed fold was reported

    def open(self, partition_id: int, void: Collection[Void]) -> EpochHistory:
        """Return a history to read.

        It is folded without the commands in `void`, which the server has skipped.

        Raises:
            HistoryInUseError: The process before this one has not ended yet.
            NotFoldedError: The disk was full a moment ago.
            FullDiskError: The disk is full.
            FoldbError: The log cannot be read.
        """
        if partition_id in self._full and partition_id not in self._followers:
            raise NotFoldedError("the disk is full")
        follower = self._opened(partition_id)
        follower.declare_void(void)
        return follower.history

    def _opened(self, partition_id: int) -> Epochs:
        follower = self._followers.get(partition_id)
        if follower is None:
            snapshots = None
            if self._snapshots is not None:
                partitions = self._log.genesis(0).partitions
                snapshots = Snapshots(self._snapshots, SystemFilesystem(), partition_id, partitions)
            follower = open_history(self._folder, self._log, partition_id, snapshots)
            self._followers[partition_id] = follower
        return follower

    def want(self, partition_id: int, *, waits: bool) -> None:
        """Give a partition turns before others as long as a read waits for it, or until it has nothing more to fold."""
        if waits:
            self._wanted.add(partition_id)
        else:
            self._wanted.discard(partition_id)

    def repair(self, partition_id: int) -> bool:
        """Delete the damaged epochs of a history; return whether there are any."""
        return self._followers[partition_id].find_damage()

    def keep(self, partition_ids: Collection[int]) -> None:
        """Close the histories of all other partitions, and look at the log of these now."""
        for partition_id in (self._followers.keys() | self._full) - set(partition_ids):
            self._unschedule(partition_id)
            self.want(partition_id, waits=False)
            self._full.discard(partition_id)
            self._reported.discard(partition_id)
            if partition_id in self._followers:
                self._close(partition_id)
        for partition_id in self._followers:
            self._fold_soon(partition_id)

    def close(self) -> None:
        """Close all histories."""
        self.keep(())

    def _close(self, partition_id: int) -> None:
        """Close a history. If the disk fails, the next start folds from the checkpoint before."""
        follower = self._followers.pop(partition_id)
        try:
            follower.close()
        except OSError as error:
            logger.error("cannot save the history of partition %d: %s", partition_id, error)
            follower.abandon()

    def follow(self, partition_id: int) -> None:
        """Fold for 5 ms now and again up to the end of the log, then poll the log after each pause.

        While the disk is full, try again after each pause.

        Raises:
            FoldbError: The log cannot be folded.
        """
        self._unschedule(partition_id)
        try:
            has_more = self._opened(partition_id).step()
        except FullDiskError as error:
            self.suspend(partition_id, error)
            return
        self._reported.discard(partition_id)
        if has_more:
            self._fold_soon(partition_id)
        else:
            self.want(partition_id, waits=False)
            self._full.discard(partition_id)
            self._timers[partition_id] = self._loop.call_later(IDLE_S, self._fold_soon, partition_id)

    def _fold_soon(self, partition_id: int) -> None:
        """Fold a partition after those that are wanted or due before it, one in each turn of the loop."""
        self._unschedule(partition_id)
        self._due[partition_id] = None
        self._take_turn()

    def pause(self) -> None:
        """Take no turns until `resume`."""
        self._is_paused = True

    def resume(self) -> None:
        """Go on to fold."""
        self._is_paused = False
        self._take_turn()

    def _take_turn(self) -> None:
        if self._due and not self._has_turn:
            self._has_turn = True
            self._loop.call_soon(self._fold_next)

    def _fold_next(self) -> None:
        self._has_turn = False
        if self._is_paused:
            return
        wanted = (each for each in self._due if each in self._wanted)
        due = next(chain(wanted, self._due), None)
        if due is not None:
            try:
                self.follow(due)
            except FoldbError as error:
                self._fold_later(due, error)
            except OSError as error:
                self._abandon(due)
                self._fold_later(due, error)
            finally:
                self._take_turn()

    def _unschedule(self, partition_id: int) -> None:
        self._due.pop(partition_id, None)
        timer = self._timers.pop(partition_id, None)
        if timer is not None:
            timer.cancel()

    def suspend(self, partition_id: int, error: FullDiskError) -> None:
        """Release a history that cannot be written, and open it again after a pause. Nothing is folded again."""
        if partition_id not in self._full:
            logger.error(
                "cannot write the history of partition %d: %s; its past is read again when there is space",
                partition_id,
                str(error),  # a kept exception would keep the storage open
            )
        self._full.add(partition_id)
        self._abandon(partition_id)
        self._unschedule(partition_id)
        self._timers[partition_id] = self._loop.call_later(_RETRY_S, self._fold_soon, partition_id)

    def _abandon(self, partition_id: int) -> None:
        """Release a history without a write. It is opened again when it is needed."""
        follower = self._followers.pop(partition_id, None)
        if follower is not None:
            follower.abandon()

    def _fold_later(self, partition_id: int, error: FoldbError | OSError) -> None:
        """Fold a partition after a pause. Its log cannot be read, or its disk fails, which is reported once."""
        if partition_id not in self._reported:
            logger.error(
                "cannot fold the history of partition %d: %s; trying again every %d seconds",
                partition_id,
                error,
                _RETRY_S,
            )
        self._reported.add(partition_id)
        self._timers[partition_id] = self._loop.call_later(_RETRY_S, self._fold_soon, partition_id)


class HistoryServer(Frames):
    """Answers the calls of the server: `[id, partition, arguments, void]`, or `[0, partitions]` to keep these alone."""

    def __init__(self, log: Any, histories: Histories, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.closed: asyncio.Future[None] = loop.create_future()
        genesis: Genesis = log.genesis(0)
        self._partitions = genesis.partitions
        self._limits = limits_named(genesis.limits)
        self._histories = histories
        self.trust()

    def on_frame(self, value: PlainValue) -> None:
        call_id, partition_id, *arguments = value
        if not call_id:
            self._histories.keep(partition_id)
            return
        try:
            cut, read = AS_OF.read_arguments(arguments[0], self._limits)
            void = [(offset, index) for offset, index in arguments[1]]
            result, position = self._read(partition_id, cut, read, void)
        except (NotFoldedError, HistoryInUseError):
            self.send([call_id, NOT_FOLDED])
        except (FoldbError, OSError) as error:
            logger.error("cannot read the past of partition %d: %s; the read fails", partition_id, error)
            self.send([call_id, FAILED])
        except Exception:
            logger.exception("cannot read the past of partition %d; the read fails", partition_id)
            self.send([call_id, FAILED])
        else:
            self.send([call_id, ANSWERED, AS_OF.result(result), encode_position(position), position.time_ms])

    def _read(
        self, partition_id: int, cut: PartitionCut, read: PastRead, void: Collection[Void]
    ) -> tuple[PastAnswer | RequestError, Position]:
        """Read a cut. If it is not folded, begin to fold it at once.

        Raises:
            NotFoldedError: The cut is not folded yet, or the disk is full.
        """
        try:
            return self._read_or_fold(partition_id, cut, read, void)
        except FullDiskError as error:
            self._histories.suspend(partition_id, error)
            raise NotFoldedError(str(error)) from error

    def _read_or_fold(
        self, partition_id: int, cut: PartitionCut, read: PastRead, void: Collection[Void]
    ) -> tuple[PastAnswer | RequestError, Position]:
        history = self._histories.open(partition_id, void)
        try:
            answer = read_past(history, cut, read, self._partitions)
        except NotFoldedError:
            self._histories.want(partition_id, waits=True)
            self._histories.follow(partition_id)
            history = self._histories.open(partition_id, void)
            answer = read_past(history, cut, read, self._partitions)
        except DamagedHistoryError as error:
            if not self._histories.repair(partition_id):
                raise
            self._histories.follow(partition_id)
            raise NotFoldedError(str(error)) from error
        self._histories.want(partition_id, waits=False)
        return answer

    def pause_writing(self) -> None:
        """Fold nothing while an answer waits for room in the socket, which has a fifth of a page: the server waits."""
        self._histories.pause()

    def resume_writing(self) -> None:
        self._histories.resume()

    def on_close(self, error: FoldbError | None) -> None:
        if error is not None:
            logger.error("cannot read a call of the server: %s; the process ends", error)
        if not self.closed.done():
            self.closed.set_result(None)


def open_log(job: HistoryJob) -> Any:
    """Open the log to read it.

    Raises:
        LogError: The job names another log than that of its id: the folder was renamed.
    """
    log = _open(job)
    if log.genesis(0).log_id.hex() != job.log_id:
        raise LogError(f"{job.database or job.kafka} is another log than that of the server")
    return log


def _open(job: HistoryJob) -> Any:
    if job.database is not None:
        folder = Path(job.database)
        return LogReader(folder, SystemFilesystem().hold(folder))
    from ...log.kafka import KafkaLog, Security

    assert job.kafka is not None, "a log is in a folder or in Kafka"
    security = None if job.security is None else Path(job.security)
    return KafkaLog.open_reader(job.kafka, Security.read(security, job.variables))


async def serve(job: HistoryJob) -> None:
    """Answer calls until the server closes the socket."""
    loop = asyncio.get_running_loop()
    log = open_log(job)
    folder, remove = (Path(job.folder), None) if job.folder is not None else make_temp_dir()
    folder.mkdir(mode=0o700, exist_ok=True)
    snapshots = job.database if job.database is not None or job.folder is None else folder.parent
    histories = Histories(log, folder, None if snapshots is None else Path(snapshots), loop)
    try:
        server = HistoryServer(log, histories, loop)
        await loop.create_unix_connection(lambda: server, sock=socket.socket(fileno=job.descriptor))
        await server.closed
    finally:
        histories.close()
        log.close()
        if remove is not None:
            remove()


def main() -> None:
    """Run the job on stdin."""
    hide()  # before there is a password to be read
    job = HistoryJob(**orjson.loads(sys.stdin.buffer.readline()))
    gc.freeze()
    asyncio.run(serve(job))


if __name__ == "__main__":
    main()
