"""Many partitions and nodes under faults: clients see consistent answers, and all work ends."""

import os
import subprocess
import sys

import pytest

from tests.verification import reliability
from tests.verification.simulator.__main__ import judged, many
from tests.verification.simulator.run import OPERATIONS, simulate

SOAK = bool(os.environ.get("FOLDB_SOAK"))
SHARE = 25
SHARES = range(0, 300, SHARE)
"""The seeds of the short form. The rarest of the planted bugs that these must find is found by two of them."""
CONTENDED, CONTENDED_OPERATIONS = range(10_000 if SOAK else 20), 48


@pytest.mark.guarantee("G29")
@pytest.mark.parametrize("first", SHARES, ids=lambda first: f"seeds {first} to {first + SHARE - 1}")
def test_no_history_is_wrong(first: int) -> None:
    """A failing seed is a command: `python -m tests.verification.simulator --seed N`."""
    for seed in range(first, first + SHARE):
        wrong = judged(seed, OPERATIONS)
        assert not isinstance(wrong, str), wrong


@pytest.mark.guarantee("G54")
def test_no_history_of_contending_reads_is_wrong() -> None:
    """The two reads of an isolated read meet writes, transactions and lost nodes."""
    for seed in CONTENDED:
        simulate(seed, CONTENDED_OPERATIONS, contended=True)


@pytest.mark.soak
@pytest.mark.skipif(not SOAK, reason="long")
def test_none_of_many_histories_is_wrong() -> None:
    totals = many(range(100_000), OPERATIONS, jobs=2, most=1)
    reliability.record(
        test="simulated histories of several partitions",
        seeds="0-99999",
        cycles=totals.histories,
        faults=totals.faults,
        acknowledged=totals.acknowledged,
        checked=totals.operations,
        failures=totals.wrong,
    )
    assert not totals.wrong


def test_a_seed_gives_the_same_history_in_every_process() -> None:
    """Otherwise a failing seed could not be repeated."""
    here = str([simulate(seed) for seed in (1, 2, 3)])
    program = (
        "from tests.verification.simulator import simulate; print([simulate(seed) for seed in (1, 2, 3)])"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    there = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )

    assert here == there.stdout.strip()
