"""Power cuts at any moment, also twice in a row: no acknowledged write is lost, and no entry is applied in part.

A power cut loses every byte and name that was not synced, which a kill does not. Each seed has its own disk, on which
one server after the other loses its power under the same ledger.
"""

import os
import random
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from foldb.log.local import LocalLog
from foldb.log.local.filesystem import SystemFilesystem
from foldb.materializer.snapshots import Snapshots
from tests.support.served import Process
from tests.support.write_ledger import Ledger, create, under_load
from tests.verification import histories
from tests.verification.crash.digests import Digests
from tests.verification.crash.power import PowerDisk, lose_power
from tests.verification.crash.programs import with_disk_process, with_power_cut, without_sync
from tests.verification.crash.recorded import recorded

SOAK = bool(os.environ.get("FOLDB_SOAK"))
SEEDS = range(20 if SOAK else 1)
CYCLES = 12 if SOAK else 4
DOUBLE_CYCLES = 6 if SOAK else 3
WRITERS = 16
# So that the log goes on in a new file several times in each cycle.
SMALL = ("--segment-bytes", "100000")
pytestmark = [pytest.mark.soak] if SOAK else []


@pytest.mark.guarantee("G1")
@pytest.mark.parametrize("seed", SEEDS)
def test_acknowledged_writes_survive_a_power_cut_under_load(seed: int, tmp_path: Path) -> None:
    dice, ledger, digests = random.Random(seed), Ledger(), Digests()
    with PowerDisk(tmp_path) as disk, recorded("power cuts", seed, ledger) as faults:
        for cycle in range(CYCLES):
            _serve_until_cut(disk, ledger, digests, run=cycle, writes=dice.randrange(1, 400))
            faults["power cut"] += 1
        _take_stock(disk, ledger, digests)


@pytest.mark.guarantee("G1")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_second_power_cut_during_recovery_loses_nothing(seed: int, tmp_path: Path) -> None:
    """The cut comes at any call of the recovery, or soon after it during the first writes."""
    dice, ledger, digests = random.Random(seed), Ledger(), Digests()
    with PowerDisk(tmp_path) as disk, recorded("power cuts, two in a row", seed, ledger) as faults:
        for cycle in range(DOUBLE_CYCLES):
            _serve_until_cut(disk, ledger, digests, run=2 * cycle, writes=dice.randrange(1, 300))
            program = with_power_cut(disk.mounted, dice.randrange(1, 60))
            with Process(disk.folder, *SMALL, program=program, may_end=True) as server:
                if server.url:
                    with under_load(ledger, server.url, run=2 * cycle + 1, writers=WRITERS) as writers:
                        writers.join()
            faults["cut while serving" if server.url else "cut while starting"] += 1
            disk.restore()
        _take_stock(disk, ledger, digests)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_snapshot_that_is_cut_short_leaves_a_whole_one_or_none(seed: int, tmp_path: Path) -> None:
    """The cut comes at any call of the snapshot. The next start has the state of the whole log in each case."""
    dice, ledger, digests = random.Random(seed), Ledger(), Digests()
    with PowerDisk(tmp_path) as disk, recorded("power cuts of snapshots", seed, ledger) as faults:
        for cycle in range(DOUBLE_CYCLES):
            with Process(disk.folder, *SMALL) as server:
                _take_up(server, ledger, digests, cycle)
                with under_load(ledger, server.url, run=cycle, writers=WRITERS) as writers:
                    writers.wait_for(dice.randrange(1, 300))
                server.kill()
            program = with_power_cut(disk.mounted, dice.randrange(1, 16))
            made = subprocess.run([*program, "snapshot", "make", "--db", disk.folder], capture_output=True)
            faults["cut" if made.returncode == -signal.SIGKILL else "made"] += 1
            disk.restore()
            assert _faults_of_snapshots(disk) <= {""}
        _take_stock(disk, ledger, digests)
    assert faults["cut"] > 0


@pytest.mark.guarantee("G2")
@pytest.mark.parametrize("mode", ["interval", "never"])
def test_a_log_that_was_not_synced_loses_an_end_and_nothing_else(mode: str, tmp_path: Path) -> None:
    """These modes may lose the last writes. The rest is complete, and the server continues with it."""
    ledger, digests = Ledger(), Digests()
    with PowerDisk(tmp_path) as disk:
        _make_table(disk)
        _serve_until_cut(disk, ledger, digests, options=("--fsync", mode, *SMALL), run=1, writes=300)
        ledger.doubt()
        _take_stock(disk, ledger, digests)


@pytest.mark.guarantee("G1")
def test_a_server_without_syncs_loses_writes_in_a_power_cut(tmp_path: Path) -> None:
    """This proves that the tests above detect a missing sync."""
    ledger, digests = Ledger(), Digests()
    with PowerDisk(tmp_path) as disk:
        _make_table(disk)
        _serve_until_cut(disk, ledger, digests, options=(), program=without_sync(), run=1, writes=300)
        with Process(disk.folder) as server, pytest.raises(AssertionError, match="lost"):
            ledger.check(server.url)


def _make_table(disk: PowerDisk) -> None:
    with Process(disk.folder) as server:
        create(server.url)
        server.terminate()


def _serve_until_cut(
    disk: PowerDisk,
    ledger: Ledger,
    digests: Digests,
    *,
    options: Sequence[str] = SMALL,
    program: Sequence[str | Path] | None = None,
    run: int,
    writes: int,
) -> None:
    """Start, acknowledge at least that many writes, cut the power, and restore it.

    In every other run a disk process writes, unless a program is given.
    """
    if program is None and run % 2:
        program = with_disk_process()
    with Process(disk.folder, *options, program=program) as server:
        _take_up(server, ledger, digests, run)
        with under_load(ledger, server.url, run=run, writers=WRITERS) as writers:
            writers.wait_for(writes)
            lose_power(server, disk)
    disk.restore()


def _take_up(server: Process, ledger: Ledger, digests: Digests, run: int) -> None:
    """Compare the ledger with the served items, and record the digest."""
    if run == 0:
        create(server.url)
    ledger.check(server.url)
    digests.note(server.url)


def _faults_of_snapshots(disk: PowerDisk) -> set[str]:
    """Return the faults of the snapshots."""
    log, snapshots = LocalLog.open_reader(disk.folder), Snapshots(disk.folder, SystemFilesystem())
    return {snapshots.examine(offset, log).fault or "" for offset in snapshots.offsets()}


def _take_stock(disk: PowerDisk, ledger: Ledger, digests: Digests) -> None:
    """Assert that a refold reproduces the state that was served before each cut."""
    with Process(disk.folder, *SMALL) as server:
        ledger.check(server.url)
        digests.note(server.url)
        server.terminate()
    digests.check(disk.folder)
    histories.check(ledger.history)
