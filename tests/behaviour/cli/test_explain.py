"""The access path and the cost of a request, before it runs."""

import json
from typing import Any

import pytest

from tests.behaviour.cli.conftest import Foldb, lines

KIB = 1024


@pytest.fixture
def music(cli: Foldb) -> Foldb:
    cli("table", "create", "Music", "Artist:S", "Song:S", "--lsi", "Years=Made:N", "--gsi", "Labels=Brand:S")
    return cli


def item(**attributes: Any) -> str:
    return json.dumps({"Artist": "A", "Song": "B", **attributes})


def arms(rows: list[Any]) -> dict[str, tuple[int, int, int]]:
    """Return writes, units and units in a transaction, of the table, whose name is "", and of its indexes."""
    return {row.get("index", ""): (row["writes"], row["wcu"], row["wcu_transaction"]) for row in rows}


@pytest.mark.spec("S08", "S57")
def test_explain_says_how_items_are_found_and_how_bytes_become_units(music: Foldb) -> None:
    """150 items of 400 bytes under one key: 60,000 bytes are 15 blocks of 4 KB."""
    text = "x" * (400 - len("ArtistASong000text"))
    items = [{"Artist": "A", "Song": f"{n:03}", "text": text} for n in range(150)]
    music("item", "put", "Music", "-", stdin="\n".join(map(json.dumps, items)))

    [point] = lines(music("explain", "get", "Music", "A", "007"))
    assert ("point", 400, "1 x 4 KB", 1, 0.5) == tuple(
        point[name] for name in ("access", "bytes", "rounded", "rcu_strong", "rcu_eventual")
    )
    [ranged] = lines(music("explain", "query", "Music", "A"))
    assert ("range in one collection", 60_000, "15 x 4 KB", 15, 7.5) == tuple(
        ranged[name] for name in ("access", "bytes", "rounded", "rcu_strong", "rcu_eventual")
    )
    [full] = lines(music("explain", "scan", "Music", "--where", "Song < '010'"))
    assert ("full scan", 150, 10, 15) == tuple(
        full[name] for name in ("access", "items", "returned", "rcu_strong")
    )


@pytest.mark.spec("S50", "S57")
def test_explain_of_a_write_takes_the_larger_item_and_writes_nothing(music: Foldb) -> None:
    music("item", "put", "Music", item(text="x" * 3000))

    [table] = lines(music("explain", "put", "Music", item()))
    assert ("3 x 1 KB", 3, 6) == (table["rounded"], table["wcu"], table["wcu_transaction"])
    assert table["bytes_before"] > 3000 > table["bytes_after"]
    [table] = lines(music("explain", "delete", "Music", "A", "B"))
    assert (3, 0) == (table["wcu"], table["bytes_after"])
    assert [json.loads(item(text="x" * 3000))] == lines(music("item", "get", "Music", "A", "B"))


@pytest.mark.spec("S55", "S57")
@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (("put", item(Made=1994)), {"": (1, 5, 10), "Years": (2, 6, 6), "Labels": (1, 5, 5)}),
        (("update", "A", "B", "--set", "n = 1"), {"": (1, 5, 10), "Years": (1, 5, 5), "Labels": (1, 5, 5)}),
        (
            ("update", "A", "B", "--set", "Brand = 'Roadrunner'"),
            {"": (1, 5, 10), "Years": (1, 5, 5), "Labels": (2, 10, 10)},
        ),
        (
            ("update", "A", "B", "--remove", "Brand"),
            {"": (1, 5, 10), "Years": (1, 5, 5), "Labels": (1, 5, 5)},
        ),
        (("update", "A", "B", "--remove", "nothing"), {"": (1, 5, 10)}),
        (("delete", "A", "B"), {"": (1, 5, 10), "Years": (1, 5, 5), "Labels": (1, 5, 5)}),
        (("delete", "A", "nothing"), {"": (1, 1, 2)}),
        (("update", "A", "new", "--set", "Made = 1"), {"": (1, 1, 2), "Years": (1, 1, 1)}),
    ],
    ids=["put", "any-attribute", "a-key", "out-of-an-index", "no-change", "delete", "no-item", "new-item"],
)
def test_explain_of_a_write_predicts_the_units_charged(
    music: Foldb, write: tuple[str, ...], expected: dict[str, tuple[int, int, int]]
) -> None:
    """An index costs no, one or two writes, and is not doubled in a transaction. Then the write is done."""
    music("item", "put", "Music", item(Made=1992, Brand="Dali", text="x" * (4 * KIB)))

    explained = music("explain", write[0], "Music", *write[1:])
    done = music("item", write[0], "Music", *write[1:])

    assert expected == arms(lines(explained))
    assert f"1 item · {sum(units for _, units, _ in expected.values())} WCU" in done.stderr


def test_explain_of_a_write_judges_its_condition(music: Foldb) -> None:
    """A write that is refused costs the item in its way, and no index."""
    music("item", "put", "Music", item(Made=1992, text="x" * 2000))

    [row] = lines(music("explain", "put", "Music", item(), "--if", "attribute_not_exists(Song)"))

    assert ("ConditionalCheckFailedException", 0, 2, 4) == (
        row["refused"],
        row["writes"],
        row["wcu"],
        row["wcu_transaction"],
    )
    assert [None, None] == [
        row.get("refused")
        for row in lines(music("explain", "delete", "Music", "A", "B", "--if", "Made > 1990"))
    ]


def test_explain_of_an_invalid_write_prints_the_servers_error(music: Foldb) -> None:
    for write in (
        ("put", item(Made="MCMXCIV")),
        ("put", '{"Artist": "A"}'),
        ("update", "A", "B", "--set", "Song = 'C'"),
        ("update", "A", "B", "--set", "n = missing + 1"),
    ):
        explained = music("explain", write[0], "Music", *write[1:])
        written = music("item", write[0], "Music", *write[1:])
        assert (7, written.stderr.strip()) == (explained.exit_code, explained.stderr.splitlines()[-1])
