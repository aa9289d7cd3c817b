"""Changes and items that the feed does not keep: replayed from the log, and read like a feed while the replay runs.

    HistoricalFeeds.changes / items ──► a replay (replay_worker.py) ──► segments in a folder ──► HistoricalFeed.read

Few replays run at a time, because each folds a whole state; others wait in a queue. A reader whose replay is lost, with
its process or its own, starts another one at the position that it has reached.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import orjson

from ...log.commands import Position
from ...log.local.filesystem import SystemFilesystem
from ...materializer.feed_requests import Changes, OnFed, ReadChanges, fill
from ...materializer.fold.outcomes import Change
from ...model.errors import FoldbError, HorizonError, InternalServerError, TrimmedDataAccessError
from ...model.sequence_numbers import SequenceNumber
from ..helper_process import ListenerClosedError, start_helper
from ..temp_dirs import make_temp_dir
from .change_codec import SegmentOwner
from .replay_worker import ReplayJob, ReplayLog, ReplayProgress, ReplayTask, replay
from .segment_files import BlockCache, file_name
from .segments import Segments
from .serial_executor import Deliver, SerialExecutor

MAX_REPLAYS: Final = 2
_FOLDER: Final = "past"
_CACHE_BYTES: Final = 1 << 20
_MAX_SEQUENCE_NUMBER: Final = 10**30  # above every sequence number

logger = logging.getLogger(__name__)

OnProgress: TypeAlias = Callable[[ReplayProgress | Exception], None]
OnSegment: TypeAlias = Callable[[Path | Exception, Callable[[], None]], None]
StartReplay: TypeAlias = Callable[[ReplayTask, Path, OnProgress], Callable[[], None]]
"""Starts a replay that writes to a folder and reports its progress on the loop. Returns a function that stops it.

Raises OSError or HistoryError if the replay cannot start now.
"""


class HistoryError(FoldbError):
    """The history could not be read from the log."""


class HistoricalFeeds:
    """The historical feeds of one process.

    Args:
        folder: Returns the folder for segments; None for a temporary folder of the system.
        reading: Executor that reads files.
        check: Raises HorizonError if a trim removed records of a range.
    """

    def __init__(
        self,
        start_replay: StartReplay,
        folder: Callable[[], Path | None],
        log_id: bytes,
        reading: SerialExecutor,
        check: Callable[[ReplayTask], None] = lambda _: None,
    ) -> None:
        self._start_replay = start_replay
        self._folder = folder
        self._log_id = log_id
        self._reading = reading
        self._check = check
        self._open: set[HistoricalFeed] = set()
        self._replaying: set[HistoricalFeed] = set()
        self._queue: deque[HistoricalFeed] = deque()

    def changes(self, partition: int, table: int, after: int, until: int) -> "HistoricalFeed":
        """Return the changes of a table with after < sequence number <= until, with or without an enabled stream."""
        return self._enqueue(ReplayTask(partition, table, after, until))

    def items(self, partition: int, table: int, sequence_number: SequenceNumber) -> "HistoricalFeed":
        """Return the items of a table after all changes up to `sequence_number`.

        They are changes that are reads, numbered from 1 in the order of a Scan; `next` of the last page is
        `sequence_number`.
        """
        return self._enqueue(ReplayTask(partition, table, 0, sequence_number, items=True))

    def segment(self, partition: int, table: int, after: int, until: int, on_done: OnSegment) -> None:
        """Rebuild the segment of a feed that has the changes of a table with after < sequence number <= until.

        Readers wait for it, so it runs before all queued replays and beside the running ones. `on_done` receives the
        file, or the error, and a function to call when the file is moved or useless.
        """

        def ended(history: HistoricalFeed) -> None:
            path = history.folder / file_name(table, after)
            on_done(history.error or path, history.close)

        self._enqueue(ReplayTask(partition, table, after, until, is_segment=True), ended)

    def close(self) -> None:
        """Stop all replays."""
        self._queue.clear()
        for history in list(self._open):
            history.close()

    def _enqueue(
        self, task: ReplayTask, on_replayed: Callable[["HistoricalFeed"], None] = lambda _: None
    ) -> "HistoricalFeed":
        owner = SegmentOwner(self._log_id, task.partition, task.table)
        history = HistoricalFeed(task, owner, self._reading, self._replay_ended, on_replayed)
        self._open.add(history)
        try:
            self._check(task)
        except HorizonError as error:
            history.error = error
            on_replayed(history)
            return history
        if task.is_segment:
            self._queue.appendleft(history)
        else:
            self._queue.append(history)
        self._start_next()
        return history

    def _start_next(self) -> None:
        while self._queue and len(self._replaying) < MAX_REPLAYS + self._queue[0].is_segment:
            history = self._queue.popleft()
            self._replaying.add(history)
            history.start(self._start_replay, self._folder())

    def _replay_ended(self, history: "HistoricalFeed") -> None:
        """Start the next replay, after one ended or was closed in the queue."""
        self._replaying.discard(history)
        if history.is_closed:
            self._open.discard(history)
        with suppress(ValueError):
            self._queue.remove(history)
        self._start_next()


class HistoricalFeed:
    """A range of a table's history, read like a feed.

    Attributes:
        folder: The folder of its segments.
        error: The error of the replay; another replay may succeed.
        is_closed: Whether the reader has closed it.
    """

    def __init__(
        self,
        task: ReplayTask,
        owner: SegmentOwner,
        reading: SerialExecutor,
        on_ended: Callable[["HistoricalFeed"], None],
        on_replayed: Callable[["HistoricalFeed"], None] = lambda _: None,
    ) -> None:
        self.folder = Path()  # made by `start`
        self.error: Exception | None = None
        self._task = task
        self._on_replayed = on_replayed
        self._reading = reading
        self._on_ended = on_ended
        self._segments = Segments(
            SystemFilesystem(), lambda: self.folder, owner, BlockCache(_CACHE_BYTES), after=task.after
        )
        self._remove: Callable[[], None] = lambda: None
        self._stop: Callable[[], None] = lambda: None
        self._progress = ReplayProgress(None, 0, False)
        self._last = task.after  # the highest sequence number that can be read
        self._waiting: list[tuple[ReadChanges, OnFed]] = []
        self.is_closed = False

    @property
    def has_failed(self) -> bool:
        """Whether the replay failed; another one may succeed."""
        return self.error is not None

    @property
    def is_segment(self) -> bool:
        return self._task.is_segment

    @property
    def is_awaited(self) -> bool:
        """Whether a read waits for changes that are not replayed yet."""
        return bool(self._waiting)

    def start(self, start_replay: StartReplay, parent: Path | None) -> None:
        """Start the replay in a new folder."""

        def made(made_dir: tuple[Path, Callable[[], None]] | Exception) -> None:
            if isinstance(made_dir, Exception):
                self._update(made_dir)
            elif self.is_closed:
                _, remove = made_dir
                remove()
            else:
                self.folder, self._remove = made_dir
                try:
                    self._stop = start_replay(self._task, self.folder, self._update)
                except (OSError, HistoryError) as error:
                    self._update(error)

        self._reading.submit(lambda: make_temp_dir(parent), made)

    def read(self, request: ReadChanges, done: OnFed) -> None:
        """Answer with a page. `next` of the last page is the upper bound of the range, and it is marked as the end.

        A read waits for changes, regardless of its `wait_ms`.
        """
        if isinstance(self.error, HorizonError):
            done(TrimmedDataAccessError(str(self.error)), self._position)
        elif self.error is not None or self.is_closed:
            done(InternalServerError(), self._position)
        elif request.after_sequence_number < self._last:
            self._reading.submit(lambda: self._page(request), lambda page: self._answer(request, page, done))
        elif self._progress.is_over:
            done(self._changes([], True), self._position)
        else:
            self._waiting.append((request, done))

    def close(self) -> None:
        """Stop the replay and remove its folder."""
        if not self.is_closed:
            self.is_closed = True
            self._stop()
            self._read_again()
            self._on_ended(self)
            self._reading.submit(self._remove, lambda _: None)

    def _page(self, request: ReadChanges) -> tuple[list[Change], bool]:
        page: list[Change] = []
        blocks = self._segments.read(request.after_sequence_number, _MAX_SEQUENCE_NUMBER)
        return page, any(fill(page, block, request) for block in blocks)

    def _answer(self, request: ReadChanges, found: Any, done: OnFed) -> None:
        if isinstance(found, Exception):
            self._update(found)
            done(InternalServerError(), self._position)
            return
        page, is_full = found
        is_all = self._progress.is_over and (not page or page[-1].sequence_number >= self._last)
        is_end = not is_full and is_all
        if page or is_end:
            done(self._changes(page, is_end), self._position)
        else:  # all changes belong to another stream
            self.read(replace(request, after_sequence_number=self._last), done)

    def _changes(self, page: list[Change], is_end: bool) -> Changes:
        after = self._task.until if is_end else page[-1].sequence_number
        return Changes(page, after, self._task.after, is_end, self._progress.time)

    @property
    def _position(self) -> Position:
        return Position(self._task.partition, -1)

    def _update(self, progress: ReplayProgress | Exception) -> None:
        """Process the progress of the replay, or its error."""
        if self.is_closed:
            return
        if isinstance(progress, Exception):
            logger.error("cannot read the history of table %d from the log: %s", self._task.table, progress)
            self.error = progress
            self._on_ended(self)
            self._read_again()
            self._on_replayed(self)
            return

        def followed(error: Any) -> None:
            if isinstance(error, Exception):
                self._update(error)
                return
            self._progress = progress
            self._last = self._segments.last
            if progress.is_over:
                self._on_ended(self)
            self._read_again()
            if progress.is_over:
                self._on_replayed(self)

        extent = progress.extent
        self._reading.submit(lambda: None if extent is None else self._segments.follow(extent), followed)

    def _read_again(self) -> None:
        waiting, self._waiting = self._waiting, []
        for request, done in waiting:
            self.read(request, done)


class _LoopCallback:
    """Calls a function on the loop from a thread, until it is closed: a closed loop accepts no callbacks."""

    def __init__(self, deliver: Deliver, on_progress: OnProgress) -> None:
        self._deliver = deliver
        self._on_progress = on_progress
        self._lock = threading.Lock()
        self._is_open = True

    def send(self, progress: ReplayProgress | Exception) -> None:
        """Schedule the function.

        Raises:
            ListenerClosedError: The callback is closed.
        """
        with self._lock:
            if not self._is_open:
                raise ListenerClosedError
            self._deliver(lambda: self._on_progress(progress))

    def close(self) -> None:
        """Schedule no further calls."""
        with self._lock:
            self._is_open = False


def in_thread(log: ReplayLog, deliver: Deliver) -> StartReplay:
    """Return a StartReplay that runs in threads of this process, for a log that no other process can read."""

    def start(task: ReplayTask, folder: Path, on_progress: OnProgress) -> Callable[[], None]:
        callback = _LoopCallback(deliver, on_progress)

        def run() -> None:
            with suppress(ListenerClosedError):
                try:
                    replay(log, task, folder, callback.send)
                except (FoldbError, OSError) as error:
                    callback.send(error)

        try:
            threading.Thread(target=run, name="history", daemon=True).start()
        except RuntimeError as error:  # the system has no room for another thread
            raise HistoryError(str(error)) from error
        return callback.close

    return start


def in_process(
    deliver: Deliver,
    *,
    database: Path | None = None,
    kafka: str | None = None,
    security: Path | None = None,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> StartReplay:
    """Return a StartReplay that runs in helper processes, for a log in a folder or in Kafka.

    `security` and `variables` are the arguments of `Security.read`; the helper reads them from its stdin.
    """

    def start(task: ReplayTask, folder: Path, on_progress: OnProgress) -> Callable[[], None]:
        job = ReplayJob(task, str(folder), _text(database), kafka, _text(security), dict(variables))
        callback = _LoopCallback(deliver, on_progress)

        def on_exit(code: int) -> None:
            if code:
                callback.send(HistoryError(f"its process ended with {code}"))

        process = start_helper(
            "foldb.streams.feed.replay_worker",
            job.encode(),
            lambda line: callback.send(ReplayProgress.from_json(orjson.loads(line))),
            on_exit,
        )

        def stop() -> None:
            callback.close()
            process.kill()

        return stop

    return start


def folder_in(database: Path) -> Path:
    """Return the folder of historical feeds in a database's folder."""
    return database / "changes" / _FOLDER


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path.absolute())
