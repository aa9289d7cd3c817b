"""The same log produces the same state and the same changes, byte for byte, in any environment."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from foldb.materializer.fold.dump import digest
from tests.unit.materializer import random_log

SOAK = bool(os.environ.get("FOLDB_SOAK"))
pytestmark = [pytest.mark.soak] if SOAK else []

SURROUNDINGS = [
    {"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C"},
    {"PYTHONHASHSEED": "1", "TZ": "Asia/Kathmandu", "LC_ALL": "C.UTF-8"},
    {"PYTHONHASHSEED": "4242", "TZ": "America/St_Johns", "LC_ALL": "tr_TR.UTF-8"},
    {"PYTHONHASHSEED": "random", "TZ": "Pacific/Apia", "LC_ALL": "POSIX", "PYTHONOPTIMIZE": "1"},
    *(
        {"PYTHONHASHSEED": str(seed), "TZ": zone, "LC_ALL": locale}
        for seed, zone, locale in (
            (2**32 - 1, "Africa/Casablanca", "C"),
            (7, "America/New_York", "C.UTF-8"),
            (99, "Australia/Lord_Howe", "POSIX"),
            (31337, "Europe/Dublin", "de_DE.UTF-8"),
        )
        if SOAK
    ),
]


@pytest.mark.guarantee("G14")
@pytest.mark.parametrize("seed", range(60 if SOAK else 3))
def test_the_fold_ignores_hash_seed_time_zone_and_locale(seed: int, tmp_path: Path) -> None:
    ledger = random_log.random_log(seed, length=300)
    path = tmp_path / "log"
    random_log.write(ledger.records, path)

    folded = {
        subprocess.run(
            [sys.executable, "-m", "tests.unit.materializer.random_log", path],
            cwd=Path(__file__).parents[4],
            env={**os.environ, **surroundings},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for surroundings in SURROUNDINGS
    }

    assert 1 == len(folded)
    whole, changes, reloaded, changes_after = folded.pop().split()
    assert digest(ledger.state) == whole == reloaded
    assert changes == changes_after


@pytest.mark.guarantee("G14")
@pytest.mark.parametrize("seed", range(20))
def test_folding_decoded_records_equals_folding_written_ones(seed: int, tmp_path: Path) -> None:
    """A worker folds the commands in its memory, a restart folds the decoded ones: the results must be equal."""
    ledger = random_log.random_log(seed, length=60)
    path = tmp_path / "log"
    random_log.write(ledger.records, path)

    state, _ = random_log.fold_all(random_log.read(path))

    assert digest(ledger.state) == state
