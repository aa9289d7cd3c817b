"""`foldb sql`: statements as an argument and from stdin, their parameters, pages and output."""

import os
import pty
import re
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.behaviour.cli.conftest import Foldb, lines
from tests.support.served import FOLDB


@pytest.fixture
def music(cli: Foldb) -> Foldb:
    """Five songs, of 1 to 5 plays."""
    cli("table", "create", "Music", "Artist:S", "Song:N", "--gsi", "plays=Plays:N")
    inserts = (
        f"INSERT INTO Music VALUE {{'Artist': 'Kyuss', 'Song': {n}, 'Plays': {n}}}" for n in range(1, 6)
    )
    assert 0 == cli("sql", stdin=";\n".join(inserts)).exit_code
    return cli


@pytest.mark.spec("X12")
def test_a_select_prints_its_items(music: Foldb) -> None:
    result = music("sql", "SELECT Song FROM Music WHERE Artist = ? AND Plays > ?", "-p", "Kyuss", "-p", "3")

    assert [{"Song": 4}, {"Song": 5}] == lines(result)
    assert re.fullmatch(r"2 items · 0\.5 RCU · as of @\d+ \(.*\)\n", result.stderr)


@pytest.mark.parametrize(("limit", "count"), [(1, 1), (3, 3), (9, 5)])
def test_a_limit_counts_items_over_all_pages(music: Foldb, limit: int, count: int) -> None:
    result = music("sql", "SELECT * FROM Music WHERE Artist = 'Kyuss'", "--limit", str(limit))

    assert count == len(lines(result))
    assert (limit < 5) == ("more: a higher --limit" in result.stderr)


def test_a_filter_is_read_to_the_end_of_the_table(music: Foldb) -> None:
    assert 1 == len(lines(music("sql", "SELECT * FROM Music WHERE Plays = 5", "--limit", "1")))


def test_a_table_has_the_columns_of_the_statement_first(music: Foldb) -> None:
    named = music("sql", "SELECT Plays, Artist FROM Music WHERE Artist = 'Kyuss'", "-o", "csv").stdout
    every = music("sql", 'SELECT * FROM "Music"."plays" WHERE Plays = 2', "-o", "csv").stdout

    assert "Plays,Artist" == named.splitlines()[0]
    assert ["Plays,Artist,Song", "2,Kyuss,2"] == every.splitlines()


def test_a_write_prints_what_it_returns(music: Foldb) -> None:
    update = "UPDATE Music SET Plays = Plays + 1 WHERE Artist = 'Kyuss' AND Song = 1 RETURNING ALL NEW *"
    result = music("sql", update)

    assert [{"Artist": "Kyuss", "Song": 1, "Plays": 2}] == lines(result)
    assert re.fullmatch(r"1 statement · \d RCU.*|1 statement · [\d.]+ WCU · as of .*\n", result.stderr)


def test_as_of_reads_the_past(music: Foldb) -> None:
    deleted = music("sql", "DELETE FROM Music WHERE Artist = 'Kyuss' AND Song = 1")
    position = re.search(r"@(\d+)", deleted.stderr)
    assert position is not None
    select = "SELECT Song\nFROM Music -- all\nWHERE Artist = 'Kyuss'"
    before = str(int(position[1]) - 1)

    assert 4 == len(lines(music("sql", select)))
    assert 5 == len(lines(music("sql", select, "--as-of", before)))
    assert 5 == len(lines(music("sql", select.replace("Music", f'"Music@{before}"'))))
    refused = music("sql", "DELETE FROM Music WHERE Artist = 'Kyuss' AND Song = 1", "--as-of", before)
    assert (2, "foldb: --as-of reads the past: use it with a SELECT\n") == (refused.exit_code, refused.stderr)


def test_statements_from_stdin_end_with_a_semicolon(music: Foldb) -> None:
    text = (
        "UPDATE Music SET note = 'a;b' WHERE Artist = 'Kyuss' AND Song = 1; -- one; two\n"
        ";; SELECT note /* three;\n four; */ FROM Music\n WHERE note = 'a;b'"
    )

    assert [{"note": "a;b"}] == lines(music("sql", stdin=text))


def test_an_error_ends_the_statements_from_stdin(music: Foldb) -> None:
    insert = "INSERT INTO Music VALUE {'Artist': 'Kyuss', 'Song': 1};"
    result = music("sql", stdin=f"{insert} DELETE FROM Music WHERE Artist = 'Kyuss' AND Song = 1")

    assert 4 == result.exit_code
    assert "DuplicateItemException: Duplicate primary key exists in table" in result.stderr
    assert 5 == len(lines(music("sql", "SELECT * FROM Music")))


def test_a_parameter_is_json_or_a_string(music: Foldb) -> None:
    insert = "INSERT INTO Music VALUE {'Artist': 'x', 'Song': 1, 'a': ?, 'b': ?, 'c': ?}"
    music("sql", insert, "-p", '"7"', "-p", '{"$set": [1]}', "-p", "plain text")

    assert [{"a": "7", "b": {"$set": [1]}, "c": "plain text"}] == lines(
        music("sql", "SELECT a, b, c FROM Music WHERE Artist = 'x'")
    )


def test_a_terminal_gets_a_prompt_with_a_history(url: str, tmp_path: Path) -> None:
    master, slave = pty.openpty()
    environment = {**os.environ, "FOLDB_DB": url, "HOME": str(tmp_path), "TERM": "dumb"}
    with subprocess.Popen(
        [FOLDB, "sql"], stdin=slave, stdout=slave, stderr=slave, env=environment
    ) as process:
        os.close(slave)
        shown = b""
        for number, line in enumerate((b"SELECT *\n", b"FROM lost;\n", b"SELEC;\n", b"\x04"), 1):
            while shown.count(b"foldb> ") < number:
                shown += os.read(master, 4096)
            os.write(master, line)
        with suppress(OSError):  # the process has closed the terminal
            while data := os.read(master, 4096):
                shown += data
        os.close(master)

    assert 0 == process.returncode, shown
    assert b"ResourceNotFoundException" in shown
    assert b"Expected data manipulation" in shown
    history = tmp_path / ".foldb_history"
    assert {"SELECT *", "FROM lost;", "SELEC;"} <= set(history.read_text().splitlines())
    assert 0o600 == history.stat().st_mode & 0o777
