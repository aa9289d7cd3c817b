"""Nodes and brokers are killed and paused under load: no acknowledged write is lost, and none is executed twice."""

import os
import random
import time
from pathlib import Path

import pytest

from tests.behaviour.cluster import probes as probing
from tests.behaviour.cluster.probes import Probes
from tests.behaviour.cluster.processes import Faults, Nodes
from tests.support.broker import brokers
from tests.support.write_ledger import Ledger, Writers, create, scan
from tests.verification.reliability import record

SOAK = bool(os.environ.get("FOLDB_SOAK"))
SEEDS = range(5 if SOAK else 1)
# A short run kills. Nodes that are paused or leave: test_served.py; a paused broker:
# tests/behaviour/kafka/test_brokers.py.
ROUNDS, KINDS = (4, None) if SOAK else (1, ("node killed", "broker killed"))
NODE_PAUSE_S, BROKER_PAUSE_S = (30.0, 12.0) if SOAK else (4.0, 4.0)
WRITERS, PROBES, PAUSE_S = (16, 12, 0.0) if SOAK else (6, 2, 0.1)
# Service comes back by itself: that is asserted. The goal is 10 s; how near a machine comes is in the ledger of long
# runs, for it depends on what else the machine does.
PATIENCE_S = 60.0
pytestmark = [pytest.mark.soak] if SOAK else []


@pytest.mark.guarantee("G27")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_cluster_loses_nothing_does_nothing_twice_and_is_back_soon(seed: int, tmp_path: Path) -> None:
    """One fault after the other, each to a recovered cluster in which every partition has a standby."""
    suffer(seed, tmp_path, "cluster: nodes and brokers killed and paused", whole=True)


@pytest.mark.guarantee("G27")
@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 103))
def test_a_failure_during_recovery_of_the_cluster_loses_nothing(seed: int, tmp_path: Path) -> None:
    """Service may return later then: the new owner has to fold the partition first."""
    suffer(seed, tmp_path, "cluster: the same before it is whole again", whole=False)


def suffer(seed: int, folder: Path, test: str, *, whole: bool) -> None:
    """Cause faults under load, compare the ledger with the served items, and measure the time without service."""
    dice, ledger = random.Random(seed), Ledger()
    without: dict[str, list[float]] = {}
    failures = 1
    try:
        with brokers(3) as cluster, Nodes(folder, cluster.address, 3 if SOAK else 2) as nodes:
            create(nodes.urls[0])
            probing.create(nodes.urls[0])
            faults = Faults(nodes, cluster, dice, node_s=NODE_PAUSE_S, broker_s=BROKER_PAUSE_S)
            kinds = [*(KINDS or faults.kinds)] * ROUNDS
            dice.shuffle(kinds)
            with (
                Writers(
                    ledger, nodes.urls, writers=WRITERS, run=seed, timeout_s=5.0, pause_s=PAUSE_S
                ) as writers,
                Probes(nodes.awake, PROBES) as probes,
            ):
                writers.wait_for(200)
                for kind in kinds:
                    if whole:
                        nodes.settle()
                    begun = time.monotonic()
                    faults.kinds[kind](lambda: writers.wait_for(100))
                    writers.wait_for(100)
                    without.setdefault(kind, []).append(probes.longest_since(begun))
            served = [scan(url) for url in nodes.urls]
            ledger.compare(served[0])
            assert all(served[0] == other for other in served[1:]), "nodes differ"
        assert max(map(max, without.values())) < PATIENCE_S, without
        failures = 0
    finally:
        longest = {
            f"{kind}, longest without service, s": round(max(took), 2) for kind, took in without.items()
        }
        record(
            test=test,
            seeds=str(seed),
            cycles=sum(map(len, without.values())),
            faults={kind: len(took) for kind, took in without.items()},
            acknowledged=ledger.answers["acknowledged"],
            checked=ledger.answers.total(),
            failures=failures,
            figures=longest,
        )
