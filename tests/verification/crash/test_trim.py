"""Trims under load, with kills at any moment of them.

The archive has every removed record, so archive and log together are the log that was never trimmed: each state that
was served is compared with a refold of both.
"""

import os
import random
from pathlib import Path

import pytest

from foldb.log.local.filesystem import SystemFilesystem
from foldb.log.local.reader import LogReader
from tests.support.raw import ask
from tests.support.served import Process, foldb
from tests.support.write_ledger import Ledger, create, under_load
from tests.verification.crash.digests import Digests
from tests.verification.crash.recorded import recorded

SOAK = bool(os.environ.get("FOLDB_SOAK"))
SEEDS = range(10 if SOAK else 1)
CYCLES = 12 if SOAK else 2
WRITERS = 8
# A trim takes as long as about so many writes.
TRIM_WRITES = 2000
pytestmark = [pytest.mark.soak] if SOAK else []


@pytest.mark.guarantee("G53")
@pytest.mark.parametrize("seed", SEEDS)
def test_trims_under_load_and_kills_lose_no_kept_record(seed: int, tmp_path: Path) -> None:
    dice, ledger, digests = random.Random(seed), Ledger(), Digests()
    data, archive = tmp_path / "data", tmp_path / "archive"
    options = ("--segment-bytes", "60000", "--stream-retention", "1ms", "--archive", str(archive))
    with recorded("trim under load, kill -9", seed, ledger) as faults:
        for cycle in range(CYCLES):
            with Process(data, *options) as server:
                if cycle == 0:
                    create(server.url)
                ledger.check(server.url)
                digests.note(server.url)
                with under_load(ledger, server.url, run=cycle, writers=WRITERS) as writers:
                    writers.wait_for(dice.randrange(150, 400))
                    request_trim(server.url)
                    writers.wait_for(dice.randrange(1, TRIM_WRITES))
                    server.kill()
            faults["kill"] += 1
        with Process(data, *options) as server:
            ledger.check(server.url)
            digests.note(server.url)
            finish_trim(server.url)
            server.terminate()
        faults["trim"] += 1
        trimmed = LogReader(data, SystemFilesystem())
        assert trimmed.begin(0) > 0
        assert foldb("verify", data).returncode == 0
        assert foldb("log", "backup", data, archive).returncode == 0
        whole = LogReader(archive, SystemFilesystem())
        assert list(trimmed.read(0, trimmed.begin(0))) == list(whole.read(0, trimmed.begin(0)))
        digests.check(archive)


def request_trim(url: str) -> dict[str, object]:
    """Request a trim up to the last segment."""
    end = int(ask(url, "Foldb_20261121.Status", {}).body["Position"])
    answer: dict[str, object] = ask(url, "Foldb_20261121.Trim", {"Offsets": {"0": end}}).body
    return answer


def finish_trim(url: str) -> None:
    answer = request_trim(url)
    while answer.get("Status") == "RUNNING":
        answer = ask(url, "Foldb_20261121.Trim", {"Id": answer["Id"]}).body
    assert answer["Status"] == "DONE", answer
