"""A time is accepted wherever a position is: `log cat`, `restore --log`, `log restore --to`, `log salvage --to`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import foldb
from tests.behaviour.cli.conftest import Foldb, at, lines


@pytest.fixture(params=[1, 3], ids=["one partition", "three partitions"])
def cli(request: pytest.FixtureRequest, folder: Path) -> Iterator[Foldb]:
    with foldb.serve(folder, partitions=request.param, fsync="never") as server:
        yield at(server.endpoint_url)


@pytest.fixture
def rows(cli: Foldb, folder: Path) -> list[dict[str, Any]]:
    """Return the log of twelve puts and a table that is deleted after them."""
    cli("table", "create", "Notes", "id:S")
    for number in range(12):
        lines(cli("item", "put", "Notes", f'{{"id": "{number}"}}'))
    cli("table", "delete", "Notes", "--yes")
    return lines(cli("log", "cat"))


def puts(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["command"] == "Put"]


def test_cat_begins_and_ends_at_times(cli: Foldb, rows: list[dict[str, Any]]) -> None:
    first, last = puts(rows)[3]["time"], puts(rows)[8]["time"]

    shown = puts(lines(cli("log", "cat", "--from", first, "--to", last)))

    assert [row for row in puts(rows) if first <= row["time"] <= last] == shown


def test_cat_begins_so_long_ago(cli: Foldb, rows: list[dict[str, Any]]) -> None:
    assert rows == lines(cli("log", "cat", "--from", "-1h", "--to", "2999-01-01"))
    assert [] == lines(cli("log", "cat", "--from", "2999-01-01"))


def test_a_log_brings_a_table_back_as_of_a_time(cli: Foldb, rows: list[dict[str, Any]], folder: Path) -> None:
    time = puts(rows)[5]["time"]
    expected = sorted(row["key"]["id"] for row in puts(rows) if row["time"] <= time)

    [made] = lines(cli("restore", "Notes", "--as-of", time, "--into", "Before", "--log", str(folder)))

    assert len(expected) == made["items"]
    assert expected == sorted(row["id"] for row in lines(cli("scan", "Before")))


@pytest.mark.parametrize("command", ["restore", "salvage"])
def test_a_copy_may_end_at_a_time(
    cli: Foldb, rows: list[dict[str, Any]], folder: Path, tmp_path: Path, command: str
) -> None:
    time = puts(rows)[5]["time"]
    lines(cli("log", command, str(folder), str(tmp_path / "new"), "--to", time))

    copied = lines(at(tmp_path / "new")("log", "cat"))

    assert [row for row in puts(rows) if row["time"] <= time] == puts(copied)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["log", "cat", "--to", "2001-01-01"], "its history begins at 20"),
        (["log", "cat", "--to", "2001-01-01T00:00:00Z"], "its history begins at 20"),
        (["log", "cat", "--from", "yesterday"], "and not a time such as 2026-11-20T12:00:00Z or -1h"),
        (["log", "cat", "--from", "-1x"], "and not a time such as 2026-11-20T12:00:00Z or -1h"),
    ],
)
def test_a_place_before_history_or_of_no_kind_is_refused(
    cli: Foldb, rows: list[dict[str, Any]], arguments: list[str], says: str
) -> None:
    result = cli(*arguments)

    assert 2 == result.exit_code
    assert says in result.stderr
