"""`--as-of`: the reading commands on a state of the past."""

import re

import pytest

from tests.behaviour.cli.conftest import Foldb, at, lines


@pytest.fixture
def music(cli: Foldb) -> Foldb:
    """Two songs at position 3; later both are changed, and the table is dropped."""
    cli("table", "create", "Music", "Artist:S", "Song:S")
    for song in "AB":
        cli("item", "put", "Music", f'{{"Artist": "Kyuss", "Song": "{song}", "Plays": 1}}')
    for song in "AB":
        cli("item", "update", "Music", "Kyuss", song, "--set", "Plays = 2")
    assert 0 == cli("table", "delete", "Music", "--yes").exit_code
    return cli


@pytest.mark.spec("H3")
def test_an_item_is_read_as_it_was(music: Foldb) -> None:
    result = music("item", "get", "Music", "Kyuss", "A", "--as-of", "3")

    assert [{"Artist": "Kyuss", "Plays": 1, "Song": "A"}] == lines(result)
    assert re.fullmatch(r"1 item · 0\.5 RCU · as of @3 \(.*\)\n", result.stderr)
    assert [{"Artist": "Kyuss", "Plays": 2, "Song": "A"}] == lines(
        music("item", "get", "Music", "Kyuss", "A", "--as-of", "@4.0")
    )


def test_a_query_a_scan_and_a_definition_are_read_as_they_were(music: Foldb) -> None:
    songs = [{"Artist": "Kyuss", "Plays": 1, "Song": song} for song in "AB"]

    assert songs == lines(music("query", "Music", "Kyuss", "--as-of", "3"))
    assert songs == lines(music("scan", "Music", "--as-of", "3"))
    assert songs == lines(music("scan", "Music", "--segments", "2", "--as-of", "3"))
    assert [2] == [table["ItemCount"] for table in lines(music("table", "describe", "Music", "--as-of", "3"))]


def test_the_pages_of_an_age_are_read_at_one_time(cli: Foldb) -> None:
    cli("table", "create", "Music", "Artist:S")
    for artist in "AB":
        cli("item", "put", "Music", f'{{"Artist": "{artist}"}}')

    first = cli("scan", "Music", "--limit", "1", "--as-of", "-0")
    start = re.search("--start '(.*)'", first.stderr)
    assert start is not None
    rest = cli("scan", "Music", "--start", start[1], "--as-of", "-0")
    assert ["A", "B"] == sorted(item["Artist"] for item in lines(first) + lines(rest))


def test_a_cut_after_the_deletion_of_a_table_is_not_found(music: Foldb) -> None:
    dropped = music("scan", "Music", "--as-of", "-0")

    assert (3, True) == (dropped.exit_code, "not found" in dropped.stderr)


@pytest.mark.parametrize(
    "words",
    [
        "item get Music Kyuss A --as-of x",
        "item blame Music Kyuss A --as-of x",
        "item history Music Kyuss A --from x",
        "item history Music Kyuss A --to x",
        "item diff Music Kyuss A x -0",
        "query Music Kyuss --as-of x",
        "scan Music --as-of x",
        "table describe Music --as-of x",
        "diff Music x",
        "diff Music@x Other",
        "restore Music --as-of x --into New",
        "fork Music New --as-of x",
        "undo --by me --from x",
        "undo --by me --from -1h --to x",
    ],
)
def test_a_malformed_cut_is_refused_before_the_request(words: str) -> None:
    """No server has the address."""
    result = at("http://127.0.0.1:9")(*words.split())

    assert 2 == result.exit_code
    assert 1 == result.stderr.count("\n")
    assert "foldb: `x` is not a cut: write a position (10482, 10482.3, 2:10482.3), a time" in result.stderr
