"""A table refolded from the log, beside the live one."""

import random
from collections.abc import Callable

import pytest

from foldb.log.commands import Position
from foldb.materializer.fold.state import Index, Table
from foldb.materializer.rebuild import Rebuild, RebuildComparison
from tests.unit.materializer.ledger import Ledger, define, delete, index_request, put


def library() -> tuple[Ledger, Table]:
    """Return sixty commands about twenty books of five authors, some of them deleted, with an index."""
    ledger = Ledger()
    table = ledger.create(
        "Books", "author:S title:S", GlobalSecondaryIndexes=[index_request("shelves", "shelf")]
    )
    dice = random.Random(3)
    for n in range(60):
        key = {"author": {"S": f"a{dice.randrange(5)}"}, "title": {"S": f"t{dice.randrange(4)}"}}
        gone = dice.random() < 0.3
        ledger.fold(delete(table, key) if gone else put(table, {**key, "shelf": {"S": f"s{n % 3}"}}))
    return ledger, table


def agrees(work: Rebuild, table: Table, index: str | None = None, portion: int = 1000) -> bool:
    """Compare the rebuilt table with the live one to the end, and return whether they are equal."""
    comparison = RebuildComparison(index)
    while comparison.advance(table, work.state.tables[table.definition.id], portion):
        pass
    return comparison.same


@pytest.mark.parametrize("portion", [1, 7, 1000])
def test_a_rebuild_in_portions_of_any_size_ends_with_the_live_table(portion: int) -> None:
    ledger, table = library()
    work = Rebuild()
    records = iter(ledger.records)

    while work.fold(records, portion):
        assert work.commands <= len(ledger.records)

    assert agrees(work, table, portion=portion)
    rebuilt = work.state.tables[table.definition.id]
    work.install(ledger.state, table.definition.id)
    assert ledger.state.tables[table.definition.id] is rebuilt
    assert work.state.tables[table.definition.id] is table, "to be freed with the rest"


def test_a_rebuild_stops_at_the_position_of_the_live_state() -> None:
    ledger, _ = library()
    work = Rebuild()

    assert not work.fold(iter(ledger.records), 1000, until=10)

    assert 10 == work.state.next_offset


def lose_an_item(table: Table) -> None:
    _, pk, sk, _ = next(table.items.scan())
    table.items.remove(pk, sk)


def change_an_item(table: Table) -> None:
    *_, (_, pk, sk, (_, size)) = table.items.scan()
    table.items.put(pk, sk, (b"{}", size))


def lose_an_index_entry(table: Table) -> None:
    store = table.indexes["shelves"].store
    _, pk, sk, _ = next(store.scan())
    store.remove(pk, sk)


def forget_what_was_backfilled(table: Table) -> None:
    index: Index = table.indexes["shelves"]
    index.cursor = (1, b"", b"")


@pytest.mark.guarantee("G25")
@pytest.mark.parametrize(
    "harm",
    [lose_an_item, change_an_item, lose_an_index_entry, forget_what_was_backfilled],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("portion", [1, 3, 1000])
def test_every_difference_from_the_log_is_found(harm: Callable[[Table], None], portion: int) -> None:
    ledger, table = library()
    harm(table)
    work = Rebuild()
    work.fold(iter(ledger.records), 1000)

    assert not agrees(work, table, portion=portion)


def test_an_index_is_compared_and_installed_without_the_rest() -> None:
    """The items were damaged too, and stay so: only the index is rebuilt."""
    ledger, table = library()
    lose_an_index_entry(table)
    work = Rebuild()
    work.fold(iter(ledger.records), 1000)
    lose_an_item(table)
    items = table.items

    assert not agrees(work, table, "shelves")
    work.install_index(ledger.state, table.definition.id, "shelves")

    again = Rebuild()
    again.fold(iter(ledger.records), 1000)
    assert agrees(again, table, "shelves")
    assert ledger.state.tables[table.definition.id] is table
    assert table.items is items


def test_a_position_may_cut_an_entry_short() -> None:
    """An entry of three puts: at its index 1 two of them are applied."""
    ledger = Ledger()
    table = ledger.create("Books", "author:S")
    ledger.fold(*(put(table, {"author": {"S": name}}) for name in ("a", "b", "c")))
    offset = ledger.records[-1].offset

    counts = []
    for index in (0, 1, None):
        work = Rebuild()
        work.fold_to(ledger.records, Position(0, offset, index))
        rebuilt = work.state.table_named("Books")
        assert rebuilt is not None
        counts.append(rebuilt.items.count)

    assert [1, 2, 3] == counts


def test_a_dropped_table_is_remembered_by_the_last_place_where_it_was() -> None:
    ledger, table = library()
    last = ledger.records[-1].offset
    ledger.fold(define("DeleteTable", table.definition.id, {"TableName": "Books"}))
    work = Rebuild()

    work.fold_to(ledger.records, Position(0, last + 1))

    assert work.state.table_named("Books") is None
    assert {"Books": last} == work.dropped
