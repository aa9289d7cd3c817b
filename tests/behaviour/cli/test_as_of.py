"""`--as-of`: the reading commands on a state of the past."""

import re

import pytest

from tests.behaviour.cli.conftest import Foldb, lines


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


def test_a_cut_that_cannot_be_read_is_explained(music: Foldb) -> None:
    malformed = music("scan", "Music", "--as-of", "yesterday")
    dropped = music("scan", "Music", "--as-of", "-0")

    assert "`yesterday` is not a cut: write a position" in malformed.stderr
    assert "not found" in dropped.stderr
    assert malformed.exit_code != 0 != dropped.exit_code
