"""A database of its own for each test, and the command line over it, in this process."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from typer.testing import CliRunner, Result

import foldb
from foldb.cli.main import app

Foldb: TypeAlias = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the test's database keeps its log."""
    return tmp_path / "data"


@pytest.fixture
def url(folder: Path) -> Iterator[str]:
    with foldb.serve(folder, fsync="never") as server:
        yield server.endpoint_url


@pytest.fixture
def cli(url: str) -> Foldb:
    """Run a `foldb` command on the test's database; stdout is a pipe."""
    return at(url)


def at(db: str | Path) -> Foldb:
    """Commands on any database."""

    def run(*arguments: str, stdin: str = "") -> Result:
        return CliRunner(env={"FOLDB_DB": str(db)}).invoke(
            app, [*arguments], input=stdin, prog_name="foldb", catch_exceptions=False
        )

    return run


def lines(result: Result) -> list[Any]:
    """What a command that went well wrote as JSON Lines."""
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]
