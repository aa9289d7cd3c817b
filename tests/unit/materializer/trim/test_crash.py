"""A trim that ends at any of its calls to the disk, by a kill or a power cut, loses no record that it should keep.

After the crash the log opens, with its old or its new horizon; its state is that of an untrimmed log; and the next trim
works. A power cut loses each unsynced sector and name at random.
"""

import os
import random
from copy import deepcopy
from functools import cache
from pathlib import Path

import pytest

from foldb.log.local.foundation import FOLDERS, head_name, newest_sequence
from foldb.log.local.reader import LogReader
from tests.unit.log.fake_disk import FakeDisk, PowerCut
from tests.unit.log.local_logs import FOLDER
from tests.unit.materializer.trim.trims import (
    ARCHIVE,
    digest_of,
    filled,
    reopened,
    segments,
    trim,
    untrimmed,
)
from tests.verification.reliability import record

SOAK = bool(os.environ.get("FOLDB_SOAK"))
pytestmark = [pytest.mark.soak] if SOAK else []

FIRST, SECOND = 40, 95
POWER_CUTS = 12 if SOAK else 2


class Killed(BaseException):
    """The process is gone: no handler of the code under test may see this as an error of the disk."""


def trimmed_once() -> FakeDisk:
    """A disk with a log that was trimmed once, so that the next trim also replaces a foundation."""
    return deepcopy(_trimmed_once())


@cache
def _trimmed_once() -> FakeDisk:
    disk = FakeDisk()
    disk.make_folder(ARCHIVE)
    log = filled(disk)
    trim(log, disk, FIRST, archive=ARCHIVE)
    log.close()
    return disk


@cache
def _never_trimmed() -> FakeDisk:
    disk = FakeDisk()
    disk.make_folder(ARCHIVE)
    filled(disk).close()
    return disk


def never_trimmed() -> FakeDisk:
    """A disk with a log that has its whole history."""
    return deepcopy(_never_trimmed())


def calls_of_a_trim(disk: FakeDisk) -> int:
    log = reopened(disk)
    disk.calls.clear()
    trim(log, disk, SECOND, archive=ARCHIVE)
    return len(disk.calls)


def interrupted(disk: FakeDisk, nth: int, error: type[BaseException]) -> FakeDisk:
    """Return the disk after a trim that ended before its call number `nth`."""
    log = reopened(disk)
    left = nth

    def hook(call: str, path: Path) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise error

    disk.hook = hook
    with pytest.raises(error):
        trim(log, disk, SECOND, archive=ARCHIVE)
    disk.hook = lambda call, path: None
    return disk


def check(disk: FakeDisk, old: int, new: int) -> None:
    """Check that the log is complete from one of two horizons on, and that the next trim completes."""
    whole_digest, whole = untrimmed()
    log = reopened(disk)
    begin = log.begin(0)
    assert begin in (old, new)
    assert list(log.read(0, begin)) == list(whole[begin:])
    assert digest_of(log) == whole_digest
    assert segments(disk)[0] == (newest_sequence(disk, FOLDER) or 0)
    if begin:
        archived = LogReader(ARCHIVE, disk)
        assert list(archived.read(0)) == list(whole[: archived.end(0)])
        assert archived.end(0) >= begin
    trim(log, disk, SECOND, archive=ARCHIVE)
    assert log.begin(0) == new
    assert digest_of(log) == whole_digest
    for copy in FOLDERS:
        names = [name for name in disk.names(FOLDER / copy) if name != "lock"]
        assert sorted(names) == sorted([head_name(new), f"{new:020d}-0.base"])


@cache
def horizons() -> tuple[int, int]:
    disk = trimmed_once()
    log = reopened(disk)
    old = log.begin(0)
    trim(log, disk, SECOND)
    return old, log.begin(0)


@pytest.mark.guarantee("G53")
def test_a_kill_at_any_call_of_a_trim_loses_nothing() -> None:
    old, new = horizons()
    calls = calls_of_a_trim(trimmed_once())

    for nth in range(1, calls + 1):
        disk = interrupted(trimmed_once(), nth, Killed)
        disk.crash()
        check(disk, old, new)

    record(test="trim: kills", cycles=calls, faults={"kill": calls}, checked=calls)
    assert old < new
    assert calls > 30


@pytest.mark.guarantee("G53")
@pytest.mark.parametrize("third", range(3))
def test_a_power_cut_at_any_call_of_a_trim_loses_nothing(third: int) -> None:
    old, new = horizons()
    cuts = 0

    for nth in range(1 + third, calls_of_a_trim(trimmed_once()) + 1, 3):
        for seed in range(POWER_CUTS):
            disk = interrupted(trimmed_once(), nth, PowerCut)
            disk.power_cut(random.Random(f"{nth} {seed}"))
            check(disk, old, new)
            cuts += 1

    record(test="trim: power cuts", cycles=cuts, faults={"power cut": cuts}, checked=cuts)


def test_a_power_cut_after_a_kill_loses_nothing() -> None:
    """The start after the kill may see names that were never synced. No earlier foundation makes it sync a folder."""
    _, new = horizons()

    for nth in range(1, calls_of_a_trim(never_trimmed()) + 1):
        disk = interrupted(never_trimmed(), nth, Killed)
        disk.crash()
        reopened(disk)
        disk.power_cut(random.Random(nth))
        check(disk, 0, new)


def test_a_disk_whose_syncs_do_nothing_loses_a_foundation() -> None:
    """The test can fail: where nothing is synced, a power cut after the trim loses the log."""
    lost = 0
    for seed in range(10):
        disk = trimmed_once()
        log = reopened(disk)
        disk.syncs = False
        trim(log, disk, SECOND, archive=ARCHIVE)
        disk.power_cut(random.Random(seed))
        try:
            disk.syncs = True
            check(disk, *horizons())
        except Exception:
            lost += 1

    assert lost > 5
