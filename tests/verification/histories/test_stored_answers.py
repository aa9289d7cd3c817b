"""Answers that are stored with their positions are given again, byte for byte, when the past is read there."""

import shutil
from pathlib import Path

import pytest

import foldb
from tests.verification.histories.stored_answers import differing, live


def _check(folder: Path | None, partitions: int, seed: int, steps: int) -> None:
    with foldb.serve(folder, partitions=partitions, ttl_interval_ms=20) as server:
        runs = live([server.endpoint_url], seed, steps)
        assert sum(len(run.stored) for run in runs) > steps
        assert [] == differing(server.endpoint_url, runs)
    if folder is None:
        return
    with foldb.serve(folder) as server:
        assert [] == differing(server.endpoint_url, runs)
    shutil.rmtree(folder / "history")
    with foldb.serve(folder, history=True) as server:
        assert [] == differing(server.endpoint_url, runs)


@pytest.mark.spec("H3")
def test_stored_answers_in_memory_are_given_again() -> None:
    _check(None, 1, seed=0, steps=60)


@pytest.mark.parametrize("partitions", [1, 4])
def test_stored_answers_are_given_again(partitions: int, tmp_path: Path) -> None:
    """Also after a restart, and after the histories were removed."""
    _check(tmp_path, partitions, seed=0, steps=60)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 21))
@pytest.mark.parametrize("partitions", [1, 4])
def test_many_stored_answers_are_given_again(partitions: int, seed: int, tmp_path: Path) -> None:
    _check(tmp_path, partitions, seed, steps=400)
