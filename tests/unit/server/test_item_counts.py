"""How old the counts of DescribeTable are."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

from foldb.log.commands import Cut, Position
from foldb.materializer.fold.state import Table
from foldb.materializer.partition import Partition
from foldb.model.errors import InternalServerError
from foldb.model.key_schema import KeyAttribute, KeySchema
from foldb.model.tables import TableDefinition
from foldb.server.api.item_counts import Counts, ItemCount, ItemCounter


def table() -> Table:
    key = KeySchema((KeyAttribute("pk", "S"),))
    return Table(TableDefinition(1, "Cars", "uuid", key, {"pk": "S"}, created_ms=0))


def counts(counter: ItemCounter, table: Table) -> Counts:
    reported: list[Counts] = []
    counter.of(table, reported.append)
    (one,) = reported
    return one


def test_counts_are_exact_unless_they_may_be_old() -> None:
    cars = table()
    counter = ItemCounter(lambda: 0, refresh_ms=0)
    cars.items.put(b"a", b"", (b"{}", 10))

    assert Counts(ItemCount(1, 110), {}) == counts(counter, cars)


def test_counts_are_sums_over_the_partitions_that_answer() -> None:
    figures = {
        "0": {"counts": {"1": [0, 0]}, "position": 5, "log_time": 100},
        "1": {"counts": {"1": [3, 30], "7": [9, 9]}, "position": 6, "log_time": 300},
        "2": InternalServerError(),
        "3": {"counts": {"1": [1, 10]}, "position": 7, "log_time": 200},
    }
    asked: list[int | None] = []

    def status(table: int | None, done: Callable[[object], None]) -> None:
        asked.append(table)
        done(figures)

    partitions = cast(Partition, SimpleNamespace(status=status))

    cut = Cut((Position(0, 4), Position(1, 6), Position(3, 7)), time_ms=300)
    assert Counts(ItemCount(4, 440), {}, cut) == counts(
        ItemCounter(lambda: 0, 0, partitions, lambda: Position(0, 4, time_ms=100)), table()
    )
    assert [1] == asked, "the status of all tables would be as long as the number of tables"


def test_counts_that_may_be_old_are_taken_again_when_they_are() -> None:
    now = 0
    cars = table()
    counter = ItemCounter(lambda: now, refresh_ms=1000)
    counts(counter, cars)
    cars.items.put(b"a", b"", (b"{}", 10))

    now = 999
    assert Counts(ItemCount(0, 0), {}) == counts(counter, cars)
    now = 1000
    assert Counts(ItemCount(1, 110), {}) == counts(counter, cars)
