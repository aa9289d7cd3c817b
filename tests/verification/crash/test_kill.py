"""Kills and stops under load.

A kill does not test the disk, because the system keeps all written data (test_power_cut.py does). It tests when a write
is acknowledged, that the next start recovers from any state of the files, and that no entry is folded in part.
"""

import os
import random
import signal
from functools import partial
from pathlib import Path

import pytest

from tests.support.served import Process, foldb
from tests.support.subscribed import until
from tests.support.write_ledger import Ledger, Writers, create, under_load
from tests.verification import histories
from tests.verification.crash.digests import Digests
from tests.verification.crash.programs import with_disk_process
from tests.verification.crash.recorded import recorded

SOAK = bool(os.environ.get("FOLDB_SOAK"))
SEEDS = range(20 if SOAK else 1)
CYCLES = 12 if SOAK else 4
WRITERS = 16
# So that the log goes on in a new file several times in each cycle.
SMALL = ("--segment-bytes", "100000")
PROGRAMS = (None, with_disk_process())
pytestmark = [pytest.mark.soak] if SOAK else []


@pytest.mark.guarantee("G1")
@pytest.mark.parametrize("seed", SEEDS)
def test_acknowledged_writes_survive_kill_9_under_load(seed: int, tmp_path: Path) -> None:
    """In every other life a disk process writes, which dies a moment later."""
    dice, ledger, digests = random.Random(seed), Ledger(), Digests()
    with recorded("kill -9", seed, ledger) as faults:
        for cycle in range(CYCLES):
            with Process(tmp_path, *SMALL, program=PROGRAMS[cycle % 2]) as server:
                take_up(server, ledger, digests, cycle)
                with under_load(ledger, server.url, run=cycle, writers=WRITERS) as writers:
                    writers.wait_for(dice.randrange(1, 400))
                    server.kill()
            faults["kill"] += 1
        take_stock(tmp_path, ledger, digests)


@pytest.mark.guarantee("G1")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_server_goes_on_when_its_disk_process_is_killed(seed: int, tmp_path: Path) -> None:
    dice, ledger, digests = random.Random(seed), Ledger(), Digests()
    with recorded("kill -9 of the disk process", seed, ledger) as faults:
        for cycle in range(CYCLES):
            with Process(tmp_path, *SMALL, program=with_disk_process()) as server:
                take_up(server, ledger, digests, cycle)
                with under_load(ledger, server.url, run=cycle, writers=WRITERS) as writers:
                    writers.wait_for(dice.randrange(50, 300))
                    [disk_process] = until(partial(children, server.pid))
                    in_doubt = ledger.answers["in doubt"]
                    os.kill(disk_process, signal.SIGKILL)
                    writers.wait_for(200)
                    assert ledger.answers["in doubt"] == in_doubt
                    server.kill()
            faults["kill"] += 1
        take_stock(tmp_path, ledger, digests)


@pytest.mark.guarantee("G9")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_stop_that_is_cut_short_by_a_kill_loses_nothing(seed: int, tmp_path: Path) -> None:
    """The kill comes at any moment of the stop: before its signal, during the last answers or the digest."""
    dice, ledger, digests = random.Random(seed), Ledger(), Digests()
    with recorded("SIGTERM, then kill -9", seed, ledger) as faults:
        for cycle in range(CYCLES):
            with Process(tmp_path, *SMALL, program=PROGRAMS[cycle % 2]) as server:
                take_up(server, ledger, digests, cycle)
                with under_load(ledger, server.url, run=cycle, writers=WRITERS) as writers:
                    writers.wait_for(dice.randrange(1, 300))
                    stopped = server.terminate_or_kill(dice.random() * 0.2) == 0
            faults["stop" if stopped else "stop and kill"] += 1
        take_stock(tmp_path, ledger, digests)


@pytest.mark.guarantee("G2")
@pytest.mark.parametrize("mode", ["interval", "never"])
def test_a_kill_takes_nothing_from_a_log_that_is_not_synced_either(mode: str, tmp_path: Path) -> None:
    """The system has the written data by then: only a power cut can lose them."""
    ledger, digests = Ledger(), Digests()
    for cycle in range(2):
        with Process(tmp_path, "--fsync", mode, *SMALL) as server:
            take_up(server, ledger, digests, cycle)
            with under_load(ledger, server.url, run=cycle, writers=WRITERS) as writers:
                writers.wait_for(200)
                server.kill()
    take_stock(tmp_path, ledger, digests)


@pytest.mark.guarantee("G9")
def test_a_stop_under_load_loses_nothing_within_ten_seconds(tmp_path: Path) -> None:
    """Its last served state is the refolded state."""
    ledger = Ledger()
    with Process(tmp_path) as server:
        create(server.url)
        with Writers(ledger, server.url, writers=WRITERS) as writers:
            writers.wait_for(200)
            assert server.terminate() < 10
            writers.join()
    verified = foldb("verify", tmp_path)
    with Process(tmp_path) as server:
        ledger.check(server.url)

    assert (0, True) == (verified.returncode, "1 digest compared · no diff" in verified.stderr), verified


def children(pid: int) -> list[int]:
    """Return the ids of the processes that any thread of a process has started."""
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for thread in threads for child in thread.read_text().split()]


def take_up(server: Process, ledger: Ledger, digests: Digests, cycle: int) -> None:
    """Compare the ledger with the served items, and record the digest."""
    if cycle == 0:
        create(server.url)
    ledger.check(server.url)
    digests.note(server.url)


def take_stock(folder: Path, ledger: Ledger, digests: Digests) -> None:
    """Assert that a refold reproduces the state that was served after each kill."""
    with Process(folder, *SMALL) as server:
        ledger.check(server.url)
        digests.note(server.url)
        server.terminate()
    digests.check(folder)
    histories.check(ledger.history)
