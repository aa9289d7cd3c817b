"""`foldb count`, `foldb index status`, and keys of several attributes on the command line."""

import pytest

from foldb.cli.lib.errors import ExitCode
from tests.behaviour.cli.conftest import Foldb, lines

PLACES = [
    '{"id": "1", "Country": "DE", "City": "Bonn", "Year": 2026, "Month": 1}',
    '{"id": "2", "Country": "DE", "City": "Bonn", "Year": 2026, "Month": 11}',
    '{"id": "3", "Country": "DE", "City": "Bonn", "Year": 2025, "Month": 12}',
    '{"id": "4", "Country": "DE", "City": "Ulm", "Year": 2026, "Month": 1}',
    '{"id": "5", "Country": "DE"}',
]


@pytest.fixture
def places(cli: Foldb) -> Foldb:
    index = "places=Country:S+City:S,Year:N+Month:N keys_only"
    assert 0 == cli("table", "create", "Places", "id:S", "--gsi", index).exit_code
    assert 0 == cli("item", "put", "Places", "-", stdin="\n".join(PLACES)).exit_code
    return cli


@pytest.mark.spec("X10")
@pytest.mark.parametrize(
    ("sorts", "ids"),
    [
        ([], ["3", "1", "2"]),
        (["2026"], ["1", "2"]),
        ([">= 2026"], ["1", "2"]),
        (["2026", "> 1"], ["2"]),
        (["= 2026", "between 1 and 2"], ["1"]),
    ],
)
def test_each_sk_is_the_next_sort_attribute(places: Foldb, sorts: list[str], ids: list[str]) -> None:
    words = [
        "Places",
        "DE",
        "Bonn",
        "--index",
        "places",
        *(word for text in sorts for word in ("--sk", text)),
    ]

    assert ids == [item["id"] for item in lines(places("query", *words))]
    [explained] = lines(places("explain", "query", *words))
    assert len(ids) == explained["items"]
    [counted] = lines(places("count", *words))
    assert {
        "table": "Places",
        "index": "places",
        "count": len(ids),
        "scanned": len(ids),
        "rcu": 0.5,
    } == counted


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("--sk 2026 --sk 1 --sk 2", ExitCode.USAGE, "places has the sort key Year and Month"),
        ("--sk >2025 --sk 1", ExitCode.INVALID, "RANGE key attributes Year must have equality conditions"),
    ],
)
def test_an_sk_too_many_or_after_a_range_is_refused(
    places: Foldb, words: str, code: ExitCode, says: str
) -> None:
    for command in ("query", "count"):
        refused = places(command, "Places", "DE", "Bonn", "--index", "places", *words.split())

        assert (code, "") == (refused.exit_code, refused.stdout)
        assert says in refused.stderr


def test_a_count_reads_all_pages_and_sums_their_units(cli: Foldb) -> None:
    cli("table", "create", "Wide", "id:S", "n:N")
    text = "x" * 350_000
    for n in range(4):
        item = f'{{"id": "a", "n": {n}, "even": {1 - n % 2}, "text": "{text}"}}'
        assert 0 == cli("item", "put", "Wide", item).exit_code

    [scan] = lines(cli("explain", "scan", "Wide"))
    [counted] = lines(cli("count", "Wide", "--consistent"))
    assert 2 == scan["pages"]
    assert {"table": "Wide", "count": 4, "scanned": 4, "rcu": scan["rcu_strong"]} == counted
    [query] = lines(cli("explain", "query", "Wide", "a", "--sk", ">= 1"))
    [matched] = lines(cli("count", "Wide", "a", "--sk", ">= 1", "--where", "even = 1"))
    assert {"table": "Wide", "count": 1, "scanned": 3, "rcu": query["rcu_eventual"]} == matched


def test_a_count_of_the_past_is_that_of_its_cut(places: Foldb) -> None:
    places("item", "delete", "Places", "1")

    [now] = lines(places("count", "Places"))
    [then] = lines(places("count", "Places", "--as-of", "@2"))
    assert (4, 5) == (now["count"], then["count"])


def test_a_condition_on_the_sort_key_needs_the_partition_key(places: Foldb) -> None:
    refused = places("count", "Places", "--sk", "2026")

    assert (ExitCode.USAGE, "foldb: the partition key is id\n") == (refused.exit_code, refused.stderr)


@pytest.mark.spec("X10")
def test_the_status_of_an_index_has_its_key_and_its_size(places: Foldb) -> None:
    places("table", "create", "Bare", "id:S", "n:N", "--lsi", "sizes=size:N")

    rows = lines(places("index", "status"))

    assert [
        {
            "table": "Bare",
            "index": "sizes",
            "kind": "local",
            "status": "ACTIVE",
            "key": "id:S,size:N",
            "projection": "ALL",
            "items": 0,
            "bytes": 0,
        },
        {
            "table": "Places",
            "index": "places",
            "kind": "global",
            "status": "ACTIVE",
            "key": "Country:S+City:S,Year:N+Month:N",
            "projection": "KEYS_ONLY",
            "items": 4,
            "bytes": rows[1]["bytes"],
        },
    ] == rows
    assert rows[1:] == lines(places("index", "status", "Places"))
    assert ExitCode.NOT_FOUND == places("index", "status", "Nowhere").exit_code


@pytest.mark.spec("S22")
def test_an_index_in_the_making_shows_how_far_it_is(cli: Foldb) -> None:
    cli("table", "create", "Cars", "id:N")
    cars = "\n".join(f'{{"id": {n}, "colour": "c{n % 7}"}}' for n in range(1000))
    assert 0 == cli("item", "put", "Cars", "-", stdin=cars).exit_code
    assert 0 == cli("table", "update", "Cars", "--gsi", "colours=colour:S", "--no-wait").exit_code

    filled = []
    while (row := lines(cli("index", "status", "Cars"))[0])["status"] != "ACTIVE":
        filled += [row["filled"]] if "filled" in row else []
    assert sorted(filled) == filled
    assert all(0 <= percent <= 100 for percent in filled)
    assert ("filled" in row, row["items"]) == (False, 1000)
