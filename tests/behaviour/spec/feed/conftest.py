"""Fixtures of the feed: one served process for all tests that need no server of their own."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.spec.feed.database import Database, opened
from tests.support.broker import kafka

__all__ = ["kafka"]


@pytest.fixture(scope="session")
def database() -> Iterator[Database]:
    with tempfile.TemporaryDirectory(prefix="foldb-feed-") as folder, opened(Path(folder)) as database:
        yield database


@pytest.fixture(scope="session")
def divided() -> Iterator[Database]:
    """Yield a database of three partitions."""
    with (
        tempfile.TemporaryDirectory(prefix="foldb-feed-") as folder,
        opened(Path(folder), "--partitions", "3") as database,
    ):
        yield database


@pytest.fixture(params=["database", "divided"])
def either(request: pytest.FixtureRequest) -> Iterator[Database]:
    """Yield a database of one partition, and one of three."""
    database: Database = request.getfixturevalue(request.param)
    yield database
    database.end_subscriptions()


@pytest.fixture(autouse=True)
def _nobody_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Remove all subscriptions: a stopped one would make the next `settle` wait for ever."""
    yield
    for name in {"database", "divided"} & {*request.fixturenames}:
        database: Database = request.getfixturevalue(name)
        database.end_subscriptions()


@pytest.fixture
def table(database: Database) -> Iterator[Any]:
    """Return a table with the key `pk` and a stream of both images."""
    made = database.table()
    yield made
    made.delete()


@pytest.fixture
def open_database(tmp_path: Path) -> Callable[..., Any]:
    """Return a context manager that serves a new process: `with open_database("--shard-age", "1s") as database:`."""
    return lambda *options: opened(tmp_path, *options)
