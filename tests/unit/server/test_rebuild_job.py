"""A rebuild goes in portions, with other work in between, and its answer is right beside writes."""

import random
from types import SimpleNamespace
from typing import Any

import pytest

from foldb.log.commands import Command
from foldb.materializer import rebuild as rebuild_module
from foldb.materializer.fold.state import PartitionState, Table
from foldb.materializer.fold.storage import MemoryStore
from foldb.materializer.portions import portion
from foldb.materializer.rebuild import Rebuild
from foldb.materializer.refold import refold
from foldb.model.errors import RequestError
from foldb.model.values import load
from foldb.server.partitions import rebuild_job as rebuilding_module
from foldb.server.partitions.rebuild_job import RebuildJob
from tests.unit.materializer.ledger import define, delete, index_request, put, table_request
from tests.unit.materializer.test_worker import Bench

PORTION = 10
BOOKS = 200


@pytest.fixture(autouse=True)
def compared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many items each portion of a comparison had."""
    monkeypatch.setattr(rebuilding_module, "_PORTION", PORTION)
    monkeypatch.setattr(rebuilding_module, "COMPARED_ITEMS", PORTION)
    counts: list[int] = []

    def counted(entries: Any, items: int) -> Any:
        found = portion(entries, items)
        counts.append(len(found[0]))
        return found

    monkeypatch.setattr(rebuild_module, "portion", counted)
    return counts


class Library:
    """A bench with a table of two hundred books and an index, and rebuilds of it."""

    def __init__(self) -> None:
        self.bench = Bench()
        request = table_request("Books", GlobalSecondaryIndexes=[index_request("shelves", "shelf")])
        self.do(define("CreateTable", 0, request))
        for number in range(BOOKS):
            self.write(number)
        self.part: Any = SimpleNamespace(
            partition_id=0, worker=self.bench.worker, state=self.bench.worker.state, is_closed=False
        )
        self.job: RebuildJob | None = None

    @property
    def table(self) -> Table:
        table = self.bench.worker.state.table_named("Books")
        assert table is not None
        return table

    def do(self, command: Command) -> None:
        """Fold a command during the rebuild."""
        answers = self.bench.submit(command)
        while not answers:
            self.turn()
            self.bench.log.commit()

    def write(self, number: int, shelf: int = 0) -> None:
        self.do(put(self.table, {"pk": {"S": f"b-{number}"}, "shelf": {"S": f"s{shelf}"}}))

    def remove(self, number: int) -> None:
        self.do(delete(self.table, {"pk": {"S": f"b-{number}"}}))

    def begin(self, index: str | None = None) -> RebuildJob:
        loop: Any = self.bench.loop
        self.job = RebuildJob([self.part], self.bench.log.read, loop, self.table.definition, 1, index)
        self.job.advance()
        return self.job

    def turn(self) -> None:
        """One turn of the loop; an entry that it appends waits for the disk."""
        self.bench.loop.turn()

    def answer(self) -> Any:
        """Return the final answer of the rebuild."""
        assert self.job is not None
        answers = list[Any]()
        self.job.answer_later(answers.append)
        [answer] = answers
        return answer if isinstance(answer, RequestError) else answer["Parts"][0]

    def as_of(self, offset: int) -> Table:
        """The table that the log up to there folds to."""
        state = PartitionState()
        refold(state, (record for record in self.bench.log.read(0) if record.offset <= offset))
        table = state.table_named("Books")
        assert table is not None
        return table


def items_of(table: Table) -> list[Any]:
    return [load(stored[0]) for _, _, _, stored in table.items.scan()]


@pytest.mark.guarantee("G50")
def test_a_rebuild_takes_a_turn_for_each_portion(compared: list[int]) -> None:
    library = Library()
    before = library.table

    job = library.begin()
    turns = 1
    while not job.finished:
        library.turn()
        turns += 1

    assert turns >= BOOKS / PORTION + 2 * BOOKS / PORTION, "folded, and items and entries compared"
    assert max(compared) <= PORTION
    assert sum(compared) == 2 * BOOKS
    assert (True, BOOKS) == (library.answer()["Same"], library.answer()["Items"])
    assert library.table is not before


def test_a_portion_of_large_items_has_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading sixteen megabytes of the log was a turn of 40 ms."""
    library = Library()
    for number in range(20):
        item = {"pk": {"S": f"large-{number}"}, "body": {"S": "x" * 80_000}}
        library.do(put(library.table, item))
    folded: list[int] = []
    fold = Rebuild.fold

    def counted(work: Rebuild, records: Any, most: int, until: int | None = None) -> bool:
        before = work.state.next_offset
        more = fold(work, records, most, until)
        if before > BOOKS + 3:
            folded.append(work.state.next_offset - before)
        return more

    monkeypatch.setattr(Rebuild, "fold", counted)
    job = library.begin()
    while not job.finished:
        library.turn()

    assert 1 == max(folded), "a portion of this test is the work of 80 KB"


@pytest.mark.guarantee("G50")
@pytest.mark.parametrize("seed", range(5))
def test_writes_beside_a_rebuild_are_in_the_table(seed: int) -> None:
    library, dice = Library(), random.Random(seed)

    job = library.begin()
    turns = 0
    while not job.finished:
        number = dice.randrange(BOOKS + 20)
        if dice.random() < 0.4:
            library.remove(number)
        else:
            library.write(number, dice.randrange(5))
        turns += 1

    answer, now = library.answer(), library.as_of(library.bench.worker.position.offset)
    assert (True, library.as_of(int(answer["Offset"])).items.count) == (answer["Same"], answer["Items"])
    assert list(now.items.scan()) == list(library.table.items.scan())
    entries = [table.indexes["shelves"].store.scan() for table in (now, library.table)]
    assert list(entries[0]) == list(entries[1])
    assert turns > 2 * BOOKS / PORTION / 3, "some writes came between portions"


def test_an_item_that_is_harmed_is_noticed_beside_writes() -> None:
    library = Library()
    _, pk, sk, (_, size) = list(library.table.items.scan())[BOOKS // 2]
    library.table.items.put(pk, sk, (b"{}", size))

    job = library.begin()
    number = 0
    while not job.finished:
        number += 1
        library.write(BOOKS + number)

    assert not library.answer()["Same"]
    assert {} not in items_of(library.table), "the rebuilt table was installed"


def test_an_index_that_is_added_beside_a_rebuild_is_compared(compared: list[int]) -> None:
    library = Library()
    job = library.begin()
    while not compared:
        library.turn()

    create = {"Create": index_request("others", "shelf")}
    attributes = [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "shelf")]
    update = {"GlobalSecondaryIndexUpdates": [create], "AttributeDefinitions": attributes}
    library.do(define("UpdateTable", library.table.definition.id, {"TableName": "Books", **update}))
    while not job.finished:
        library.turn()

    assert library.answer()["Same"]
    assert {"shelves", "others"} == library.table.indexes.keys()


def test_a_table_deleted_beside_its_rebuild_is_an_error(compared: list[int]) -> None:
    """A table that has its name by then is another, and stays as it is."""
    library = Library()
    job = library.begin()
    while not compared:
        library.turn()

    library.do(define("DeleteTable", library.table.definition.id, {"TableName": "Books"}))
    library.do(define("CreateTable", 0, table_request("Books")))
    library.write(1)
    another = library.table
    while not job.finished:
        library.turn()

    error = library.answer()
    assert isinstance(error, RequestError)
    assert "was deleted while it was rebuilt" in error.message
    assert library.table is another
    assert not library.bench.worker.on_records.callbacks


def test_a_partition_that_leaves_ends_its_rebuild(compared: list[int]) -> None:
    """Its stores are freed: they are nothing to compare with."""
    library = Library()
    job = library.begin()
    while not compared:
        library.turn()
    before = library.table

    library.part.is_closed = True
    library.turn()

    assert job.finished
    assert "ServiceUnavailableException" == library.answer().wire_name
    assert library.table is before


def test_an_index_that_is_right_stays_and_the_rest_is_freed() -> None:
    library = Library()
    items, entries = library.table.items, library.table.indexes["shelves"].store

    job = library.begin("shelves")
    while not job.finished:
        library.turn()
    library.bench.loop.settle()

    assert (True, BOOKS) == (library.answer()["Same"], library.answer()["Items"])
    assert library.table.items is items
    assert library.table.indexes["shelves"].store is entries
    assert BOOKS == entries.count


@pytest.mark.guarantee("G50")
def test_the_table_that_was_replaced_is_freed_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    before = library.table
    discards: list[int] = []
    discard = MemoryStore.discard

    def counted(store: MemoryStore, count: int) -> None:
        was = store.count
        discard(store, count)
        discards.append(was - store.count)

    monkeypatch.setattr(MemoryStore, "discard", counted)
    monkeypatch.setattr("foldb.materializer.disposer.PORTION_ITEMS", PORTION)
    job = library.begin()
    while not job.finished:
        library.turn()
    assert BOOKS == before.items.count, "installing it frees nothing"

    while before.items.count:
        library.turn()

    assert max(discards) <= PORTION
    assert len(discards) >= BOOKS / PORTION
    assert BOOKS == library.table.items.count
