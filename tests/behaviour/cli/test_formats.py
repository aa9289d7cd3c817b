"""Formats of data: half units in every format, and the header of a CSV without rows."""

import csv
import json
import sys

import pytest
import yaml

from foldb.cli.lib.output import Output
from foldb.cli.lib.settings import Format, SessionSettings
from tests.behaviour.cli.conftest import Foldb

FORMATS = ("table", "json", "jsonl", "csv", "raw", "yaml")


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


def test_yaml_keeps_digits_and_binary_and_reads_back(music: Foldb) -> None:
    """A reader of YAML 1.1 takes `yes` for a Boolean, one of 1.2 `1e3` for a number: both are quoted."""
    item = {"Artist": "A", "Song": "yes", "n": 1, "data": "b64:aGk=", "x": "1e3", "m": {"s": {"$set": ["y"]}}}
    music("item", "put", "Music", json.dumps(item)[:-1] + ', "d": 0.1000000000000000000000000000000000001}')
    result = music("item", "get", "Music", "A", "yes", "-o", "yaml")

    digits = "0.1000000000000000000000000000000000001"
    assert item | {"d": float(digits)} == yaml.safe_load(result.stdout)
    for line in (f"d: {digits}", "data: b64:aGk=", "Song: 'yes'", "x: '1e3'"):
        assert line in result.stdout.splitlines()


def test_yaml_of_an_exponent_is_a_number_for_every_reader(music: Foldb) -> None:
    music("item", "put", "Music", '{"Artist": "A", "Song": "C", "n": 2E-50, "small": -1.5E-50}')

    assert "'n': 2.0e-50\nsmall: -1.5e-50\n" in music("item", "get", "Music", "A", "C", "-o", "yaml").stdout


def test_yaml_of_rows_is_a_list_and_of_several_values_documents(
    music: Foldb, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [{"table": "Music"}] == yaml.safe_load(music("table", "list", "-o", "yaml").stdout)
    assert [] == yaml.safe_load(music("trigger", "list", "-o", "yaml").stdout)

    output = Output(SessionSettings(db="", format=Format.YAML))
    for text in ("one", "two\nlines\n"):
        output.row({"text": text})

    written = capsys.readouterr().out
    assert [{"text": "one"}, {"text": "two\nlines\n"}] == [*yaml.safe_load_all(written)]
    assert "text: |\n  two\n  lines\n" in written


def test_yaml_without_its_library_fails_before_the_command(
    music: Foldb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    monkeypatch.delitem(sys.modules, "foldb.cli.lib.yaml_format", raising=False)
    result = music("item", "delete", "Music", "A", "B", "-o", "yaml")

    assert (2, "foldb: -o yaml needs PyYAML: pip install 'foldb[yaml]', or use -o json\n") == (
        result.exit_code,
        result.stderr,
    )
    assert 0 == music("item", "get", "Music", "A", "B").exit_code


def test_a_control_code_in_an_item_does_not_reach_a_terminal(music: Foldb) -> None:
    """Items are written by others. A table shows the code; JSON escapes it by itself."""
    music("item", "put", "Music", json.dumps({"Artist": "A", "Song": "C", "text": "a\x1b[2Jb\rc"}))

    for command in (("scan", "Music"), ("item", "get", "Music", "A", "C")):
        shown = music(*command, "-o", "table").stdout
        assert "a\\u001b[2Jb\\u000dc" in shown
