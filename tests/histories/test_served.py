"""A server that is killed under sixteen clients, and what they were told of it, judged.

What the clients did is random; a history that is rejected names the key, and the operations in their order.
"""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import reliability
from tests.crash.process import Process
from tests.histories import Clients, History, ViolationError, check, create
from tests.histories.linearizable import linearizable
from tests.histories.simulated import mutated
from tests.histories.witness import witness

SOAK = bool(os.environ.get("FOLDB_SOAK"))
pytestmark = [pytest.mark.soak] if SOAK else []
SEEDS = range(25 if SOAK else 1)
RUNS, ANSWERS = (10, 4200) if SOAK else (4, 7500)


def killed(folder: Path, seed: int) -> History:
    """What clients were told by servers that were killed, one after the other, over one folder."""
    history = History()
    for run in range(RUNS):
        with Process(folder) as server:
            if run == 0:
                create(server.url)
            with Clients(history, server.url, run=run, seed=seed) as clients:
                clients.wait_for(ANSWERS)
                server.kill()
                clients.join()
    return history


@pytest.mark.parametrize("seed", SEEDS)
def test_what_clients_are_told_under_kill_9_is_right(tmp_path: Path, seed: int) -> None:
    """
    And a judge that accepts it rejects it with one answer changed: what was there before is told again, or nothing.
    """
    history = killed(tmp_path, seed)
    counts = history.counts()
    failures = 1
    try:
        check(history)
        failures = 0
    finally:
        for test in ("operations", "transactions"):
            reliability.record(
                test=f"histories under kill -9: {test}",
                seeds=str(seed),
                cycles=RUNS,
                faults={"kill -9": RUNS},
                acknowledged=counts["acknowledged"] if test == "operations" else 0,
                checked=counts[test],
                failures=failures,
            )
    assert counts["operations"] >= RUNS * ANSWERS
    assert counts["transactions"] >= RUNS * ANSWERS // 10
    assert counts["in doubt"] > 0

    dice = random.Random(seed)
    for judge in (witness, linearizable):
        assert_rejected(judge, mutated(history, dice))


def assert_rejected(judge: Callable[[History], None], history: History) -> None:
    with pytest.raises(ViolationError):
        judge(history)
