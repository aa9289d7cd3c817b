"""Regular scrubs: another process reads all files of a database, and this module acts on the damage that it finds.

    timer ──► streams/scrub.py, at low priority ──► log: reported, an operator has to act
                                               ──► foundation: a damaged copy is written again from the other
                                               ──► snapshot: removed by the scrub, the next one is taken now
                                               ──► change segment: written again from the log

A server continues although its log is damaged: its state is in memory and was complete when it was folded, and new
entries go to the newest segment. A start that needs the damaged segment is refused.
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

# The first scrub comes early, so that a server with frequent restarts is scrubbed too, but not in its first minutes.
_FIRST_MS: Final = 10 * 60 * 1000

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

logger = logging.getLogger(__name__)


class ScrubProcess:
    """Runs scrubs, and repairs snapshots and change segments.

    Args:
        folder: The folder of the database.
        feeds: The feed of each partition.
        every_ms: The pause between two scrubs.
        rate: The bytes that a scrub reads per second.
        maker: Takes snapshots; None if snapshots are disabled.
        mend: Writes a damaged copy of the log's foundation again.
        deliver: Runs a callback on the event loop, from any thread.

    Attributes:
        damage: The findings of the last scrub, and those of the present one so far.
        finished_ms: When the last scrub was finished; 0 before the first.
        bytes: The number of bytes that all scrubs have read.
    """

    def __init__(
        self,
        folder: Path,
        feeds: Sequence[Feed],
        *,
        every_ms: int,
        rate: int,
        maker: SnapshotScheduler | None,
        mend: Callable[[], object],
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
        self._mend = mend
        self._clock = clock
        self._scheduler = scheduler
        self._deliver = deliver
        self._found: list[Finding] = []
        self._read = 0  # by the present scrub
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False
        self._timer: Cancellable = scheduler.call_later(min(every_ms, _FIRST_MS) / 1000, self._begin)

    def count(self, kind: Kind) -> int:
        """Return the number of damaged files of a kind."""
        return sum(finding.kind == kind for finding in self.damage)

    def close(self) -> None:
        """Stop a running scrub, and start no other."""
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
                lambda line: self._deliver_finding(Finding(**orjson.loads(line))),
                lambda code: self._deliver_finding(f"its process ended with {code}" if code else None),
            )
        except OSError as error:
            self._end(f"cannot start its process: {error}")

    def _deliver_finding(self, finding: Finding | str | None) -> None:
        """Handle a finding on the event loop; a text or None ends the scrub."""

        def handle() -> None:
            if self._is_closed:
                return
            if isinstance(finding, Finding):
                self._handle(finding)
            else:
                self._end(finding)

        with suppress(RuntimeError):  # the loop is closed
            self._deliver(handle)

    def _handle(self, finding: Finding) -> None:
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
            case "foundation":
                logger.error(
                    "a copy of the log's foundation is damaged: %s. It is written again from the other copy; check the "
                    "disk.",
                    finding.problem,
                )
                self._mend()
            case "snapshot":
                self._replace_snapshot(finding)
            case "changes":
                self._repair_changes(finding)

    def _end(self, failure: str | None) -> None:
        self._process = None
        if failure is not None:
            logger.warning("a scrub failed: %s; the next begins in %g s", failure, self._every_s)
        self._timer = self._scheduler.call_later(self._every_s, self._begin)

    def _replace_snapshot(self, finding: Finding) -> None:
        following = "`foldb snapshot make` takes another" if self._maker is None else "another is taken now"
        logger.error(
            "the snapshot %s is damaged: %s. %s%s; check the disk.",
            finding.file,
            finding.problem,
            "It was removed, and " if finding.removed else "",
            following,
        )
        if self._maker is not None:
            self._maker.make_soon()

    def _repair_changes(self, finding: Finding) -> None:
        logger.error(
            "the changes in %s are damaged: %s. They are written again from the log; check the disk.",
            finding.file,
            finding.problem,
        )
        feed = self._feeds[finding.partition]
        if finding.table is None:
            feed.schedule_sync()
        else:
            feed.verify(finding.table, int(finding.after))


def _report_log(finding: Finding) -> None:
    logger.critical(
        "the log is damaged, and the server continues with its state in memory. A start that folds this segment, and "
        "every read of history that needs it, is refused: take a snapshot now (`foldb snapshot make`), and check "
        "the disk. %s",
        finding.problem,
    )
