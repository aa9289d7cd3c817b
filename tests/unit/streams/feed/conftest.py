"""A partition with small limits, so that a few changes exercise them."""

import random

import pytest

from tests.unit.streams.feed.life import Life, make_small


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    make_small(monkeypatch)


@pytest.fixture
def life(small: None) -> Life:
    """A table with enough changes that most are in segments alone, all of them durable."""
    life = Life(random.Random(1), retention_ms=0)
    life.fill(life.create("T"), 120)
    life.sync()
    return life
