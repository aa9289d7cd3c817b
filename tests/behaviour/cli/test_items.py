"""Items by the command line: put, get, update, delete, query, scan, transactions."""

import json
import re
from pathlib import Path

import pytest

from tests.behaviour.cli.conftest import Foldb, lines

SONG = '{"Artist": "Kyuss", "Song": "Space Cadet", "Plays": 12345678901234567890123456789012345678}'


@pytest.fixture
def music(cli: Foldb) -> Foldb:
    cli("table", "create", "Music", "Artist:S", "Song:S", "--lsi", "Years=Year:N")
    return cli


def test_a_number_keeps_all_its_digits_on_the_way_in_and_out(music: Foldb) -> None:
    music("item", "put", "Music", SONG)

    result = music("item", "get", "Music", "Kyuss", "Space Cadet")

    assert (
        '{"Artist":"Kyuss","Plays":12345678901234567890123456789012345678,"Song":"Space Cadet"}\n'
        == result.stdout
    )
    assert re.fullmatch(
        r"1 item · 0\.5 RCU · as of @2 \(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\)\n", result.stderr
    )


def test_typed_speaks_dynamodb_json_both_ways(music: Foldb) -> None:
    item = {"Artist": {"S": "A"}, "Song": {"S": "B"}, "Cover": {"B": "aGk="}, "Tags": {"SS": ["a", "b"]}}
    music("item", "put", "Music", json.dumps(item), "--typed")

    assert [item] == lines(
        music("item", "get", "Music", '{"Artist": {"S": "A"}, "Song": {"S": "B"}}', "--typed")
    )
    plain = {"Artist": "A", "Song": "B", "Cover": "b64:aGk=", "Tags": {"$set": ["a", "b"]}}
    assert [plain] == lines(music("item", "get", "Music", "A", "B"))


@pytest.mark.spec("S73", "S78")
def test_an_update_takes_literals_and_prints_the_item_as_it_is_then(music: Foldb) -> None:
    music("item", "put", "Music", '{"Artist": "A", "Song": "B", "n": 9}')

    update = (
        "item",
        "update",
        "Music",
        "A",
        "B",
        "--set",
        "n = n + 1",
        "--set",
        "#s = 'x'",
        "--name",
        "#s=state",
    )
    assert [{"Artist": "A", "Song": "B", "n": 10, "state": "x"}] == lines(music(*update, "--if", "n < 10"))

    refused = music(*update, "--if", "n < 10", "--show-old")
    assert 4 == refused.exit_code
    assert {"Artist": "A", "Song": "B", "n": 10, "state": "x"} == json.loads(refused.stdout)
    assert "foldb: ConditionalCheckFailedException: The conditional request failed\n" == refused.stderr


def test_a_deleted_item_is_printed_as_it_was_and_then_not_found(music: Foldb) -> None:
    music("item", "put", "Music", '{"Artist": "A", "Song": "B"}')

    assert [{"Artist": "A", "Song": "B"}] == lines(music("item", "delete", "Music", "A", "B"))
    assert [] == lines(music("item", "delete", "Music", "A", "B"))
    assert 3 == music("item", "get", "Music", "A", "B").exit_code


@pytest.mark.spec("S84")
def test_a_stream_of_items_is_written_in_batches_last_write_wins(music: Foldb) -> None:
    items = [{"Artist": "A", "Song": f"{n % 60:02}", "n": n} for n in range(70)]

    result = music("item", "put", "Music", "-", stdin="\n".join(map(json.dumps, items)))

    assert 0 == result.exit_code
    assert result.stderr.startswith("70 items · ")
    songs = lines(music("query", "Music", "A", "--all"))
    assert [60 + n if n < 10 else n for n in range(60)] == [song["n"] for song in songs]


def songs(*wrong: str, before: int) -> str:
    """Return N valid lines, then these."""
    good = [json.dumps({"Artist": "A", "Song": f"{n:03}"}) for n in range(before)]
    return "\n".join([*good, *wrong, '{"Artist": "A", "Song": "last"}'])


def written(cli: Foldb) -> int:
    [row] = lines(cli("scan", "Music", "--select", "count"))
    return int(row["count"])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"Artist": }', " is not JSON: Expecting value"),
        ("[1]", " is not an item: write a JSON object"),
        ('{"Artist": "A"}', ": ValidationException: The provided key element does not match the schema"),
        (
            '{"Artist": "A", "Song": 7}',
            ' (key {"Artist":"A","Song":7}): ValidationException: The provided key element does not match the schema',
        ),
        (
            '{"Artist": "A", "Song": "x", "tags": {"$set": []}}',
            ' (key {"Artist":"A","Song":"x"}): a set has strings, numbers or binaries of one type',
        ),
        ('{"Artist": "A", "Song": "\\ud800"}', ": this cannot be sent, str is not valid UTF-8"),
    ],
    ids=["not-json", "no-object", "no-key", "wrong-key", "empty-set", "lone-surrogate"],
)
def test_a_bad_line_is_named_with_its_file_and_key(
    music: Foldb, tmp_path: Path, line: str, said: str
) -> None:
    """The items before it are written and counted, and none behind it."""
    file = tmp_path / "songs.jsonl"
    file.write_text(songs(line, before=31))

    result = music("item", "put", "Music", f"@{file}")

    assert 10 == result.exit_code
    assert result.stderr.startswith(f"foldb: {file} line 32{said}")
    assert result.stderr.endswith("; 31 items were written before it; to put them again is harmless\n")
    assert 31 == written(music)


@pytest.mark.parametrize(("line", "code"), [('{"Artist": }', 2), ('{"Artist": "A"}', 7)])
def test_a_bad_first_line_keeps_its_own_exit_code(music: Foldb, line: str, code: int) -> None:
    result = music("item", "put", "Music", "-", stdin=f"\n{line}\n")

    assert code == result.exit_code
    assert result.stderr.startswith("foldb: stdin line 2")
    assert "written" not in result.stderr
    assert 0 == written(music)


def test_typed_lines_are_named_too(music: Foldb) -> None:
    """A value of a wrong type is named like a value that the client itself refuses, although the server finds it."""
    item = '{"Artist": {"S": "A"}, "Song": {"S": "%s"}}'
    for wrong in ('{"Artist": {"S": "A"}, "Song": {"N": 7}}', '{"Artist": "A", "Song": "B"}'):
        result = music("item", "put", "Music", "-", "--typed", stdin="\n".join((item % "a", wrong)))

        assert 10 == result.exit_code
        assert result.stderr.startswith("foldb: stdin line 2 (key ")
        assert "; 1 item was written before it;" in result.stderr


@pytest.mark.spec("S74")
@pytest.mark.parametrize(
    ("sort", "found"),
    [
        ("c", ["c"]),
        ("= c", ["c"]),
        ("< c", ["a", "b"]),
        ("<= c", ["a", "b", "c"]),
        ("> c", ["d", "da"]),
        (">='d'", ["d", "da"]),
        ("begins_with d", ["d", "da"]),
        ("between b and d", ["b", "c", "d"]),
        ("BETWEEN b AND d", ["b", "c", "d"]),
    ],
)
def test_a_sort_key_condition_is_one_word_away(music: Foldb, sort: str, found: list[str]) -> None:
    for song in ("a", "b", "c", "d", "da"):
        music("item", "put", "Music", json.dumps({"Artist": "A", "Song": song}))

    assert found == [row["Song"] for row in lines(music("query", "Music", "A", "--sk", sort))]


@pytest.mark.parametrize("sort", ["=> c", "=< c", "== c", "<> c", "!= c", "=>c", ">>c", "><"])
def test_an_unknown_operator_of_a_sort_key_is_refused(music: Foldb, sort: str) -> None:
    """It was taken for a part of the value, and found nothing without a word."""
    operator = sort.removesuffix("c").strip()

    result = music("query", "Music", "A", "--sk", sort)

    assert (2, "") == (result.exit_code, result.stdout)
    assert result.stderr == (
        f"foldb: --sk '{sort}': {operator} is not an operator; "
        "the operators are =, <, <=, >, >=, begins_with and between. "
        f"Quote a value that begins like one: \"= '{sort}'\".\n"
    )


def test_a_quoted_sort_key_may_begin_like_an_operator(music: Foldb) -> None:
    music("item", "put", "Music", '{"Artist": "A", "Song": "=> c"}')

    assert ["=> c"] == [row["Song"] for row in lines(music("query", "Music", "A", "--sk", "= '=> c'"))]
    assert ["=> c"] == [row["Song"] for row in lines(music("query", "Music", "A", "--sk", "'=> c'"))]


def test_an_index_is_queried_by_its_own_keys(music: Foldb) -> None:
    for year, song in ((2014, "Claws"), (2011, "Vidage"), (2012, "Other")):
        music("item", "put", "Music", json.dumps({"Artist": "1000mods", "Song": song, "Year": year}))

    result = music(
        "query", "Music", "1000mods", "--index", "Years", "--sk", "> 2011", "--desc", "--select", "Song"
    )

    assert [{"Song": "Claws"}, {"Song": "Other"}] == lines(result)
    assert 3 == music("query", "Music", "1000mods", "--index", "Nope").exit_code


def test_a_line_that_cannot_be_loaded_is_reported_and_kept(music: Foldb) -> None:
    for n in range(5):
        music("item", "put", "Music", json.dumps({"Artist": "A", "Song": str(n)}))

    first = music("query", "Music", "A", "--limit", "2")
    assert first.stderr.endswith("""more: --all, or --start '{"Artist":"A","Song":"1"}'\n""")
    rest = lines(music("query", "Music", "A", "--start", '{"Artist":"A","Song":"1"}'))
    assert ["2", "3", "4"] == [row["Song"] for row in rest]


@pytest.mark.spec("S75", "S48")
def test_a_scan_filters_counts_and_goes_in_segments(music: Foldb) -> None:
    for n in range(20):
        music("item", "put", "Music", json.dumps({"Artist": f"A{n}", "Song": "S", "n": n}))

    some = lines(music("scan", "Music", "--where", "n >= 15"))
    assert [15, 16, 17, 18, 19] == sorted(row["n"] for row in some)
    assert [{"count": 20}] == lines(music("scan", "Music", "--select", "count"))
    assert list(range(20)) == sorted(row["n"] for row in lines(music("scan", "Music", "--segments", "4")))
    assert 1 == music("scan", "Music", "--where", "n > 99", "--fail-empty").exit_code


@pytest.mark.spec("S80", "S83")
def test_a_transaction_does_all_or_nothing_and_says_why(cli: Foldb) -> None:
    cli("sample", "load", "goods")
    ship = cli("sample", "show", "goods", "--transaction", "item001-to-cx1").stdout

    done = cli("tx", "-", stdin=ship)
    assert "2 actions · 4 WCU" == done.stderr.partition(" · as of")[0]
    again = cli("tx", "-", stdin=ship)
    assert 5 == again.exit_code
    reasons = [json.loads(line) for line in again.stderr.splitlines()[:2]]
    assert ["ConditionalCheckFailed", "None"] == [reason["Code"] for reason in reasons]

    full = cli("tx", "-", stdin=cli("sample", "show", "goods", "--transaction", "item002-to-cx3").stdout)
    assert 5 == full.exit_code
    assert [{"id": "cx1", "freecapacity": 4, "shipmentlist": ["item001"]}] == lines(
        cli("item", "get", "Containers", "cx1")
    )
    assert "container_id" not in cli("item", "get", "Goods", "item002").stdout


def test_a_list_of_gets_is_read_at_one_moment(cli: Foldb, tmp_path: Path) -> None:
    cli("sample", "load", "goods")
    file = tmp_path / "gets.json"
    file.write_text(
        '[{"get": {"table": "Goods", "key": {"id": "item003"}, "select": "container_id"}},'
        ' {"get": {"table": "Containers", "key": {"id": "cx3"}, "select": "freecapacity"}}]'
    )

    assert [{"container_id": "cx3"}, {"freecapacity": 0}] == lines(cli("tx", str(file)))


@pytest.mark.parametrize(
    "actions",
    [
        "{}",
        '[{"put": {"item": {}}}]',
        '[{"steal": {"table": "T"}}]',
        '[{"get": {"table": "T", "item": {}}}]',
        "[1]",
    ],
)
def test_a_list_of_something_else_is_wrong_usage(cli: Foldb, actions: str) -> None:
    assert 2 == cli("tx", "-", stdin=actions).exit_code
