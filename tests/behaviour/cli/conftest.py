"""A database for each test, and the command line on it, in this process."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from typer.testing import CliRunner, Result

import foldb
from foldb.cli.main import app
from tests.support.history import forked_history as forked_history

Foldb: TypeAlias = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of the test's database."""
    return tmp_path / "data"


@pytest.fixture
def url(folder: Path) -> Iterator[str]:
    with foldb.serve(folder, fsync="never") as server:
        yield server.endpoint_url


@pytest.fixture
def cli(url: str) -> Foldb:
    """Return a function that runs a `foldb` command on the test's database, with a pipe as stdout."""
    return at(url)


def at(db: str | Path) -> Foldb:
    """Return a function that runs commands on a database."""

    def run(*arguments: str, stdin: str = "") -> Result:
        return CliRunner(env={"FOLDB_DB": str(db)}).invoke(
            app, [*arguments], input=stdin, prog_name="foldb", catch_exceptions=False
        )

    return run


def lines(result: Result) -> list[Any]:
    """Return the JSON Lines of a successful command."""
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]
