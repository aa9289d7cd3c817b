"""Transactions over four partitions: clients contend for keys in different partitions, and their server dies.

Positions are checked partition by partition, for the writes of that partition alone; transactions by search, and by
the writes that they saw of each other.
"""

import os
import random
import sys
from pathlib import Path

import pytest

from tests.support.served import Process
from tests.verification import reliability
from tests.verification.histories import Clients, History, Step, ViolationError, check, create
from tests.verification.histories.linearizable import linearizable
from tests.verification.histories.serializable import serializable
from tests.verification.histories.simulated import mutated
from tests.verification.histories.witness import witness
from tests.verification.histories.workload import Workload

SOAK = bool(os.environ.get("FOLDB_SOAK"))
pytestmark = [pytest.mark.soak] if SOAK else []
# 1,000,000 answers. More kills in a history leave so many transactions in doubt that its check takes hours.
SEEDS = range(100 if SOAK else 1)
RUNS, ANSWERS = (5, 2000) if SOAK else (2, 2000)
SEVERAL = ("--partitions", "4")
ROUNDS = 20


def draw_with_pages(workload: Workload) -> tuple[Step, ...]:
    """Return any request, or a consistent Scan over all partitions."""
    return workload.read_all() if workload.dice.random() < 0.02 else workload.draw()


@pytest.mark.parametrize("seed", SEEDS)
def test_answers_of_several_partitions_are_consistent_under_kill_9(tmp_path: Path, seed: int) -> None:
    history = History(several=True)
    for run in range(RUNS):
        with Process(tmp_path, *SEVERAL) as server:
            if run == 0:
                create(server.url)
            with Clients(
                history, server.url, run=run, seed=seed, transactions=0.5, draw=draw_with_pages
            ) as clients:
                clients.wait_for(ANSWERS)
                server.kill()
                clients.join()

    counts = history.counts()
    failures = 1
    try:
        check(history)
        failures = 0
    finally:
        reliability.record(
            test="transactions over partitions under kill -9: linearizable, serializable",
            seeds=str(seed),
            cycles=RUNS,
            faults={"kill -9": RUNS},
            acknowledged=counts["acknowledged"],
            checked=counts["transactions"],
            failures=failures,
        )
    assert len(history.by_partition()) == 4
    assert counts["transactions"] >= RUNS * ANSWERS // 10
    for judge in (witness, linearizable):
        with pytest.raises(ViolationError):
            judge(mutated(history, random.Random(seed)))


def list_by_list(workload: Workload) -> tuple[Step, ...]:
    """Return transactions that append, and reads of one list whose transactions appended to others too."""
    return workload.append() if workload.dice.random() < 0.4 else workload.read_lists()[:1]


# The parts of foldb that are replaced before it serves, and the requests of its clients.
WRONG = {
    "holds no keys between vote and decision": (
        Workload.draw,
        """
from foldb.materializer.fold.transactions.state import Transactions
Transactions.hold = lambda self, name, prepared: self.prepared.update({name: prepared})
Transactions.release = lambda self, name: self.prepared.pop(name, None)
""",
    ),
    "lets nobody wait who reads what is decided and not yet written": (
        list_by_list,
        """
from foldb.materializer.consistent_partition import ConsistentPartition
ConsistentPartition._holders = lambda self, keys: set()
""",
    ),
    "reads the present item although a transaction is decided": (
        Workload.draw,
        """
from foldb.server.routing import instant_reads
instant_reads.decided_effect = lambda states, partition, key: None
""",
    ),
    "reads a page at a position of each partition": (
        draw_with_pages,
        """
from foldb.server.routing.instant_reads import InstantReads
from foldb.server.routing.router import Router
scan = Router._scan
def scan_apart(self, request, owner, done):
    instant, self._instant = self._instant, None
    try:
        scan(self, request, owner, done)
    finally:
        self._instant = instant
Router._scan = scan_apart
""",
    ),
}


@pytest.mark.interpreted
@pytest.mark.parametrize("what", WRONG)
def test_a_server_of_several_partitions_is_caught_that(tmp_path: Path, what: str) -> None:
    """The contention that shows the fault is random, so the clients continue until it has happened."""
    draw, replaced = WRONG[what]
    program = [sys.executable, "-c", f"{replaced}\nfrom foldb.cli.main import run\nrun()\n"]
    history = History(several=True)
    with Process(tmp_path, *SEVERAL, program=program) as server:
        create(server.url)
        for seed in range(ROUNDS):
            with Clients(history, server.url, seed=seed, transactions=1.0, draw=draw) as clients:
                clients.wait_for(1000)
            if is_caught(history):
                return
    pytest.fail(f"{history.counts()} and nothing was noticed")


def is_caught(history: History) -> bool:
    try:
        serializable(history)
    except ViolationError:
        return True
    return False
