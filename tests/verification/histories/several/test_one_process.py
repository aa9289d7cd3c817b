"""Isolated reads and pages over partitions are reads of one instant: random histories on virtual time, judged."""

import os

import pytest

from tests.verification.histories.linearizable import linearizable
from tests.verification.histories.serializable import serializable
from tests.verification.histories.several.one_process import OneProcess

SOAK = bool(os.environ.get("FOLDB_SOAK"))
pytestmark = [pytest.mark.soak] if SOAK else []
SEEDS = range(100 if SOAK else 2)
OPERATIONS = 10_000 if SOAK else 1_000


@pytest.mark.guarantee("G54")
@pytest.mark.parametrize("seed", SEEDS)
def test_reads_at_an_instant_are_strictly_serializable(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    database = OneProcess(seed)

    database.run(OPERATIONS, monkeypatch)

    linearizable(database.history)
    serializable(database.history)
    assert not database.cancelled


@pytest.mark.guarantee("G54")
@pytest.mark.parametrize("seed", SEEDS)
def test_items_read_twice_are_strictly_serializable(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """These are the reads of partitions on other nodes. A page has a position in each partition, so none is read."""
    database = OneProcess(seed, instant=False, scans=0)

    database.run(OPERATIONS, monkeypatch)

    linearizable(database.history)
    serializable(database.history)
