"""Trims the log of a served folder: at intervals, and when an operator asks.

    timer, or `foldb log trim` ──► materializer/trim_worker.py, at low priority ──► LocalLog.trim, the writer's thread

The process folds the log and writes the foundation. This process, which holds the writer's lock, puts it into force and
removes the segments.
"""

import asyncio
import logging
import subprocess
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeAlias

from ...log.local import LocalLog
from ...log.local.foundation import Foundation
from ...materializer.trim_job import MODULE, TrimCut, TrimFailedError, TrimJob, encode_job, read_result
from ...materializer.worker import Cancellable
from ...model.durations import time_text
from ...model.lazy_dataclass import dataclass
from ...streams.helper_process import start_helper
from ..settings import Settings

_MOST_OFTEN_S: Final = 1.0
_LEAST_OFTEN_S: Final = 24 * 3600.0
# A trim writes the state of the whole database, so it waits for a tenth of the retention period.
_FRACTION: Final = 10
# The first trim comes early, so that a server with frequent restarts trims too, but not in its first minutes.
_FIRST_S: Final = 10 * 60.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TrimResult:
    """The result of a trim: the foundation and the number of removed segments; or neither, if nothing was removed."""

    foundation: Foundation | None
    segments: int = 0


@dataclass(frozen=True, slots=True)
class RequestedTrim:
    """A trim that an operator requested, with the future of its result."""

    trim_id: int
    done: "asyncio.Future[TrimResult | Exception]"


OnTrimmed: TypeAlias = Callable[[TrimResult | Exception], None]


class Retention:
    """Trims a log, one trim at a time.

    Args:
        log: The log, which this process writes.
        settings: The folder, the retention period and the archive.
        clock: Returns milliseconds since 1970.
        loop: The event loop.
        on_removed: Called when records were removed.

    Attributes:
        requested: The latest trim that an operator requested.
    """

    def __init__(
        self,
        log: LocalLog,
        settings: Settings,
        *,
        clock: Callable[[], int],
        loop: asyncio.AbstractEventLoop,
        on_removed: Callable[[], None],
    ) -> None:
        self._log = log
        self._settings = settings
        self._clock = clock
        self._loop = loop
        self._on_removed = on_removed
        self.requested: RequestedTrim | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._on_done: OnTrimmed | None = None
        self._result: Foundation | Exception | None = None
        self._is_closed = False
        self._timer: Cancellable | None = None
        if settings.history_retention_ms:
            seconds = settings.history_retention_ms / 1000 / _FRACTION
            self._every_s = min(max(seconds, _MOST_OFTEN_S), _LEAST_OFTEN_S)
            self._timer = loop.call_later(min(self._every_s, _FIRST_S), self._trim_old)

    @property
    def is_trimming(self) -> bool:
        """Whether a trim is under way."""
        return self._on_done is not None

    def request(self, cut: TrimCut) -> RequestedTrim:
        """Start a trim for an operator."""
        trim_id = 1 if self.requested is None else self.requested.trim_id + 1
        self.requested = RequestedTrim(trim_id, self._loop.create_future())
        self.trim(cut, self.requested.done.set_result)
        return self.requested

    def trim(self, cut: TrimCut, on_done: OnTrimmed, *, is_lenient: bool = False) -> None:
        """Trim the log before a cut, to the archive of the settings. `on_done` receives the result on the loop.

        Without `is_lenient` a cut that passes a bound is refused; with it, less is removed.
        """
        assert not self.is_trimming, "one trim at a time"
        assert self._settings.path is not None, "the log is in a folder"
        self._on_done = on_done
        if not self._log.disk.is_in_place():
            self._end(TrimFailedError("the folder was renamed: stop and start with its new name"))
            return
        job = TrimJob(
            self._settings.path,
            cut,
            self._settings.history_archive,
            self._settings.stream_retention_ms,
            is_lenient,
        )
        self._result = TrimFailedError("its process ended early")
        try:
            self._process = start_helper(MODULE, encode_job(job), self._read, self._exited)
        except OSError as error:
            self._end(error)

    def close(self) -> None:
        """Stop a trim that removes nothing yet, and start no other."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _read(self, line: bytes) -> None:
        """Keep the result of the process. Called in the thread that reads its output."""
        try:
            self._result = read_result(line)
        except TrimFailedError as error:
            self._result = error

    def _exited(self, _: int) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._prepared)

    def _prepared(self) -> None:
        if self._is_closed:
            return
        result = self._result
        if isinstance(result, Foundation):
            self._log.trim(result, lambda removed: self._removed(result, removed))
        else:
            self._end(TrimResult(None) if result is None else result)

    def _removed(self, foundation: Foundation, removed: int | Exception) -> None:
        self._on_removed()
        self._end(removed if isinstance(removed, Exception) else TrimResult(foundation, removed))

    def _end(self, result: TrimResult | Exception) -> None:
        self._process = None
        on_done, self._on_done = self._on_done, None
        assert on_done is not None, "a trim is under way"
        on_done(result)

    def _trim_old(self) -> None:
        """Trim the history that is older than the retention period, and repeat."""
        if not self.is_trimming:
            cut = TrimCut(time_ms=self._clock() - self._settings.history_retention_ms)
            self.trim(cut, _report, is_lenient=True)
        if not self._is_closed:
            self._timer = self._loop.call_later(self._every_s, self._trim_old)


def _report(result: TrimResult | Exception) -> None:
    if isinstance(result, Exception):
        logger.error("the log was not trimmed: %s; the next trim follows", result)
    elif result.foundation is not None:
        logger.info(
            "%d segments were removed: the history begins at %s",
            result.segments,
            time_text(result.foundation.time_ms),
        )
