"""What the feed does not keep, from the log: read like a feed while it is being made.

    Histories.changes / items ──► who makes it (historian.py) ──► segments in a folder ──► History.read

A few are made at a time, because each goes through a whole state; others wait for their turn. What a reader has to make
again, because it or its process was gone meanwhile, it asks for from where it was.
"""

import logging
import os
import subprocess
import sys
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
from ...materializer.feed_requests import Changes, OnFed, ReadChanges
from ...materializer.fold.outcomes import Change
from ...materializer.os_process import helper_environment
from ...model.errors import FoldbError, InternalServerError
from ..temp_dirs import scratch
from .change_codec import Owner
from .replay_worker import Job, Readable, Task, Told, make
from .segments import Blocks, Segments, file_name
from .serial_executor import Deliver, Work
from .table_changes import fill

AT_A_TIME: Final = 2
_NICENESS: Final = 10
_FOLDER: Final = "past"
_FAR: Final = 10**30  # above every number

logger = logging.getLogger(__name__)

Tell: TypeAlias = Callable[[Told | Exception], None]
Made: TypeAlias = Callable[[Path | Exception, Callable[[], None]], None]
Maker: TypeAlias = Callable[[Task, Path, Tell], Callable[[], None]]
"""Begins to make what a task asks for in a folder, tells on the loop how far it is, and returns what ends it.

It raises OSError or HistoryError where that cannot be begun now.
"""


class HistoryError(FoldbError):
    """What is past could not be read from the log."""


class HistoricalFeeds:
    """Those of one process.

    Args:
        maker: Who makes them.
        folder: Returns where; a temporary folder if that is None.
        log_id: Of which log.
        reading: Where files are read.
    """

    def __init__(self, maker: Maker, folder: Callable[[], Path | None], log_id: bytes, reading: Work) -> None:
        self._maker = maker
        self._folder = folder
        self._log_id = log_id
        self._reading = reading
        self._open: set[HistoricalFeed] = set()
        self._made: set[HistoricalFeed] = set()
        self._waiting: deque[HistoricalFeed] = deque()

    def changes(self, partition: int, table: int, after: int, until: int) -> "HistoricalFeed":
        """The changes of a table with after < number <= until, whether its stream was enabled or not."""
        return self._begin(Task(partition, table, after, until))

    def items(self, partition: int, table: int, number: int) -> "HistoricalFeed":
        """The items of a table as they were after all changes up to `number`.

        They are changes that are reads, numbered from 1 in the order of a Scan; `next` of the last page is `number`.
        """
        return self._begin(Task(partition, table, 0, number, items=True))

    def segment(self, partition: int, table: int, after: int, until: int, done: Made) -> None:
        """Make the segment of a feed that holds the changes of a table with after < number <= until.

        Readers wait for it, so it takes its turn before all that waits, beside those that are being made. `done` gets
        the file, or why there is none, and what is to be called when the file is moved or of no use.
        """

        def ended(history: HistoricalFeed) -> None:
            path = history.folder / file_name(table, after)
            done(history.error or path, history.close)

        self._begin(Task(partition, table, after, until, kept=True), ended)

    def close(self) -> None:
        """Make no more."""
        self._waiting.clear()
        for history in list(self._open):
            history.close()

    def _begin(
        self, task: Task, made: Callable[["HistoricalFeed"], None] = lambda _: None
    ) -> "HistoricalFeed":
        owner = Owner(self._log_id, task.partition, task.table)
        history = HistoricalFeed(task, owner, self._reading, self._ended, made)
        self._open.add(history)
        if task.kept:
            self._waiting.appendleft(history)
        else:
            self._waiting.append(history)
        self._next()
        return history

    def _next(self) -> None:
        while self._waiting and len(self._made) < AT_A_TIME + self._waiting[0].is_segment:
            history = self._waiting.popleft()
            self._made.add(history)
            history.begin(self._maker, self._folder())

    def _ended(self, history: "HistoricalFeed") -> None:
        """It takes nobody's turn any more."""
        self._made.discard(history)
        if history.is_closed:
            self._open.discard(history)
        with suppress(ValueError):
            self._waiting.remove(history)
        self._next()


class HistoricalFeed:
    """One stretch of the past, read as a feed is; it answers when there is something, or all was read.

    Attributes:
        folder: Where it is made.
        error: Why it cannot be read; another one perhaps can.
        is_closed: Whether nobody reads it any more.
    """

    def __init__(
        self,
        task: Task,
        owner: Owner,
        reading: Work,
        ended: Callable[["HistoricalFeed"], None],
        made: Callable[["HistoricalFeed"], None] = lambda _: None,
    ) -> None:
        self.folder = Path()  # there is one when it begins
        self.error: Exception | None = None
        self._task = task
        self._made = made
        self._reading = reading
        self._ended = ended
        self._segments = Segments(
            SystemFilesystem(), lambda: self.folder, owner, Blocks(1 << 20), after=task.after
        )
        self._remove: Callable[[], None] = lambda: None
        self._stop: Callable[[], None] = lambda: None
        self._told = Told(None, 0, False)
        self._last = task.after  # the highest number that can be read
        self._waits: list[tuple[ReadChanges, OnFed]] = []
        self.is_closed = False

    @property
    def has_failed(self) -> bool:
        """Whether it cannot be read; another one perhaps can."""
        return self.error is not None

    @property
    def is_segment(self) -> bool:
        """Whether it takes the place of a segment of a feed."""
        return self._task.kept

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for what is not made yet."""
        return bool(self._waits)

    def begin(self, maker: Maker, within: Path | None) -> None:
        """Have it made, in a folder of its own."""

        def placed(place: tuple[Path, Callable[[], None]] | Exception) -> None:
            if isinstance(place, Exception):
                self._tell(place)
            elif self.is_closed:
                _, remove = place
                remove()
            else:
                self.folder, self._remove = place
                try:
                    self._stop = maker(self._task, self.folder, self._tell)
                except (OSError, HistoryError) as error:
                    self._tell(error)

        self._reading.do(lambda: scratch(within), placed)

    def read(self, request: ReadChanges, done: OnFed) -> None:
        """Answer with a page: `next` of the last one is what was asked for as `until`, and it says that it is the end.

        Whatever `wait_ms` says, it is waited until there is something.
        """
        if self.error is not None or self.is_closed:
            done(InternalServerError(), self._place)
        elif request.after_sequence_number < self._last:
            self._reading.do(lambda: self._page(request), lambda page: self._answer(request, page, done))
        elif self._told.is_over:
            done(self._changes([], True), self._place)
        else:
            self._waits.append((request, done))

    def close(self) -> None:
        """Nobody reads it any more: what is made is given up and removed."""
        if not self.is_closed:
            self.is_closed = True
            self._stop()
            self._look_again()
            self._ended(self)
            self._reading.do(self._remove, lambda _: None)

    def _page(self, request: ReadChanges) -> tuple[list[Change], bool]:
        page: list[Change] = []
        stretches = self._segments.read(request.after_sequence_number, _FAR)
        return page, any(fill(page, each, request) for each in stretches)

    def _answer(self, request: ReadChanges, found: Any, done: OnFed) -> None:
        if isinstance(found, Exception):
            self._tell(found)
            done(InternalServerError(), self._place)
            return
        page, is_full = found
        is_end = not is_full and self._told.is_over and (not page or page[-1].sequence_number >= self._last)
        if page or is_end:
            done(self._changes(page, is_end), self._place)
        else:
            self.read(replace(request, after_sequence_number=self._last), done)  # all of another stream

    def _changes(self, page: list[Change], is_end: bool) -> Changes:
        after = self._task.until if is_end else page[-1].sequence_number
        return Changes(page, after, self._task.after, is_end, self._told.time)

    @property
    def _place(self) -> Position:
        return Position(self._task.partition, -1)

    def _tell(self, told: Told | Exception) -> None:
        if self.is_closed:
            return
        if isinstance(told, Exception):
            logger.error("the past of table %d could not be read: %s", self._task.table, told)
            self.error = told
            self._ended(self)
            self._look_again()
            self._made(self)
            return

        def followed(error: Any) -> None:
            if isinstance(error, Exception):
                self._tell(error)
                return
            self._told = told
            self._last = self._segments.last
            if told.is_over:
                self._ended(self)
            self._look_again()
            if told.is_over:
                self._made(self)

        extent = told.extent
        self._reading.do(lambda: None if extent is None else self._segments.follow(extent), followed)

    def _look_again(self) -> None:
        waits, self._waits = self._waits, []
        for request, done in waits:
            self.read(request, done)


class _Line:
    """What a thread tells the loop by, until that hangs up: a loop that is closed takes nothing more."""

    def __init__(self, deliver: Deliver, tell: Tell) -> None:
        self._deliver = deliver
        self._tell = tell
        self._lock = threading.Lock()
        self._is_up = True

    def tell(self, told: Told | Exception) -> None:
        """Tell.

        Raises:
            HistoryError: Nobody listens any more.
        """
        with self._lock:
            if not self._is_up:
                raise HistoryError("nobody reads it any more")
            self._deliver(lambda: self._tell(told))

    def hang_up(self) -> None:
        """Listen no more."""
        with self._lock:
            self._is_up = False


def in_thread(log: Readable, deliver: Deliver) -> Maker:
    """Makes them in threads of this process: nobody else has the log."""

    def begin(task: Task, folder: Path, tell: Tell) -> Callable[[], None]:
        line = _Line(deliver, tell)

        def work() -> None:
            with suppress(HistoryError):
                try:
                    make(log, task, folder, line.tell)
                except (FoldbError, OSError) as error:
                    line.tell(error)

        _start(work)
        return line.hang_up

    return begin


def in_process(
    deliver: Deliver,
    *,
    database: Path | None = None,
    kafka: str | None = None,
    security: Path | None = None,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Maker:
    """Makes them in processes of their own, from a log in a folder or in Kafka.

    `security` and `variables` are the arguments of `Security.read`; they reach the process through its stdin.
    """

    def begin(task: Task, folder: Path, tell: Tell) -> Callable[[], None]:
        job = Job(task, str(folder), _text(database), kafka, _text(security), dict(variables))
        line = _Line(deliver, tell)
        # -P: Python must not look for modules in the folder that the server runs in.
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "foldb.streams.feed.replay_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=helper_environment(),
            start_new_session=True,
        )
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, _NICENESS)

        def listen() -> None:
            assert process.stdin is not None
            assert process.stdout is not None
            with suppress(HistoryError), process:
                with suppress(BrokenPipeError):
                    process.stdin.write(job.encode())
                    process.stdin.close()
                for told in process.stdout:
                    line.tell(Told.from_json(orjson.loads(told)))
                if process.wait() != 0:
                    line.tell(HistoryError(f"its process ended with {process.returncode}"))

        def stop() -> None:
            line.hang_up()
            process.kill()

        try:
            _start(listen)
        except HistoryError:
            with process:
                stop()
            raise
        return stop

    return begin


def _start(work: Callable[[], None]) -> None:
    try:
        threading.Thread(target=work, name="history", daemon=True).start()
    except RuntimeError as error:  # the system has no room for another thread
        raise HistoryError(str(error)) from error


def folder_in(database: Path) -> Path:
    """Where a database has room for what is past."""
    return database / "changes" / _FOLDER


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path.absolute())
