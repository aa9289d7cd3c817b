"""Stores of deleted tables and indexes are freed a portion per turn, outside of the fold."""

import pytest

from foldb.log.memory_log import MemoryLog
from foldb.materializer import disposer as disposal_module
from foldb.materializer.disposer import Disposer
from foldb.materializer.fold.dump import digest
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.fold.storage import MemoryStore, Store
from foldb.materializer.fold.view import StoreView
from foldb.materializer.refold import refold
from foldb.materializer.worker import Worker
from tests.unit.materializer.fake_loop import FakeLoop
from tests.unit.materializer.ledger import define, index_request, put, table_request

PORTION = 10


@pytest.fixture(autouse=True)
def _small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disposal_module, "PORTION_ITEMS", PORTION)


def store_of(items: int, size: int = 10) -> MemoryStore:
    store = MemoryStore(7, has_sort_key=True)
    for number in range(items):
        store.put(b"%d" % (number % 13), b"%d" % number, (b"x", size))
    return store


def counts_by_turn(loop: FakeLoop, store: MemoryStore) -> list[int]:
    """Return the number of items freed in each turn, until all are freed."""
    freed = []
    while store.count:
        before = store.count
        loop.turn()
        freed.append(before - store.count)
    return freed


@pytest.mark.guarantee("G50")
def test_a_turn_frees_at_most_one_portion() -> None:
    loop, store = FakeLoop(), store_of(95)

    Disposer(loop).take([store])

    assert [*[PORTION] * 9, 5] == counts_by_turn(loop, store)


def test_a_portion_of_large_items_has_fewer() -> None:
    loop, store = FakeLoop(), store_of(20, size=32 * 1024 * 1024)

    Disposer(loop).take([store])

    assert max(counts_by_turn(loop, store)) <= 3


def test_stores_that_are_not_free_yet_are_counted() -> None:
    """The memory limit counts them."""
    loop, stores = FakeLoop(), [store_of(15), store_of(5)]
    disposer = Disposer(loop)
    disposer.take(stores)

    left = []
    while disposer.waiting:
        left.append(sum(store.size for store in disposer.waiting))
        loop.turn()

    assert [200, 100, 50] == left


def test_a_store_that_a_view_reads_is_freed_when_it_is_closed() -> None:
    loop, viewed, other = FakeLoop(), store_of(15), store_of(15)
    view = StoreView(viewed)
    disposer = Disposer(loop)
    disposer.take([viewed, other])

    loop.advance(10)
    assert (15, 0) == (viewed.count, other.count)
    assert 15 == len(list(view.scan()))

    view.close()
    loop.advance(1)
    assert 0 == viewed.count
    assert not disposer.waiting


class Folding:
    """A worker that disposes of stores, with a table of an index and twenty items."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.log = MemoryLog(self.loop.clock)
        self.dropped: list[Store] = []
        self.worker = Worker(
            self.log,
            PartitionState(),
            origin=bytes(16),
            scheduler=self.loop,
            dispose=self.dropped.extend,
            on_fatal=self.fail,
        )
        self.worker.open()
        request = table_request("Books", GlobalSecondaryIndexes=[index_request("shelves", "shelf")])
        self.do("CreateTable", 0, request)
        [self.table] = self.worker.state.tables.values()
        for number in range(20):
            item = {"pk": {"S": str(number)}, "shelf": {"S": "s"}}
            self.worker.submit(put(self.table, item), 100, lambda *_: None)
        self.loop.settle()

    def do(self, operation: str, table: int, request: dict[str, object]) -> None:
        self.worker.submit(define(operation, table, request), 100, lambda *_: None)
        self.loop.settle()

    def fail(self, error: BaseException) -> None:
        raise error


@pytest.mark.guarantee("G50")
def test_a_deleted_table_leaves_its_stores_whole() -> None:
    """The fold only removes them from the state: freeing them is no part of its turn."""
    folding = Folding()
    items, entries = folding.table.items, folding.table.indexes["shelves"].store

    folding.do("DeleteTable", folding.table.definition.id, {"TableName": "Books"})

    assert {} == folding.worker.state.tables
    assert [items, entries] == folding.dropped
    assert [20, 20] == [store.count for store in folding.dropped]


def test_a_deleted_index_leaves_its_store_whole() -> None:
    folding = Folding()
    entries = folding.table.indexes["shelves"].store

    update = {"GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": "shelves"}}]}
    folding.do("UpdateTable", folding.table.definition.id, {"TableName": "Books", **update})

    assert [entries] == folding.dropped
    assert 20 == entries.count


def test_dropped_stores_are_no_part_of_the_state() -> None:
    folding = Folding()
    folding.do("DeleteTable", folding.table.definition.id, {"TableName": "Books"})
    state = PartitionState()

    refold(state, folding.log.read(0))

    assert digest(state) == digest(folding.worker.state)
