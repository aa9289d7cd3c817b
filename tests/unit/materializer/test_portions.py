"""A page that is read in portions is the page that one portion would have read, at the position of the first."""

import random
from typing import Any

import pytest

from foldb import expressions
from foldb.log.commands import Delete, Put
from foldb.materializer.fold.read_requests import Page, QueryRequest, ScanRequest
from foldb.materializer.fold.reads import PORTION_BYTES, PageReader
from foldb.materializer.fold.state import Table
from foldb.materializer.local_partition import LocalPartition
from foldb.materializer.long_reads import LongReads
from foldb.model.errors import RequestError, ResourceNotFoundError, ValidationError
from foldb.model.values import Item
from tests.support.pages import read_page
from tests.unit.materializer.ledger import CONTEXT, Ledger, define, index_request, put
from tests.unit.materializer.test_worker import Bench

VALUES = {":n": {"N": "5"}}
PLANS = [
    None,
    expressions.compile(filter="n < :n", values=VALUES),
    expressions.compile(projection="sk"),
    expressions.compile(filter="attribute_exists(d)", projection="pk, d"),
]


def indexed(ledger: Ledger) -> Table:
    return ledger.create(
        "Indexed",
        "pk:S sk:S",
        LocalSecondaryIndexes=[index_request("local", "pk", "l", projection="KEYS_ONLY")],
        GlobalSecondaryIndexes=[index_request("global", "l")],
    )


def some_item(dice: random.Random) -> Item:
    return {
        "pk": {"S": f"p{dice.randrange(4)}"},
        "sk": {"S": f"{dice.randrange(30):02}"},
        "l": {"S": f"l{dice.randrange(3)}"},
        "n": {"N": str(dice.randrange(10))},
        **({"d": {"S": "x" * dice.randrange(400)}} if dice.random() < 0.7 else {}),
    }


def write(dice: random.Random, ledger: Ledger, table: Table) -> None:
    wanted = put(table, some_item(dice))
    if dice.random() < 0.5:
        ledger.fold(wanted)
    else:
        ledger.fold(Delete(table.definition.id, wanted.pk, wanted.sk, CONTEXT))


def some_request(dice: random.Random, table: Table) -> QueryRequest | ScanRequest:
    index = dice.choice([None, "local", "global"])
    common: dict[str, Any] = {
        "limit": dice.choice([None, None, 1, 7, 40]),
        "plan": dice.choice(PLANS),
        "values": VALUES,
        "count_only": dice.random() < 0.2,
        "all_attributes": dice.random() < 0.4,
    }
    if dice.random() < 0.5:
        room = dice.choice([None, None, 300])
        return ScanRequest(table.definition.id, index, dice.randrange(2), 2, room=room, **common)
    pk = b"l1" if index == "global" else b"p1"
    low, high = dice.choice([(b"", None), (b"", b"2"), (b"05", None)])
    return QueryRequest(table.definition.id, index, pk, low, high, forward=dice.random() < 0.5, **common)


@pytest.mark.parametrize("seed", range(150))
def test_writes_between_portions_do_not_show(seed: int) -> None:
    dice, ledger = random.Random(seed), Ledger()
    table = indexed(ledger)
    for _ in range(150):
        write(dice, ledger, table)
    for _ in range(10):
        request, page_bytes = some_request(dice, table), dice.choice([1000, 1 << 20])
        expected = read_page(table, request, page_bytes)
        reader = PageReader(table, request, page_bytes)
        while (page := reader.read(dice.choice([1, 2000]))) is None:
            for _ in range(dice.randrange(4)):
                write(dice, ledger, table)

        assert expected == page, request
        stores = [table.items, *(index.store for index in table.indexes.values())]
        assert not any(store.views for store in stores), "a view was left open"


@pytest.mark.parametrize("seed", range(60))
def test_laid_effects_show_as_if_they_were_applied(seed: int) -> None:
    dice, ledger = random.Random(seed), Ledger()
    table = indexed(ledger)
    for _ in range(60):
        write(dice, ledger, table)
    request, page_bytes = some_request(dice, table), dice.choice([1000, 1 << 20])
    while request.index == "global":  # a consistent read has no global index
        request = some_request(dice, table)
    effects: dict[tuple[bytes, bytes], Put | Delete] = {}
    for _ in range(8):
        new = put(table, some_item(dice))
        key = new.pk, new.sk
        effects[key] = new if dice.random() < 0.5 else Delete(table.definition.id, *key, CONTEXT)
    reader = PageReader(table, request, page_bytes)
    for effect in effects.values():
        reader.lay(effect, ledger.state.limits)
    for effect in effects.values():
        ledger.fold(effect)
    expected = read_page(table, request, page_bytes)

    while (page := reader.read(dice.choice([1, 2000]))) is None:
        write(dice, ledger, table)

    assert expected == page, request


class Reading:
    """A table of many small items, read through a partition in this process."""

    def __init__(self, items: int) -> None:
        self.bench = Bench()
        self.table = self.bench.table()
        for number in range(items):
            self.bench.submit(put(self.table, {"pk": {"S": f"{number:06}"}}))
        self.bench.run()
        self.partition = LocalPartition(self.bench.worker, long_reads=LongReads(self.bench.loop))
        self.answers: list[Page | RequestError] = []

    def scan(self, **choices: Any) -> None:
        request = ScanRequest(self.table.definition.id, None, **choices)
        self.partition.scan(request, lambda page, _: self.answers.append(page))

    def turns(self) -> int:
        """Take turns until a page is answered; return how many."""
        taken, answered = 0, len(self.answers)
        while len(self.answers) == answered:
            self.bench.loop.turn()
            taken += 1
        return taken


def test_a_long_page_takes_many_turns_of_the_loop() -> None:
    reading = Reading(20_000)
    reading.scan()

    assert reading.turns() >= 20_000 * 100 // PORTION_BYTES
    [page] = reading.answers
    assert isinstance(page, Page)
    assert 20_000 == page.scanned


def test_a_short_page_is_answered_at_once() -> None:
    reading = Reading(20_000)
    reading.scan(limit=100)

    assert 1 == len(reading.answers)


def test_long_pages_take_turns_of_one_portion_each() -> None:
    """The second scanner waits for the portions of the first, never for its page."""
    alone, reading = Reading(20_000), Reading(20_000)
    alone.scan()
    for _ in range(4):
        reading.scan()

    assert 3 * alone.turns() <= reading.turns()
    while len(reading.answers) < 4:
        assert reading.turns() <= 2


def test_a_page_is_as_of_the_position_of_its_first_portion() -> None:
    reading = Reading(5_000)
    before = reading.bench.worker.position
    positions: list[object] = []
    reading.partition.scan(
        ScanRequest(reading.table.definition.id, None), lambda _, position: positions.append(position)
    )
    reading.bench.submit(put(reading.table, {"pk": {"S": "later"}}))
    while not positions:
        reading.bench.log.commit()
        reading.bench.loop.turn()

    assert [before] == positions
    assert before != reading.bench.worker.position


def test_a_table_that_is_deleted_under_a_page_is_not_found() -> None:
    reading = Reading(5_000)
    reading.scan()
    command = define("DeleteTable", reading.table.definition.id, {"TableName": "Orders"})
    reading.bench.submit(command)
    while not reading.answers:
        reading.bench.log.commit()
        reading.bench.loop.turn()

    assert isinstance(reading.answers[0], ResourceNotFoundError)


def test_a_page_starts_again_when_a_rebuild_replaces_its_table() -> None:
    reading = Reading(5_000)
    reading.scan()
    state = reading.bench.worker.state
    other = Reading(5_000)
    state.tables[reading.table.definition.id] = other.table
    reading.turns()

    [page] = reading.answers
    assert isinstance(page, Page)
    assert 5_000 == page.scanned
    assert not reading.table.items.views


def test_a_start_of_another_segment_is_refused_at_once() -> None:
    reading = Reading(100)
    reading.scan(segment=0, segments=1000, start=(b"000001", b""))
    reading.scan(segment=999, segments=1000, start=(b"000001", b""))

    assert any(isinstance(answer, ValidationError) for answer in reading.answers)
