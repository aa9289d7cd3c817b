"""Reads at one instant of a process: a decided transaction counts in all partitions, an undecided one in none."""

from collections.abc import Callable
from typing import Any

import pytest

from foldb.log.commands import Action, Check, Command, Cut, Position, Prepare, Relay
from foldb.materializer.fold.outcomes import Failed
from foldb.materializer.fold.reads import PageReader
from foldb.materializer.long_reads import LongReads
from foldb.materializer.partition import OnOutcome, Page, QueryRequest, ScanRequest
from foldb.model.errors import RequestError, ResourceNotFoundError, ServiceUnavailableError
from foldb.model.values import Item, load
from foldb.server.routing import InstantReads, Router, instant_reads
from tests.unit.materializer.ledger import CONTEXT, delete, put
from tests.unit.materializer.several_partitions.database import Database, transact

FIRST, SECOND, THIRD = 1, 2, 3
NEW = {"n": {"N": "2"}}
OLD = {"n": {"N": "1"}}


class Refusing:
    """A partition that is out of reach for some commands."""

    def __init__(self, partition: Any, refuses: Callable[[Command], bool]) -> None:
        self._partition = partition
        self._refuses = refuses

    def submit(self, command: Command, size: int, done: OnOutcome) -> None:
        if self._refuses(command):
            done(Failed(ServiceUnavailableError()), Position(0, -1))
        else:
            self._partition.submit(command, size, done)


class Instants:
    """A database with an item in each partition, whose messages a test holds up."""

    def __init__(self, **table: Any) -> None:
        self.database = Database(3)
        self.near = list(self.database.partitions)
        self.table = self.database.create(**table)
        for partition in (FIRST, SECOND, THIRD):
            self.database.do(partition, put(self.table, self.item(partition, OLD)))
        reads = InstantReads(self.database.workers, LongReads(self.database.loop))
        self.router = Router(self.near, self.database.catalog, self.database.loop, instant=reads)

    def item(self, partition: int, attributes: Item) -> Item:
        return {**self.database.key_in(partition, self.table), **attributes}

    def hold_up(self, partition: int, refuses: Callable[[Command], bool]) -> None:
        self.database.partitions[partition] = Refusing(self.near[partition], refuses)

    def submit(self, coordinator: int, *actions: Action, token: str | None = None) -> list[Any]:
        answers: list[Any] = []
        self.near[coordinator].submit(
            transact(*actions, token=token), 100, lambda *answer: answers.append(answer)
        )
        for _ in range(100):
            self.database.loop.turn()
        return answers

    def release(self) -> None:
        self.database.partitions[:] = self.near
        self.database.loop.advance(5)

    def get(self, *partitions: int) -> tuple[list[str | None], Any]:
        """Return the numbers of the items of these partitions, and the position."""
        keys = [
            (self.table.definition.id, self.item(each, {})["pk"]["S"].encode(), b"") for each in partitions
        ]
        answers: list[Any] = []
        self.router.get_isolated(keys, None, lambda *answer: answers.append(answer))
        [(found, position)] = answers
        return [None if each is None else load(each[0])["n"]["N"] for each in found], position

    def scan(self, **choices: Any) -> list[str]:
        pages = self.begin(ScanRequest(self.table.definition.id, choices.pop("index", None), **choices))
        self.database.loop.settle()
        return numbers(pages[0])

    def query(self, partition: int, *, consistent: bool = True, index: str | None = None) -> list[str]:
        pk = self.item(partition, {})["pk"]["S"].encode()
        request = QueryRequest(self.table.definition.id, index, pk, b"", None, consistent=consistent)
        pages: list[Any] = []
        self.router.query(request, lambda page, _: pages.append(page))
        return numbers(pages[0])

    def begin(self, request: ScanRequest) -> list[Page | RequestError]:
        pages: list[Page | RequestError] = []
        self.router.scan(request, lambda page, _: pages.append(page))
        return pages


def numbers(page: Any) -> list[str]:
    return [load(item)["n"]["N"] for item in page.items]


def a_decision(command: Command) -> bool:
    return isinstance(command, Relay) and not isinstance(command.message, Prepare)


def anything(command: Command) -> bool:
    return True


def decided(*others: Action, **table: Any) -> Instants:
    """Return a database in which FIRST has decided and applied a transaction, and SECOND has only prepared it."""
    instants = Instants(**table)
    instants.hold_up(SECOND, a_decision)
    action = others or (put(instants.table, instants.item(SECOND, NEW)),)
    instants.submit(FIRST, put(instants.table, instants.item(FIRST, NEW)), *action)
    assert instants.database.state(SECOND).transactions.held
    return instants


@pytest.mark.guarantee("G54")
def test_a_decided_transaction_counts_where_it_is_not_applied() -> None:
    instants = decided()

    assert ["2", "2", "1"] == instants.get(FIRST, SECOND, THIRD)[0]
    assert ["2"] == instants.query(SECOND)
    assert ["1", "2", "2"] == sorted(instants.scan(consistent=True))


def test_an_eventually_consistent_page_has_what_is_applied() -> None:
    instants = decided()

    assert ["1"] == instants.query(SECOND, consistent=False)
    assert ["1", "1", "2"] == sorted(instants.scan())


@pytest.mark.guarantee("G54")
def test_an_undecided_transaction_counts_nowhere() -> None:
    instants = Instants()
    instants.hold_up(FIRST, anything)
    instants.submit(
        FIRST, *(put(instants.table, instants.item(partition, NEW)) for partition in (FIRST, SECOND))
    )
    assert instants.database.state(SECOND).transactions.held

    assert ["1", "1"] == instants.get(FIRST, SECOND)[0]
    assert ["1", "1", "1"] == instants.scan(consistent=True)


def test_an_aborted_transaction_counts_nowhere() -> None:
    instants = Instants()
    instants.hold_up(SECOND, a_decision)
    actions = [put(instants.table, instants.item(partition, NEW)) for partition in (FIRST, SECOND)]
    refused = put(instants.table, instants.item(THIRD, NEW), when="attribute_not_exists(pk)")
    instants.submit(FIRST, *actions, refused)
    assert instants.database.state(SECOND).transactions.held

    assert ["1", "1", "1"] == instants.get(FIRST, SECOND, THIRD)[0]


def test_a_transaction_of_one_other_partition_counts_once_it_is_prepared() -> None:
    """Its coordinator commits before the participant has judged."""
    instants = Instants()
    action = put(instants.table, instants.item(SECOND, NEW))
    instants.hold_up(SECOND, anything)
    instants.submit(FIRST, action, token="t")
    assert ["1"] == instants.get(SECOND)[0]

    instants.hold_up(SECOND, a_decision)
    instants.database.loop.advance(1)
    assert instants.database.state(SECOND).transactions.held

    assert ["2"] == instants.get(SECOND)[0]


def test_a_refused_transaction_of_one_other_partition_counts_never() -> None:
    instants = Instants()
    instants.hold_up(SECOND, a_decision)
    action = put(instants.table, instants.item(SECOND, NEW), when="attribute_not_exists(pk)")
    instants.submit(FIRST, action, token="t")

    assert ["1"] == instants.get(SECOND)[0]


def test_a_decided_delete_leaves_no_item_and_a_check_the_present_one() -> None:
    table = Instants().table  # its id and key are those of every other
    key = Instants().item(SECOND, {})

    assert [None] == decided(delete(table, key)).get(SECOND)[0]
    assert ["1", "2"] == sorted(decided(delete(table, key)).scan(consistent=True))
    check = Check(table.definition.id, key["pk"]["S"].encode(), b"", CONTEXT)
    assert ["1"] == decided(check).get(SECOND)[0]
    assert ["1", "1", "2"] == sorted(decided(check).scan(consistent=True))


def test_a_read_at_the_position_waits_for_the_decision() -> None:
    """The position of the read includes the coordinator's: a client that sends it reads the same again."""
    instants = decided()
    _, position = instants.get(SECOND)
    assert isinstance(position, Cut)
    assert [FIRST, SECOND] == [each.partition for each in position.positions]

    reached: list[Any] = []
    instants.router.reach(position, reached.append)
    assert [] == reached
    instants.release()

    assert [None] == reached
    assert ["2"] == instants.query(SECOND, consistent=False)


@pytest.fixture
def short_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instant_reads, "PORTION_BYTES", 1)


@pytest.mark.guarantee("G54")
@pytest.mark.usefixtures("short_portions")
@pytest.mark.parametrize("consistent", [False, True])
def test_a_long_page_shows_the_instant_of_its_first_portion(consistent: bool) -> None:
    instants = Instants()
    pages = instants.begin(ScanRequest(instants.table.definition.id, None, consistent=consistent))
    assert [] == pages
    instants.near[THIRD].submit(put(instants.table, instants.item(THIRD, NEW)), 10, lambda *_: None)
    instants.near[SECOND].submit(delete(instants.table, instants.item(SECOND, {})), 10, lambda *_: None)
    for _ in range(100):
        instants.database.loop.turn()

    assert ["1", "1", "1"] == numbers(pages[0])
    assert ["1", "2"] == sorted(instants.scan(consistent=consistent))


@pytest.mark.usefixtures("short_portions")
def test_no_view_stays_open_after_a_page() -> None:
    """An open view costs each write to its table."""
    instants = decided()
    for limit in (None, 1, 2):
        instants.scan(consistent=True, limit=limit)

    stores = [instants.database.state(each).tables[instants.table.definition.id].items for each in range(4)]
    assert [[]] * 4 == [store.views for store in stores]


def test_a_page_that_ends_in_its_first_portion_opens_no_view(monkeypatch: pytest.MonkeyPatch) -> None:
    instants = Instants()
    monkeypatch.setattr(PageReader, "open_views", lambda _: pytest.fail("a view was opened"))

    assert ["1", "1", "1"] == instants.scan(consistent=True)


@pytest.mark.usefixtures("short_portions")
def test_a_table_that_is_deleted_during_a_page_is_its_error() -> None:
    instants = Instants()
    pages = instants.begin(ScanRequest(instants.table.definition.id, None, consistent=True))
    table_id = instants.table.definition.id
    for number in range(4):
        del instants.database.state(number).tables[table_id]
    instants.database.loop.settle()

    [error] = pages
    assert isinstance(error, ResourceNotFoundError)
    assert instants.get(FIRST)[0] == [None]
