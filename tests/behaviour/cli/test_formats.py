"""Formats of data: half units in every format, and the header of a CSV without rows."""

import csv
import json

import pytest

from foldb.cli.lib.output import Output
from foldb.cli.lib.settings import Format, SessionSettings
from tests.behaviour.cli.conftest import Foldb

FORMATS = ("table", "json", "jsonl", "csv", "raw")


@pytest.fixture
def music(cli: Foldb) -> Foldb:
    cli("table", "create", "Music", "Artist:S", "Song:S", "--gsi", "Labels=Brand:S,Made:N")
    cli("item", "put", "Music", '{"Artist": "A", "Song": "B", "Made": 1994, "Brand": "Dali", "n": 1.5}')
    return cli


@pytest.mark.parametrize("output", FORMATS)
@pytest.mark.parametrize(
    "request_", [("get", "A", "B"), ("query", "A"), ("scan",)], ids=lambda words: words[0]
)
def test_a_cost_of_half_units_is_written_in_every_format(
    music: Foldb, output: str, request_: tuple[str, ...]
) -> None:
    result = music("explain", request_[0], "Music", *request_[1:], "-o", output)

    assert 0 == result.exit_code, result.output
    assert "0.5" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "header"),
    [
        (("scan", "Music", "--where", "n > 9"), "Artist,Song"),
        (("query", "Music", "nobody"), "Artist,Song"),
        (("query", "Music", "nobody", "--index", "Labels"), "Brand,Made,Artist,Song"),
        (("scan", "Music", "--where", "n > 9", "--select", "n,Song"), "n,Song"),
        (("log", "tail", "-n", "0"), "position,time,command,table,key,outcome,units"),
        (("trigger", "list"), "trigger,tables,target,status"),
        (("stream", "tail", "Music", "--from", "end"), "time,op,table,keys,old,new,number"),
    ],
    ids=["scan", "query", "index", "select", "log", "triggers", "changes"],
)
def test_a_csv_without_rows_has_its_header(music: Foldb, arguments: tuple[str, ...], header: str) -> None:
    result = music(*arguments, "-o", "csv")

    assert (0, f"{header}\n") == (result.exit_code, result.stdout), result.output


def test_a_csv_written_in_pieces_has_one_header(capsys: pytest.CaptureFixture[str]) -> None:
    """Some commands write a row as each thing is done; other columns have a header of their own."""
    output = Output(SessionSettings(db="", format=Format.CSV))
    for row in ({"a": 1, "b": 2}, {"a": 3, "b": 4}, {"c": 5}):
        output.row(row)

    assert "a,b\n1,2\n3,4\nc\n5\n" == capsys.readouterr().out


def test_a_csv_of_no_tables_has_its_header(cli: Foldb) -> None:
    assert "table\n" == cli("table", "list", "-o", "csv").stdout


@pytest.mark.parametrize(
    ("select", "header"),
    [("n", ["n"]), ("n,Song", ["n", "Song"]), ("size,n", ["size", "n"]), ("m.a[0],m.b", ["m"])],
)
def test_selected_attributes_are_the_only_columns(music: Foldb, select: str, header: list[str]) -> None:
    """In their order; an attribute that no item has keeps its column."""
    music("item", "update", "Music", "A", "B", "--set", "m = :m", "--value", ':m={"a": [1], "b": 2}')

    for read in (("scan", "Music"), ("query", "Music", "A")):
        rows = [*csv.reader(music(*read, "--select", select, "-o", "csv").stdout.splitlines())]
        assert header == rows[0]
        assert 2 == len(rows)


def test_a_control_code_in_an_item_does_not_reach_a_terminal(music: Foldb) -> None:
    """Items are written by others. A table shows the code; JSON escapes it by itself."""
    music("item", "put", "Music", json.dumps({"Artist": "A", "Song": "C", "text": "a\x1b[2Jb\rc"}))

    for command in (("scan", "Music"), ("item", "get", "Music", "A", "C")):
        shown = music(*command, "-o", "table").stdout
        assert "a\\u001b[2Jb\\u000dc" in shown
