"""Has all files of a database read now and then by another process, and acts on the damage that it finds.

    every so often ──► streams/scrub.py, at low priority ──► log: reported, an operator has to act
                                                        ──► snapshot: removed there, the next is made now
                                                        ──► change segment: made again from the log

A server goes on although its log is damaged: what it serves is in memory and was whole when it was folded, and new
entries go to the newest segment. A start that needs the damaged one is refused.
"""

import logging
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Final, get_args

import orjson

from ...materializer.snapshot_scheduler import SnapshotScheduler
from ...materializer.worker import Cancellable, Scheduler
from ...streams.feed import Feed
from ...streams.helper_process import start_helper
from ...streams.scrub import Finding, Kind, ScrubJob

# A server that is restarted more often than it scrubs must be scrubbed too; but not while it is being tried out.
_FIRST_MS: Final = 10 * 60 * 1000

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

logger = logging.getLogger(__name__)


class ScrubProcess:
    """See the module.

    Args:
        folder: The database.
        feeds: The feed of each partition.
        every_ms: The pause between two scrubs.
        rate: How many bytes one reads in a second.
        maker: Makes snapshots; None where nothing does.
        clock: Milliseconds since 1970.
        scheduler: The loop.
        deliver: Puts a callback on the loop, from any thread.

    Attributes:
        damage: What the last scrub found, and what the present one has found so far.
        finished_ms: When the last scrub was finished; 0 before the first.
        bytes: How many bytes all scrubs have read.
    """

    def __init__(
        self,
        folder: Path,
        feeds: Sequence[Feed],
        *,
        every_ms: int,
        rate: int,
        maker: SnapshotScheduler | None,
        clock: Callable[[], int],
        scheduler: Scheduler,
        deliver: Callable[[Callable[[], None]], object],
    ) -> None:
        self.damage: list[Finding] = []
        self.finished_ms = 0
        self.bytes = 0
        self._job = ScrubJob(str(folder.absolute()), len(feeds), rate)
        self._feeds = feeds
        self._every_s = every_ms / 1000
        self._maker = maker
        self._clock = clock
        self._scheduler = scheduler
        self._deliver = deliver
        self._found: list[Finding] = []
        self._read = 0  # by the present scrub
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False
        self._timer: Cancellable = scheduler.call_later(min(every_ms, _FIRST_MS) / 1000, self._begin)

    def count(self, kind: Kind) -> int:
        """How many damaged files of a kind there were."""
        return sum(finding.kind == kind for finding in self.damage)

    def close(self) -> None:
        """End a scrub that is under way, and begin no other."""
        self._is_closed = True
        self._timer.cancel()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _begin(self) -> None:
        self._found, self._read = [], 0
        try:
            self._process = start_helper(
                "foldb.streams.scrub",
                orjson.dumps(asdict(self._job)) + b"\n",
                lambda line: self._tell(Finding(**orjson.loads(line))),
                lambda code: self._tell(f"its process ended with {code}" if code else None),
            )
        except OSError as error:
            self._end(f"it cannot be started: {error}")

    def _tell(self, told: Finding | str | None) -> None:
        def take() -> None:
            if self._is_closed:
                return
            if isinstance(told, Finding):
                self._take(told)
            else:
                self._end(told)

        with suppress(RuntimeError):  # the loop is closed
            self._deliver(take)

    def _take(self, finding: Finding) -> None:
        self.bytes += finding.bytes - self._read
        self._read = finding.bytes
        if not finding.kind:
            self.damage, self.finished_ms = self._found, self._clock()
            return
        self._found.append(finding)
        known = {(each.kind, each.file) for each in self._found}
        self.damage = [each for each in self.damage if (each.kind, each.file) not in known] + self._found
        match finding.kind:
            case "log":
                _report_log(finding)
            case "snapshot":
                self._replace_snapshot(finding)
            case "changes":
                self._repair_changes(finding)

    def _end(self, failure: str | None) -> None:
        self._process = None
        if failure is not None:
            logger.warning("the scrub was not finished: %s; the next begins in %g s", failure, self._every_s)
        self._timer = self._scheduler.call_later(self._every_s, self._begin)

    def _replace_snapshot(self, finding: Finding) -> None:
        following = "`foldb snapshot make` makes another" if self._maker is None else "another is made now"
        logger.error(
            "the snapshot %s is damaged: %s. %s%s; look at the disk.",
            finding.file,
            finding.problem,
            "It was removed, and " if finding.removed else "",
            following,
        )
        if self._maker is not None:
            self._maker.make_soon()

    def _repair_changes(self, finding: Finding) -> None:
        logger.error(
            "the changes in %s are damaged: %s. They are made again from the log; look at the disk.",
            finding.file,
            finding.problem,
        )
        feed = self._feeds[finding.partition]
        if finding.table is None:
            feed.rewrite_durable_offset()
        else:
            feed.verify(finding.table, int(finding.after))


def _report_log(finding: Finding) -> None:
    logger.critical(
        "the log is damaged, and the server goes on with its state in memory. A start that folds this segment, and "
        "every look into history that reads it, is refused: make a snapshot now (`foldb snapshot make`), and look at "
        "the disk. %s",
        finding.problem,
    )
