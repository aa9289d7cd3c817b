"""Stored answers of two nodes on Kafka, read again at their positions through each, also after the owners moved."""

from pathlib import Path

import pytest

from tests.behaviour.cluster.processes import Nodes
from tests.verification.histories.stored_answers import Run, differing, live


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
def test_stored_answers_are_given_again_by_each_node(kafka: str, seed: int, tmp_path: Path) -> None:
    with Nodes(tmp_path, kafka, 2) as nodes:
        runs = live(nodes.urls, seed, steps=150)
        assert sum(len(run.stored) for run in runs) > 100
        for url in nodes.urls:
            assert [] == differing(url, runs)
        check_moves(nodes, runs)


def check_moves(nodes: Nodes, runs: list[Run]) -> None:
    """Kill each node in turn: the other owns all partitions, and then some of them move back."""
    for number in range(2):
        nodes.settle()
        nodes.kill(number)
        nodes.settle()
        assert [] == differing(nodes.urls[0], runs)
        nodes.start(number)
    nodes.settle()
    for url in nodes.urls:
        assert [] == differing(url, runs)
