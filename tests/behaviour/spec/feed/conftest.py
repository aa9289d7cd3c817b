"""One served process for all claims about the feed that need no server of their own."""

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
    """The same, of three partitions."""
    with (
        tempfile.TemporaryDirectory(prefix="foldb-feed-") as folder,
        opened(Path(folder), "--partitions", "3") as database,
    ):
        yield database


@pytest.fixture(params=["database", "divided"])
def either(request: pytest.FixtureRequest) -> Iterator[Database]:
    """Of one partition, and of three."""
    database: Database = request.getfixturevalue(request.param)
    yield database
    database.end_subscriptions()


@pytest.fixture(autouse=True)
def _nobody_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """To settle is to wait for all subscriptions, and one that a test has stopped would never be done."""
    yield
    for name in {"database", "divided"} & {*request.fixturenames}:
        database: Database = request.getfixturevalue(name)
        database.end_subscriptions()


@pytest.fixture
def table(database: Database) -> Iterator[Any]:
    """A table with a stream of both images, key `pk`."""
    made = database.table()
    yield made
    made.delete()


@pytest.fixture
def open_database(tmp_path: Path) -> Callable[..., Any]:
    """`with open_database("--shard-age", "1s") as database:` a process of its own."""
    return lambda *options: opened(tmp_path, *options)
