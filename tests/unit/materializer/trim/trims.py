"""A log of many small segments on a disk in memory, and trims of it in this process."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from foldb.log.commands import Entry, Record
from foldb.log.local import LocalLog
from foldb.log.local.foundation import Foundation
from foldb.log.local.segment import sequence_in
from foldb.materializer.fold.dump import digest
from foldb.materializer.foundation import initial_state
from foldb.materializer.refold import refold_log
from foldb.materializer.trim import Voids, prepare, verify_foundation
from foldb.materializer.trim_job import TrimCut, TrimJob
from tests.unit.log import damage
from tests.unit.log.fake_disk import FakeDisk
from tests.unit.log.local_logs import FOLDER, append, open_log

SEGMENT_BYTES = 14_000
"""A segment has room for its header and some twenty entries."""

ARCHIVE = Path("/archive")
# Entries have times of their own, because the test's clock restarts at each start and is part of the state.
ENTRIES = [replace(entry, time=10_000 + n) for n, entry in enumerate(damage.entries(120))]


def filled(disk: FakeDisk, entries: list[Entry] = ENTRIES) -> LocalLog:
    """Return the open log of these entries."""
    log = open_log(disk, segment_bytes=SEGMENT_BYTES)
    append(log, *entries)
    return log


def reopened(disk: FakeDisk) -> LocalLog:
    """Start again after a crash."""
    return open_log(disk, segment_bytes=SEGMENT_BYTES)


def trim(log: LocalLog, disk: FakeDisk, offset: int, **job: Any) -> Foundation | None:
    """Trim the log before an offset, as a server does, and return the foundation."""

    def verify(foundation: Foundation, voids: Voids) -> None:
        verify_foundation(disk, FOLDER, foundation, voids)

    foundation = prepare(disk, TrimJob(FOLDER, TrimCut(offsets={0: offset}), **job), verify)
    if foundation is not None:
        results: list[int | Exception] = []
        log.trim(foundation, results.append)
        [result] = results
        assert isinstance(result, int), result
    return foundation


def digest_of(log: Any, partition: int = 0) -> str:
    """The digest of the state at the end of a log, folded from its beginning."""
    state = initial_state(log, partition)
    refold_log(state, log, partition)
    assert state.tables, "a state without tables would be equal to any other"
    return digest(state)


@cache
def untrimmed() -> tuple[str, tuple[Record, ...]]:
    """The digest and the records of the log that nothing was removed from."""
    log = filled(FakeDisk())
    return digest_of(log), tuple(log.read(0))


def segments(disk: FakeDisk, folder: Path = FOLDER) -> list[int]:
    """The numbers of the segments."""
    return [sequence for name in disk.names(folder) if (sequence := sequence_in(name)) is not None]
