"""Reads of an earlier state, compared with a refold of the log to the record that was the latest then."""

import random
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from foldb.log.commands import Backfill, Delete, Position, Record, Transact
from foldb.materializer import local_partition
from foldb.materializer.disposer import stores_of
from foldb.materializer.fold.read_requests import QueryRequest, ScanRequest
from foldb.materializer.fold.state import PartitionState, Table
from foldb.materializer.lagging_partition import LaggingPartition
from foldb.materializer.long_reads import LongReads
from foldb.materializer.rebuild import Rebuild
from foldb.materializer.recent_images import RecentImages
from foldb.materializer.refold import fold_record
from foldb.model.errors import RequestError
from foldb.server.partitions.memory_limit import bytes_in
from tests.support.pages import read_page
from tests.unit.materializer.ledger import CONTEXT, define, index_request, put, table_request
from tests.unit.materializer.test_portions import some_item, some_request
from tests.unit.materializer.test_worker import Bench

READ_LAG, INDEX_LAG = 200, 1000
INDEXES: dict[str, Any] = {
    "LocalSecondaryIndexes": [index_request("local", "pk", "l", projection="KEYS_ONLY")],
    "GlobalSecondaryIndexes": [index_request("global", "l")],
}


class Lagging:
    """A lagging partition, the records that it folded and the states that its reads may show.

    Attributes:
        drawn: The lags of the reads so far.

    Args:
        late_ms: The age of each record when it is folded.
    """

    def __init__(
        self, seed: int = 0, limits_ms: tuple[int, int] = (READ_LAG, INDEX_LAG), late_ms: int = 0
    ) -> None:
        self.dice = random.Random(seed)
        self.bench = Bench()
        self.records: list[tuple[int, Record]] = []  # with the time at which each was folded
        self.readable_from: dict[int, int] = {}  # by the id of a table or index, the number of records
        self.drawn: list[int] = []
        self.late_ms = late_ms
        self.bench.worker.on_records.add(self._folded)
        self.partition = LaggingPartition(
            self.bench.worker,
            long_reads=LongReads(self.bench.loop),
            images=RecentImages(
                self.bench.worker,
                max(limits_ms),
                clock=self.bench.loop.clock,
                log_clock=lambda: self.bench.loop.clock() + late_ms,
            ),
            limits_ms=limits_ms,
            draw=self._draw,
        )

    def do(self, *commands: Any) -> None:
        for command in commands:
            self.bench.submit(command)
        self.bench.run()

    def advance(self, milliseconds: int) -> None:
        self.bench.loop.advance(milliseconds / 1000)

    def create(self, name: str = "Orders", **settings: Any) -> Table:
        self.do(define("CreateTable", 0, table_request(name, "pk:S sk:S", **(settings or INDEXES))))
        table = self.state.table_named(name)
        assert table is not None
        return table

    @property
    def state(self) -> PartitionState:
        return self.bench.worker.state

    def write(self, table: Table) -> None:
        new = put(table, some_item(self.dice))
        gone = Delete(table.definition.id, *some_key(self.dice), CONTEXT)
        self.do(self.dice.choice([new, new, gone, Transact([new], CONTEXT)]))

    def get(self, table: Table, pk: bytes, sk: bytes, *, consistent: bool = False) -> tuple[Any, Any]:
        answers: list[tuple[Any, Any]] = []
        self.partition.get(table.definition.id, pk, sk, consistent, partial(_note, answers))
        return answers[0]

    def page(self, request: QueryRequest | ScanRequest) -> list[tuple[Any, Any]]:
        """Begin a page, and return the list that receives the answer."""
        answers: list[tuple[Any, Any]] = []
        if isinstance(request, QueryRequest):
            self.partition.query(request, partial(_note, answers))
        else:
            self.partition.scan(request, partial(_note, answers))
        return answers

    def records_at(self, lag_ms: int, owner: int) -> int:
        """Return how many records the state of that long ago has; more if the table or index is younger."""
        until = self.bench.loop.clock() - lag_ms
        return max(sum(time <= until for time, _ in self.records), self.readable_from[owner])

    def state_at(self, records: int) -> PartitionState:
        state = PartitionState()
        for record in self.bench.log.read(0, 0):
            if record.offset == self.records[0][1].offset + records:
                break
            fold_record(state, record)
        return state

    def _draw(self, most: int) -> int:
        self.drawn.append(self.dice.randint(0, most))
        return self.drawn[-1]

    def _folded(self, record: Record) -> None:
        self.records.append((self.bench.loop.clock(), record))
        for table in self.state.tables.values():
            self.readable_from.setdefault(table.definition.id, len(self.records))
            for index in table.indexes.values():
                if not index.definition.backfilling:
                    self.readable_from.setdefault(index.definition.id, len(self.records))


def _note(answers: list[tuple[Any, Any]], *answer: Any) -> None:
    answers.append((answer[0], answer[1]))


def some_key(dice: random.Random) -> tuple[bytes, bytes]:
    return b"p%d" % dice.randrange(4), b"%02d" % dice.randrange(30)


@pytest.mark.spec("S23", "S70", served=False)
@pytest.mark.guarantee("G32")
@pytest.mark.parametrize("seed", range(12))
def test_a_read_shows_the_state_of_that_long_ago(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gets, pages of tables and of both kinds of index; long pages are read while the table is written to."""
    monkeypatch.setattr(local_partition, "PORTION_BYTES", 1000)
    lagging = Lagging(seed)
    dice, table = lagging.dice, lagging.create()
    for _ in range(30):
        for _ in range(dice.randrange(5)):
            lagging.write(table)
            lagging.advance(dice.choice([0, 0, 1, 7, 40]))
        if dice.random() < 0.1:
            lagging.advance(dice.choice([150, 900, 2000]))
        key = some_key(dice)
        item, at = lagging.get(table, *key)
        records = lagging.records_at(lagging.drawn[-1], table.definition.id)
        past = lagging.state_at(records)
        assert past.tables[table.definition.id].items.get(*key) == item
        assert at == Position(0, past.next_offset - 1)

        request = some_request(dice, table)
        answers = lagging.page(request)
        owner = table.indexes["global"] if request.index == "global" else table
        records = lagging.records_at(lagging.drawn[-1], owner.definition.id)
        past = lagging.state_at(records)
        while not answers:
            lagging.write(table)
            lagging.bench.loop.turn()
        expected = read_page(past.tables[table.definition.id], request)
        assert (expected, Position(0, past.next_offset - 1)) == answers[0], request


@pytest.mark.parametrize("seed", range(6))
def test_consistent_and_fresh_reads_are_never_stale(seed: int) -> None:
    lagging = Lagging(seed)
    table = lagging.create()
    for _ in range(40):
        lagging.write(table)
        key, request = some_key(lagging.dice), some_request(lagging.dice, table)
        request.fresh = True
        item, at = lagging.get(table, *key, consistent=True)
        answers = lagging.page(request)
        while not answers:
            lagging.bench.loop.turn()
        [(page, page_at)] = answers

        assert (table.items.get(*key), read_page(table, request)) == (item, page)
        assert at == page_at == lagging.bench.worker.position
    assert [] == lagging.drawn


def test_all_items_of_a_batch_are_of_one_earlier_record() -> None:
    lagging = Lagging(3)
    table = lagging.create()
    keys = [(table.definition.id, pk, b"s") for pk in (b"a", b"b")]
    for number in range(50):
        items = [{"pk": {"S": pk}, "sk": {"S": "s"}, "n": {"N": str(number)}} for pk in "ab"]
        lagging.do(Transact([put(table, item) for item in items], CONTEXT))
        lagging.advance(10)
        answers: list[tuple[Any, Any]] = []
        lagging.partition.get_all(keys, False, partial(_note, answers))

        past = lagging.state_at(lagging.records_at(lagging.drawn[-1], table.definition.id))
        assert [past.tables[table].items.get(pk, sk) for table, pk, sk in keys] == answers[0][0]


@pytest.mark.spec("S23", served=False)
def test_a_new_index_is_complete_when_it_can_be_read() -> None:
    """Its backfill is not replayed to readers; later writes lag."""
    lagging = Lagging()
    table = lagging.create(LocalSecondaryIndexes=INDEXES["LocalSecondaryIndexes"])
    for number in range(20):
        lagging.do(put(table, {"pk": {"S": f"{number}"}, "sk": {"S": "s"}, "l": {"S": "l1"}}))
    create = {"Create": index_request("global", "l")}
    request = {
        "TableName": "Orders",
        "AttributeDefinitions": [{"AttributeName": "l", "AttributeType": "S"}],
        "GlobalSecondaryIndexUpdates": [create],
    }
    lagging.do(define("UpdateTable", table.definition.id, request))
    index = table.indexes["global"].definition.id
    scan = ScanRequest(table.definition.id, "global")
    refused = lagging.page(scan)
    while table.indexes["global"].definition.backfilling:
        lagging.do(Backfill(table.definition.id, index, 3, CONTEXT))
    first = lagging.page(scan)
    lagging.do(put(table, {"pk": {"S": "later"}, "sk": {"S": "s"}, "l": {"S": "l1"}}))

    assert isinstance(refused[0][0], RequestError)
    assert 20 == first[0][0].count
    counts = set()
    for _ in range(100):
        counts.add(lagging.page(scan)[0][0].count)
        lagging.advance(20)
    assert {20, 21} == counts
    assert 21 == lagging.page(scan)[0][0].count


def test_a_table_of_the_same_name_has_no_items_of_the_earlier_one() -> None:
    lagging = Lagging()
    table = lagging.create()
    for _ in range(30):
        lagging.write(table)
    lagging.do(define("DeleteTable", table.definition.id, {"TableName": "Orders"}))
    created = lagging.create()

    assert isinstance(lagging.page(ScanRequest(table.definition.id, None))[0][0], RequestError)
    assert (None, []) == (
        lagging.get(table, b"p1", b"01")[0],
        lagging.page(ScanRequest(created.definition.id, None))[0][0].items,
    )


def test_a_rebuilt_table_lags_again() -> None:
    """A rebuild exchanges the stores without a record."""
    lagging = Lagging()
    table = lagging.create()
    lagging.do(put(table, {"pk": {"S": "p"}, "sk": {"S": "1"}}))
    rebuild = Rebuild()
    rebuild.fold(iter(lagging.bench.log.read(0, 0)), 1000)
    replaced = rebuild.install(lagging.state, table.definition.id)
    scan = ScanRequest(table.definition.id, None)
    at_once = lagging.page(scan)[0][0].count
    lagging.do(put(table, {"pk": {"S": "p"}, "sk": {"S": "2"}}))
    counts = [lagging.page(scan)[0][0].count for _ in range(20)]

    assert 1 == at_once
    assert 1 in counts
    assert [] == replaced.items.views


def test_images_are_forgotten_and_stores_released() -> None:
    lagging = Lagging()
    table = lagging.create()
    for _ in range(50):
        lagging.write(table)
    images = lagging.partition.images
    kept = images.count, images.size
    in_memory = bytes_in([images])
    lagging.advance(INDEX_LAG)
    lagging.write(table)
    recent = images.count, images.size
    stores = stores_of(lagging.state)
    lagging.do(define("DeleteTable", table.definition.id, {"TableName": "Orders"}))
    views = [store.views for store in stores]
    other = lagging.create("Others")
    images.close()

    assert kept[0] >= 50
    assert 0 < kept[1] < in_memory
    assert recent[0] <= 6
    assert [[], [], []] == views
    assert [] == other.items.views


def test_a_record_that_is_folded_late_is_as_old_as_its_log_time() -> None:
    """A node that starts folds old records: its readers must not see their states as those of a moment ago."""
    lagging, half = Lagging(late_ms=READ_LAG), Lagging(late_ms=READ_LAG // 2)
    shown = []
    for each in (lagging, half):
        table = each.create()
        each.do(put(table, {"pk": {"S": "p"}, "sk": {"S": "s"}}))
        seen = [each.get(table, b"p", b"s")[0] is not None for _ in range(100)]
        shown.append(sum(seen))
        assert seen == [lag <= each.late_ms for lag in each.drawn]

    assert 100 == shown[0]
    assert 20 < shown[1] < 80


def test_the_lag_of_indexes_is_not_that_of_tables() -> None:
    lagging = Lagging(limits_ms=(0, INDEX_LAG))
    table = lagging.create()
    lagging.do(put(table, {"pk": {"S": "p"}, "sk": {"S": "s"}, "l": {"S": "l1"}}))

    shown = [
        lagging.page(ScanRequest(table.definition.id, name))[0][0].count for name in (None, "local", "global")
    ]
    item, _ = lagging.get(table, b"p", b"s")

    assert ([1, 1, 0], 1) == (shown, len(lagging.drawn))
    assert item is not None
    assert (1, 1) == (lagging.partition.of_indexes.reads, lagging.partition.of_indexes.stale_reads)


def test_a_later_read_may_show_an_earlier_state() -> None:
    """DynamoDB promises no monotonic reads: two reads may go to two replicas."""
    lagging = Lagging()
    table = lagging.create()
    lagging.do(put(table, {"pk": {"S": "p"}, "sk": {"S": "s"}}))
    lagging.advance(READ_LAG // 2)

    seen = [lagging.get(table, b"p", b"s")[0] is not None for _ in range(20)]

    assert (True, False) in list(pairwise(seen))


def test_equal_seeds_give_equal_answers_at_equal_times() -> None:
    def run(seed: int) -> list[Any]:
        lagging = Lagging(seed)
        table = lagging.create()
        answers = []
        for number in range(60):
            lagging.do(put(table, {"pk": {"S": "p"}, "sk": {"S": "s"}, "n": {"N": str(number)}}))
            lagging.advance(9)
            answers.append(lagging.get(table, b"p", b"s"))
        return answers

    assert run(1) == run(1) != run(2)
