"""The router calls the right partition, and merges several answers into the answer that one partition would give."""

import dataclasses
from typing import Any

import pytest

from foldb.log.commands import Cut, Position, Transact
from foldb.materializer.fold.outcomes import Completed, Failed, Outcome, Skipped, Subscribed, TableDefined
from foldb.materializer.partition import (
    FIRST_READ,
    Conflict,
    EncodedKey,
    Partition,
    QueryRequest,
    ResultPosition,
)
from foldb.model.errors import InternalServerError, RequestError, ResourceNotFoundError
from foldb.model.slots import data_partitions, partition_of_key
from foldb.model.subscriptions import Subscription
from foldb.server.routing import Router, joined
from foldb.server.routing.isolated_read import ATTEMPTS
from tests.unit.materializer.fake_loop import FakeLoop
from tests.unit.materializer.ledger import (
    CONTEXT,
    Ledger,
    define,
    index_request,
    put,
    subscribe,
    table_request,
)
from tests.unit.server.routing.fake_partitions import FakePartition, spread

PARTITIONS = 8
NAMES = [f"item {n}" for n in range(60)]


class Database:
    """A table in one partition, and the same table behind a router."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.table = self.ledger.create("Things", GlobalSecondaryIndexes=[index_request("by-kind", "kind")])
        self.id = self.table.definition.id
        for n, name in enumerate(NAMES):
            self.ledger.fold(put(self.table, {"pk": {"S": name}, "kind": {"S": f"kind {n % 7}"}}))
        self.loop = FakeLoop()
        self.fakes = spread(self.ledger.state, PARTITIONS)
        self.reached: list[Partition] = [*self.fakes]
        self.router = Router(self.reached, self.ledger.state, self.loop)

    def key(self, name: str) -> EncodedKey:
        return self.id, name.encode(), b""

    def home(self, name: str) -> FakePartition:
        return self.fakes[partition_of_key(self.id, name.encode(), PARTITIONS + 1)]

    def names_of(self, *numbers: int) -> list[str]:
        """Return a name in each of these partitions."""
        return [next(name for name in NAMES if self.home(name).number == number) for number in numbers]


@pytest.fixture
def database() -> Database:
    return Database()


class Answer:
    """Receives the answer of the router."""

    def __init__(self) -> None:
        self.results: list[tuple[Any, ...]] = []

    def __call__(self, *answered: Any) -> None:
        self.results.append(answered)

    @property
    def value(self) -> Any:
        return self._one[0]

    @property
    def place(self) -> Any:
        return self._one[1]

    @property
    def _one(self) -> tuple[Any, ...]:
        assert len(self.results) == 1
        return self.results[0]


def test_an_item_is_asked_of_the_partition_that_has_it(database: Database) -> None:
    for name in NAMES:
        answer = Answer()
        database.router.get(*database.key(name), True, answer)
        assert answer.value == database.table.items.get(name.encode(), b"")
        assert answer.place == database.home(name).position


def test_a_write_goes_to_the_partition_of_its_key(database: Database) -> None:
    command = put(database.table, {"pk": {"S": "item 3"}})
    database.router.submit(command, 100, Answer())

    assert [command] == database.home("item 3").submitted


def test_a_replaced_partition_gets_no_more_requests(database: Database) -> None:
    old = database.home("item 3")
    new = FakePartition(old.number, old.tables)
    database.reached[old.number] = new
    database.router.get(*database.key("item 3"), True, Answer())

    assert ([], ["get"]) == (old.asked, new.asked)


def test_items_of_many_partitions_come_in_request_order(database: Database) -> None:
    answer = Answer()
    names = [*reversed(NAMES), "nobody"]
    database.router.get_all([database.key(name) for name in names], True, answer)

    assert [database.table.items.get(name.encode(), b"") for name in names] == answer.value
    assert Cut(tuple(fake.position for fake in database.fakes[1:])) == answer.place


def test_items_of_one_partition_are_true_of_one_position(database: Database) -> None:
    answer = Answer()
    name = NAMES[0]
    database.router.get_all([database.key(name)], True, answer)

    assert database.home(name).position == answer.place


def test_one_partition_that_cannot_answer_is_the_answer_of_all(database: Database) -> None:
    answer = Answer()
    database.fakes[3].error = InternalServerError()
    database.router.get_all([database.key(name) for name in NAMES], True, answer)

    assert isinstance(answer.value, InternalServerError)


def test_items_of_one_partition_are_read_in_one_pass(database: Database) -> None:
    answer = Answer()
    name = NAMES[0]
    database.router.get_isolated([database.key(name)], None, answer)

    assert [None] == database.home(name).since
    assert [database.table.items.get(name.encode(), b"")] == answer.value


def test_items_of_several_partitions_are_read_in_two_passes(database: Database) -> None:
    answer = Answer()
    names = database.names_of(2, 5)
    first = [database.fakes[2].position, database.fakes[5].position]
    database.router.get_isolated([database.key(name) for name in names], None, answer)

    assert [[FIRST_READ, position] for position in first] == [
        database.fakes[2].since,
        database.fakes[5].since,
    ]
    assert [database.table.items.get(name.encode(), b"") for name in names] == answer.value


@pytest.mark.parametrize("time", [0, 1], ids=["held at first", "changed between the two"])
def test_a_read_with_a_conflict_in_either_pass_is_repeated(database: Database, time: int) -> None:
    answer = Answer()
    names = database.names_of(2, 5)
    keys = [database.key(name) for name in names]
    database.fakes[5].conflicts = {time: {keys[1]}}
    database.router.get_isolated(keys, None, answer)
    assert [] == answer.results
    database.loop.advance(1)

    assert [FIRST_READ, database.fakes[5].position] == database.fakes[5].since[-2:]
    assert [database.table.items.get(name.encode(), b"") for name in names] == answer.value


def test_a_conflict_in_every_attempt_is_reported_at_its_index(database: Database) -> None:
    answer = Answer()
    keys = [database.key(name) for name in database.names_of(2, 5)]
    database.fakes[5].conflicts = {time: {keys[1]} for time in range(100)}
    database.router.get_isolated(keys, None, answer)
    database.loop.advance(1)

    assert Conflict() == answer.value[1]
    assert ATTEMPTS == len(database.fakes[5].since)


def test_a_conflict_of_one_partition_releases_the_writes_of_others(database: Database) -> None:
    """They were kept back for a second read, and the next attempt begins with a first one."""
    keys = [database.key(name) for name in database.names_of(2, 5)]
    database.fakes[5].conflicts = {0: {keys[1]}}
    database.router.get_isolated(keys, None, Answer())

    assert [FIRST_READ, database.fakes[2].position] == database.fakes[2].since


def test_a_transaction_goes_to_the_partition_of_its_first_key(database: Database) -> None:
    first, second = database.names_of(6, 1)
    actions = [put(database.table, {"pk": {"S": name}}) for name in (first, second)]
    command = Transact(actions, CONTEXT)
    database.router.submit(command, 100, Answer())

    assert [command] == database.fakes[6].submitted


def test_transactions_with_one_token_have_one_coordinator(database: Database) -> None:
    for name in NAMES:
        actions = [put(database.table, {"pk": {"S": name}})]
        database.router.submit(Transact(actions, CONTEXT, token="the same"), 100, Answer())

    assert [len(NAMES)] == [len(fake.submitted) for fake in database.fakes if fake.submitted]


def test_a_query_of_a_global_index_goes_to_the_owner_of_its_key(database: Database) -> None:
    for n in range(7):
        answer = Answer()
        request = QueryRequest(database.id, "by-kind", f"kind {n}".encode(), b"", None)
        database.router.query(request, answer)
        assert len(NAMES[n::7]) == answer.value.count


# Tables


def test_a_table_command_goes_to_the_catalog(database: Database) -> None:
    command = define("CreateTable", 0, table_request("More"), settle=True)
    database.router.submit(command, 100, Answer())

    assert [command] == database.fakes[0].submitted


def test_a_table_command_without_delay_waits_for_the_catalog(
    database: Database,
) -> None:
    answer = Answer()
    table = database.table
    active = table.definition
    table.definition = dataclasses.replace(active, status="CREATING")
    database.fakes[0].outcomes = [TableDefined(table.definition)]
    database.router.submit(define("CreateTable", 0, table_request("Things")), 100, answer)
    database.loop.advance(0.5)
    assert [] == answer.results

    table.definition = active
    database.loop.advance(0.5)
    assert "CREATING" == answer.value.definition.status


def test_a_table_command_is_answered_with_a_partition_unreachable(database: Database) -> None:
    answer = Answer()
    database.table.definition = dataclasses.replace(database.table.definition, status="CREATING")
    database.fakes[0].outcomes = [TableDefined(database.table.definition)]
    database.router.submit(define("CreateTable", 0, table_request("Things")), 100, answer)
    database.loop.advance(60)

    assert isinstance(answer.value, TableDefined)


def subscribed(database: Database, answer: Answer) -> dict[int, int]:
    """Submit a subscription that needs the third definition. Return the definitions that each partition has applied."""
    state = database.ledger.state
    state.partitions = PARTITIONS + 1
    subscription = Subscription(7, "S", "", (), {}, 0, 0)
    database.fakes[0].outcomes = [Subscribed(subscription, version=3)]
    database.router.submit(subscribe("S", "Things"), 100, answer)
    state.rollout.applied = dict.fromkeys(data_partitions(state.partitions), 2)
    return state.rollout.applied


def test_a_subscription_is_answered_when_all_partitions_capture(database: Database) -> None:
    answer = Answer()
    applied = subscribed(database, answer)
    for partition in applied:
        database.loop.advance(0.1)
        assert [] == answer.results
        applied[partition] = 3
    database.loop.advance(0.1)

    assert isinstance(answer.value, Subscribed)


def test_a_partition_that_may_lack_a_subscription_is_reported(database: Database) -> None:
    """The subscription exists, but present writes may not be delivered to it, so the answer is an error."""
    answer = Answer()
    subscribed(database, answer)
    database.loop.advance(60)

    assert isinstance(answer.value, Failed)
    assert isinstance(answer.value.error, InternalServerError)


def test_a_write_that_comes_before_its_table_is_sent_again(database: Database) -> None:
    answer = Answer()
    command = put(database.table, {"pk": {"S": "item 3"}})
    database.home("item 3").outcomes = [Skipped("no such table")] * 3
    database.router.submit(command, 100, answer)
    database.loop.advance(1)

    assert [command] * 4 == database.home("item 3").submitted
    assert isinstance(answer.value, Completed)


def test_so_is_a_transaction(database: Database) -> None:
    command = Transact(
        [put(database.table, {"pk": {"S": name}}) for name in database.names_of(3, 4)], CONTEXT
    )
    database.fakes[3].outcomes = [Skipped("no such table")]
    database.router.submit(command, 100, Answer())
    database.loop.advance(1)

    assert [command] * 2 == database.fakes[3].submitted


def test_a_write_to_an_unknown_table_is_not_retried(database: Database) -> None:
    answer = Answer()
    command = put(database.table, {"pk": {"S": "item 3"}})
    database.home("item 3").outcomes = [Skipped("no such table")] * 3
    del database.ledger.state.tables[database.id]
    database.router.submit(command, 100, answer)

    assert [command] == database.home("item 3").submitted
    assert isinstance(answer.value, Skipped)


def test_the_catalog_catches_up_before_it_reports_a_missing_table(database: Database) -> None:
    state, tables = database.ledger.state, dict(database.ledger.state.tables)
    state.tables.clear()
    answer: list[Outcome] = []

    def catch_up(done: Any) -> None:
        state.tables.update(tables)
        done()

    router = Router([*database.fakes], state, database.loop, catch_up=catch_up)
    database.home("item 3").outcomes = [Skipped("no such table")]
    router.submit(
        put(database.table, {"pk": {"S": "item 3"}}), 100, lambda outcome, _: answer.append(outcome)
    )
    database.loop.advance(1)

    assert [Completed(progressed=True)] == answer


# Positions


def test_an_index_unknown_to_this_node_is_read_at_the_right_owner(
    database: Database,
) -> None:
    state, tables = database.ledger.state, dict(database.ledger.state.tables)
    state.tables.clear()
    caught_up: list[Any] = []
    router = Router([*database.fakes], state, database.loop, catch_up=caught_up.append)
    answer, none = Answer(), Answer()
    request = QueryRequest(database.id, "by-kind", b"kind 3", b"", None)

    router.query(request, answer)
    router.query(dataclasses.replace(request, index="by-nothing"), none)
    assert [] == answer.results
    state.tables.update(tables)
    for done in caught_up:
        done()

    [(page, _)] = answer.results
    assert page.count
    [(error, _)] = none.results
    assert isinstance(error, ResourceNotFoundError)


def test_a_cut_is_reached_when_each_of_its_positions_is(database: Database) -> None:
    answer = Answer()
    cut = Cut((Position(2, 7), Position(5, 1, 3)))
    database.router.reach(cut, answer)

    assert [(None,)] == answer.results
    assert [[Position(2, 7)], [Position(5, 1, 3)]] == [database.fakes[2].reached, database.fakes[5].reached]


def test_a_cut_is_not_reached_where_one_of_its_partitions_says_so(database: Database) -> None:
    answer = Answer()
    database.fakes[5].error = InternalServerError()
    database.router.reach(Cut((Position(2, 7), Position(5, 1))), answer)

    assert isinstance(answer.value, RequestError)


def test_the_status_of_all_says_which_partition_has_none(database: Database) -> None:
    answer = Answer()
    database.fakes[5].error = InternalServerError()
    database.router.status(None, answer)

    assert {"offset": 20} == answer.value["2"]
    assert isinstance(answer.value["5"], InternalServerError)


@pytest.mark.parametrize(
    ("places", "whole"),
    [
        ([Position(2, 7)], Position(2, 7)),
        ([Position(2, 7, 3), Position(2, 7, 4)], Position(2, 7, 4)),
        ([Position(2, 7), Position(2, 7, 4)], Position(2, 7)),
        ([Position(5, 1), Position(2, 7)], Cut((Position(2, 7), Position(5, 1)))),
        ([Cut((Position(2, 7), Position(5, 1))), Position(5, 2)], Cut((Position(2, 7), Position(5, 2)))),
    ],
)
def test_places_are_joined_to_the_latest_of_each_partition(
    places: list[ResultPosition], whole: ResultPosition
) -> None:
    assert whole == joined(places)
