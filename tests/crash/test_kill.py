"""What a process leaves behind that felt nothing, and one that was asked to stop.

A kill proves nothing of the disk, for the system keeps what was written (tests/log cuts the power). It proves when
an acknowledgement is given, that the next start takes up whatever is there, and that nothing is folded by halves.
"""

import os
from pathlib import Path

import pytest

from tests.crash.ledger import Ledger, Writers, create
from tests.crash.process import Process
from tests.served import foldb

SOAK = bool(os.environ.get("FOLDB_SOAK"))
CYCLES = 30 if SOAK else 2
pytestmark = [pytest.mark.soak] if SOAK else []


def test_what_was_acknowledged_survives_kill_9_under_load(tmp_path: Path) -> None:
    ledger = Ledger()
    for cycle in range(CYCLES):
        with Process(tmp_path) as server:
            if cycle == 0:
                create(server.url)
            ledger.check(server.url)
            with Writers(ledger, server.url, run=cycle) as writers:
                writers.wait_for(200 + 37 * cycle)
                server.kill()

    with Process(tmp_path) as server:
        ledger.check(server.url)


def test_a_stop_under_load_loses_nothing_and_takes_less_than_ten_seconds(tmp_path: Path) -> None:
    """And what it served last is what the log folds to."""
    ledger = Ledger()
    with Process(tmp_path) as server:
        create(server.url)
        with Writers(ledger, server.url) as writers:
            writers.wait_for(200)
            assert server.terminate() < 10
            writers.join()
    verified = foldb("verify", tmp_path)
    with Process(tmp_path) as server:
        ledger.check(server.url)

    assert (0, True) == (verified.returncode, "1 digest compared · no diff" in verified.stderr), verified
