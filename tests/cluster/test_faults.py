"""Nodes and brokers die and are paused under load: nothing acknowledged is lost, nothing is done twice."""

import os
import random
import time
from pathlib import Path

import pytest

from tests.broker import brokers
from tests.cluster.ledger import Ledger, Probes, Writers, create, scan
from tests.cluster.processes import Faults, Nodes
from tests.reliability import record

SOAK = bool(os.environ.get("FOLDB_SOAK"))
SEEDS = range(5 if SOAK else 1)
FAULTS = 20 if SOAK else 5
PAUSE_S = 30.0 if SOAK else 8.0
WRITERS = 16
# Without an operator; what is measured is in the ledger of long runs.
GOAL_S = 10.0
pytestmark = [pytest.mark.soak] if SOAK else []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cluster_loses_nothing_and_does_nothing_twice(seed: int, tmp_path: Path) -> None:
    dice, ledger = random.Random(seed), Ledger()
    without: dict[str, list[float]] = {}
    failures = 1
    try:
        with brokers(3) as cluster, Nodes(tmp_path, cluster.address, 3 if SOAK else 2) as nodes:
            create(nodes.urls[0])
            faults = Faults(nodes, cluster, dice, PAUSE_S)
            kinds = [*faults.kinds] * (FAULTS // len(faults.kinds))
            dice.shuffle(kinds)
            with (
                Writers(ledger, nodes.urls, writers=WRITERS, seed=seed) as writers,
                Probes(nodes.awake) as probes,
            ):
                writers.wait_for(200)
                for kind in kinds:
                    begun = time.monotonic()
                    faults.kinds[kind](lambda: writers.wait_for(100))
                    writers.wait_for(100)
                    without.setdefault(kind, []).append(probes.longest_since(begun))
            served = [scan(url) for url in nodes.urls]
            ledger.check(served[0])
            assert all(served[0] == other for other in served[1:]), "nodes differ"
        failures = 0
        assert max(max(seconds) for seconds in without.values()) < GOAL_S, without
    finally:
        record(
            test="cluster: nodes and brokers killed and paused",
            seeds=str(seed),
            cycles=sum(map(len, without.values())),
            faults={kind: len(seconds) for kind, seconds in without.items()},
            acknowledged=ledger.answers["acknowledged"],
            checked=ledger.answers.total(),
            failures=failures,
            figures={
                f"{kind}, longest without service, s": round(max(seconds), 2)
                for kind, seconds in without.items()
            },
        )
