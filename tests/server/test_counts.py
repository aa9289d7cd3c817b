"""How old the counts of DescribeTable are."""

from foldb.materializer.fold.state import Table
from foldb.model.key_schema import KeyAttribute, KeySchema
from foldb.model.tables import TableDefinition
from foldb.server.counts import Count, Counter


def table() -> Table:
    key = KeySchema((KeyAttribute("pk", "S"),))
    return Table(TableDefinition(1, "Cars", "uuid", key, {"pk": "S"}, created_ms=0))


def test_counts_are_exact_unless_they_may_be_old() -> None:
    cars = table()
    counter = Counter(lambda: 0, refresh_ms=0)
    cars.items.put(b"a", b"", (b"{}", 10))

    assert (Count(1, 110), {}) == counter.of(cars)


def test_counts_that_may_be_old_are_taken_again_when_they_are() -> None:
    now = 0
    cars = table()
    counter = Counter(lambda: now, refresh_ms=1000)
    counter.of(cars)
    cars.items.put(b"a", b"", (b"{}", 10))

    now = 999
    assert (Count(0, 0), {}) == counter.of(cars)
    now = 1000
    assert (Count(1, 110), {}) == counter.of(cars)
