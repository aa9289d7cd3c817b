"""A SQLite file shows the current items, however often a change is delivered."""

import asyncio
import random
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from foldb.model.errors import ValidationError
from foldb.model.values import Item
from foldb.streams.formats.table_view import Delivery
from foldb.streams.sinks import sqlite
from foldb.streams.sinks.sink import DeliveryResult, Failure, Success
from tests.unit.streams.deliveries import ORDERS, delivery, order
from tests.unit.streams.sinks.context import batch, sink_context

SETTINGS = {"Kind": "sqlite", "Database": "shop"}


def write(
    folder: Path, *batches: Sequence[Delivery], before_each: Callable[[], object] = int, **about: Any
) -> list[DeliveryResult]:
    """Deliver changes to a new sink."""

    async def deliver() -> list[DeliveryResult]:
        sink = sqlite.make(SETTINGS, sink_context(folder, data=folder, timeout_s=0.01, **about))
        await sink.start()
        verdicts = []
        try:
            for each in batches:
                before_each()
                verdicts.append(await sink.deliver(batch(each)))
            return verdicts
        finally:
            await sink.close()

    return asyncio.run(deliver())


def query(folder: Path, text: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "sqlite" / "shop.db")) as connection:
        return connection.execute(text).fetchall()


def rows(folder: Path) -> dict[tuple[str, int], int]:
    """Return the state of each order by customer and sequence number."""
    found = query(folder, """SELECT customer, "order", json_extract(item, '$.state') FROM Orders""")
    return {(customer, number): state for customer, number, state in found}


def placed(state: int, offset: int, customer: str = "ann", **about: Any) -> Delivery:
    return delivery(None, order(customer, state={"N": str(state)}), offset, **about)


def removed(offset: int, customer: str = "ann") -> Delivery:
    return delivery(order(customer), None, offset)


def test_a_row_is_a_current_item(tmp_path: Path) -> None:
    write(tmp_path, [placed(1, 1), placed(1, 2, "bob"), placed(2, 3)], [removed(4, "bob")])

    assert {("ann", 1): 2} == rows(tmp_path)


def test_a_repeated_delivery_has_no_effect(tmp_path: Path) -> None:
    changes = [placed(1, 1), placed(2, 2), removed(3), placed(3, 4), placed(1, 5, "bob"), removed(6, "bob")]
    write(tmp_path, changes)
    for start in range(len(changes)):
        write(tmp_path, changes[start : start + 2])

        assert {("ann", 1): 3} == rows(tmp_path)


@pytest.mark.parametrize("seed", range(20))
def test_after_any_repetitions_the_rows_are_the_items(seed: int, tmp_path: Path) -> None:
    """Deliveries are interrupted and continue from an earlier change, also after the file is reopened."""
    dice, items, changes = random.Random(seed), dict[str, int](), list[Delivery]()
    for offset in range(60):
        customer = dice.choice("abcd")
        changes.append(removed(offset, customer) if dice.random() < 0.3 else placed(offset, offset, customer))
    place = 0
    while place < len(changes):
        cuts = sorted(dice.choices(range(place, len(changes) + 1), k=2))
        write(tmp_path, changes[place : cuts[0]], changes[cuts[0] : cuts[1]])
        place = cuts[1] if cuts[1] == len(changes) else dice.randint(max(0, cuts[1] - 8), cuts[1])
    for change in changes:
        new = change.change.new
        items.pop(change.change.pk.decode(), None)
        if new is not None:
            items[change.change.pk.decode()] = change.change.sequence_number // 10**8 % 10**18

    assert {(customer, 1): state for customer, state in items.items()} == rows(tmp_path)


def test_items_are_plain_json_with_all_their_digits(tmp_path: Path) -> None:
    digits = "12345678901234567890123456789012345678"
    item: Item = order(
        exact={"N": digits},
        small={"N": "-0.00000000000000000000000000000000001"},
        deep={"M": {"it's": {"L": [{"BOOL": True}, {"NULL": True}, {"B": "AAE="}]}}},
        sets={"NS": ["1", "2.5"]},
        words={"SS": ["a", "b"]},
    )
    write(tmp_path, [delivery(None, item)])
    [(text,)] = query(tmp_path, "SELECT item FROM Orders")

    assert f'"exact":{digits}' in text
    assert '"small":-0.00000000000000000000000000000000001' in text
    assert '"deep":{"it\'s":[true,null,"AAE="]}' in text
    assert '"sets":[1,2.5]' in text
    assert [("a",)] == query(tmp_path, "SELECT json_extract(item, '$.words[0]') FROM Orders")


def test_a_recreated_table_replaces_the_view_of_the_old_one(tmp_path: Path) -> None:
    anew = replace(ORDERS, id=ORDERS.id + 1)
    write(tmp_path, [placed(1, 1)], [placed(2, 2, "bob", table=anew)], [placed(3, 3)])

    assert {("bob", 1): 2} == rows(tmp_path)


def test_a_locked_file_fails_deliveries_until_it_is_unlocked(tmp_path: Path) -> None:
    write(tmp_path, [placed(1, 1)])
    with closing(sqlite3.connect(tmp_path / "sqlite" / "shop.db")) as other:
        other.execute("BEGIN EXCLUSIVE")
        [verdict] = write(tmp_path, [placed(2, 2)])
        assert isinstance(verdict, Failure)
        assert "locked" in verdict.error
        other.rollback()

    assert [Success()] == write(tmp_path, [placed(2, 2)])
    assert {("ann", 1): 2} == rows(tmp_path)


def test_a_snapshot_replaces_the_rows_of_an_old_file(tmp_path: Path) -> None:
    """Bob was removed while no trigger ran. The view of another table stays unchanged."""
    notes = replace(ORDERS, id=8, name="Notes")
    write(tmp_path, [placed(1, 1), placed(1, 2, "bob"), placed(1, 3, table=notes)])
    write(tmp_path, [placed(2, 9, is_read=True)], outdated=("Orders",))

    assert {("ann", 1): 2} == rows(tmp_path)
    assert [("ann",)] == query(tmp_path, "SELECT customer FROM Notes")


def test_an_empty_snapshot_empties_a_view(tmp_path: Path) -> None:
    write(tmp_path, [placed(1, 1)])
    write(tmp_path, outdated=("Orders", "Notes"))

    assert {} == rows(tmp_path)


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_removed_or_replaced_file_fails_deliveries(tmp_path: Path, is_replaced: bool) -> None:
    path = tmp_path / "sqlite" / "shop.db"

    def remove() -> None:
        path.unlink()
        if is_replaced:
            path.touch()

    steps: Iterator[Callable[[], object]] = iter([int, remove])
    _, verdict = write(tmp_path, [placed(1, 1)], [placed(2, 2, "bob")], before_each=lambda: next(steps)())

    assert isinstance(verdict, Failure)
    assert "shop.db was removed or replaced while it was open" in verdict.error
    assert [Success()] == write(tmp_path, [placed(2, 2, "bob")])
    assert {("bob", 1): 2} == rows(tmp_path)


@pytest.mark.parametrize("name", ["", ".", "..", "../shop", "a/b", ".hidden", "x" * 129])
def test_a_path_is_refused_as_a_database(name: str) -> None:
    with pytest.raises(ValidationError, match=r"Sink\.Database"):
        sqlite.KIND.check({"Kind": "sqlite", "Database": name})


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        (["Orders", "Users", "orders"], "Orders and orders are one name to SQLite"),
        (["sqlite_stat1"], "no view can show sqlite_stat1"),
        (["SQLite_Users"], "no view can show SQLite_Users"),
    ],
)
def test_tables_without_a_valid_view_name_are_refused(tables: list[str], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        sqlite.check_views(tables)


def test_tables_with_distinct_view_names_are_accepted() -> None:
    sqlite.check_views(["Orders", "Orders", "my_sqlite_", "sqlite"])
