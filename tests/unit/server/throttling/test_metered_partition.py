"""A metered partition follows the tables of the catalog."""

from foldb.log.commands import Position
from foldb.server.throttling.metered_partition import MeteredPartition, item_in
from foldb.server.throttling.meters import Policy
from tests.unit.materializer.ledger import Ledger, define
from tests.unit.server.routing.fake_partitions import FakePartition


def test_the_meters_of_dropped_tables_are_freed() -> None:
    ledger = Ledger()
    metered = MeteredPartition(
        FakePartition(0, ledger.state.tables),
        ledger.state,
        lambda key: item_in(ledger.state, key),
        policy=Policy(),
        seconds=lambda: 0.0,
        position=lambda: Position(0, 0),
    )

    for _ in range(5):
        table = ledger.create("T").definition.id
        metered.get(table, b"pk", b"", True, lambda *_: None)
        ledger.fold(define("DeleteTable", table, {"TableName": "T"}))
    kept = ledger.create("Kept").definition.id
    metered.get(kept, b"pk", b"", True, lambda *_: None)

    assert [kept] == list(metered._tables)
