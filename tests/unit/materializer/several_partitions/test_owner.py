"""The duties of an owner, with real partitions."""

from typing import Any

import pytest

from foldb.log.commands import Barrier, Put
from foldb.materializer import worker as worker_module
from foldb.materializer.fold.dump import digest
from foldb.materializer.fold.outcomes import Applied, Failed, Outcome, Transacted, TransactionRefused
from foldb.materializer.fold.state import Table
from foldb.materializer.owner import timers as timers_module
from foldb.model.errors import ThrottlingError
from foldb.model.values import Value
from tests.unit.materializer.ledger import define, index_request, put, table_request
from tests.unit.materializer.several_partitions.database import Database, Nowhere, transact

BY_COLOUR: Any = {"GlobalSecondaryIndexes": [index_request("by-colour", "colour")]}

ADD_BY_COLOUR: Any = {
    "TableName": "Orders",
    "AttributeDefinitions": [
        {"AttributeName": "pk", "AttributeType": "S"},
        {"AttributeName": "colour", "AttributeType": "S"},
    ],
    "GlobalSecondaryIndexUpdates": [{"Create": index_request("by-colour", "colour")}],
}


def put_in(database: Database, number: int, table: Table, nth: int = 0, **attributes: Value) -> Put:
    return put(table, {**database.key_in(number, table, nth), **attributes})


def test_a_table_is_active_when_every_partition_has_it() -> None:
    database = Database(data=3)

    table = database.create()

    assert table.definition.status == "ACTIVE"
    assert all(table.definition.id in database.state(number).tables for number in range(4))


def test_a_table_that_one_partition_has_not_got_is_not_active() -> None:
    database = Database()
    reachable, database.partitions[2] = database.partitions[2], Nowhere()

    table = database.create()
    database.loop.advance(60)
    before = table.definition.status

    database.partitions[2] = reachable
    database.loop.advance(10)

    assert ("CREATING", "ACTIVE") == (before, table.definition.status)


def test_a_delay_of_a_table_is_over_once_for_all() -> None:
    database = Database(table_delay=5.0)
    database.do(0, define("CreateTable", 0, table_request("Orders"), settle=True))
    [table] = database.catalog.tables.values()

    database.loop.advance(4.9)
    before = table.definition.status
    database.loop.advance(0.2)

    assert ("CREATING", "ACTIVE") == (before, table.definition.status)


def test_an_index_is_filled_beside_a_command_with_a_delay() -> None:
    """All parts are filled, and the command comes before every partition has the definition that says so."""
    database = Database(table_delay=5.0)
    database.do(0, define("CreateTable", 0, table_request("Orders"), settle=True))
    [table] = database.catalog.tables.values()
    database.loop.advance(6)
    number = table.definition.id
    database.submit(0, define("UpdateTable", number, ADD_BY_COLOUR))
    while not database.catalog.rollout.pending or database.catalog.rollout.filled.get(2) != [1, 2]:
        database.loop.turn()
    expiry = {"AttributeName": "at", "Enabled": True}

    database.submit(0, define("UpdateTimeToLive", number, {"TimeToLiveSpecification": expiry}, settle=True))
    database.loop.advance(60)

    assert ["ACTIVE"] == [index.status for index in table.definition.indexes]


def test_an_index_receives_entries_of_other_partitions() -> None:
    database = Database(data=3)
    table = database.create(**BY_COLOUR)

    for number in (1, 2, 3):
        for nth in range(5):
            database.do(number, put_in(database, number, table, nth, colour={"S": f"c{nth}"}))

    stores = [
        database.state(number).tables[table.definition.id].indexes["by-colour"].store for number in (1, 2, 3)
    ]
    assert sum(store.count for store in stores) == 15


def test_a_new_index_is_filled_by_everybody_and_then_active() -> None:
    database = Database(data=3)
    table = database.create()
    for number in (1, 2, 3):
        for nth in range(50):
            database.do(number, put_in(database, number, table, nth, colour={"S": f"c{nth}"}))

    database.do(0, define("UpdateTable", table.definition.id, ADD_BY_COLOUR))

    definition = database.catalog.tables[table.definition.id].definition
    assert [False] == [index.backfilling for index in definition.indexes]
    stores = [
        database.state(number).tables[table.definition.id].indexes["by-colour"].store for number in (1, 2, 3)
    ]
    assert sum(store.count for store in stores) == 150


def test_a_new_index_is_filled_no_faster_than_others_take_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the outbox would grow with the table, and throttle its clients."""
    monkeypatch.setattr(timers_module, "HELD_BACK_BYTES", 1000)
    monkeypatch.setattr(timers_module, "BACKFILL_MOST_ITEMS", 10)
    database = Database()
    table = database.create()
    for nth in range(100):
        database.do(1, put_in(database, 1, table, nth, colour={"S": f"c{nth}"}))
    longest = 0

    def watch(outcomes: list[Outcome]) -> None:
        nonlocal longest
        longest = max(longest, database.state(1).unacknowledged_bytes)

    database.workers[1].before_answers.add(watch)
    database.do(0, define("UpdateTable", table.definition.id, ADD_BY_COLOUR))

    assert [False] == [index.backfilling for index in table.definition.indexes]
    assert 1000 < longest < 3000, "what one step adds, and no more"


def test_expired_items_are_deleted_in_every_partition() -> None:
    database = Database(sweep_interval=60.0)
    table = database.create(**BY_COLOUR)
    specification = {"Enabled": True, "AttributeName": "ttl"}
    request = {"TableName": "Orders", "TimeToLiveSpecification": specification}
    database.do(0, define("UpdateTimeToLive", table.definition.id, request))
    now = {"N": str(database.loop.clock() // 1000)}
    for number in (1, 2):
        for nth in range(5):
            item = put_in(database, number, table, nth, colour={"S": f"c{nth}"}, ttl=now)
            database.do(number, item)

    database.loop.advance(70)

    tables = [database.state(number).tables[table.definition.id] for number in (1, 2)]
    assert [(0, 0)] * 2 == [(each.items.count, each.indexes["by-colour"].store.count) for each in tables]


def test_a_transaction_is_answered_when_all_partitions_applied_it() -> None:
    database = Database()
    table = database.create()

    answers = database.submit(1, transact(put_in(database, 1, table), put_in(database, 2, table)))
    database.loop.turn()
    assert [] == answers
    database.loop.settle()

    [(outcome, _)] = answers
    assert isinstance(outcome, Transacted)
    assert [1, 1] == [database.items(number, table) for number in (1, 2)]
    assert all(database.state(number).transactions.idle for number in (1, 2))


def test_a_transaction_with_an_unreachable_participant_is_aborted() -> None:
    database = Database()
    table = database.create()
    database.partitions[2] = Nowhere()

    answers = database.submit(1, transact(put_in(database, 1, table), put_in(database, 2, table)))
    database.loop.advance(9)
    assert [] == answers
    database.loop.advance(3)

    [(outcome, _)] = answers
    assert isinstance(outcome, TransactionRefused)
    assert not database.state(1).transactions.held


@pytest.mark.parametrize("is_begun", [True, False])
def test_an_abort_does_not_wait_for_a_clock_set_back(is_begun: bool) -> None:
    """The clock is set back by an hour after the transaction began, or before."""
    database = Database()
    table = database.create()
    database.partitions[2] = Nowhere()
    two = transact(put_in(database, 1, table), put_in(database, 2, table))

    answers = database.submit(1, two) if is_begun else []
    database.loop.settle()
    database.loop.set_back(3600)
    answers = answers if is_begun else database.submit(1, two)
    database.loop.advance(9)
    assert not answers
    assert database.state(1).transactions.held
    database.loop.advance(3)

    assert isinstance(answers[0][0], TransactionRefused)
    assert not database.state(1).transactions.held


def test_a_participant_releases_an_aborted_transaction_later() -> None:
    database = Database()
    table = database.create()
    reachable, database.partitions[1] = database.partitions[1], Nowhere()

    # The participant holds its key; its vote does not arrive.
    answers = []
    reachable.submit(
        transact(put_in(database, 1, table), put_in(database, 2, table)), 10, lambda *a: answers.append(a)
    )
    database.loop.settle()
    assert database.state(2).transactions.held
    database.loop.advance(12)
    assert isinstance(answers[0][0], TransactionRefused)

    database.partitions[1] = reachable
    database.loop.advance(10)
    assert all(database.state(number).transactions.idle for number in (1, 2))


@pytest.mark.guarantee("G33")
def test_a_new_owner_goes_on_where_the_last_one_stopped() -> None:
    database = Database()
    table = database.create()
    for owner in database.owners:
        owner.close()
    answers = database.submit(1, transact(put_in(database, 1, table), put_in(database, 2, table)))
    database.loop.advance(60)
    assert [] == answers

    for number in (1, 2):
        database.owner(number).start()
    database.loop.settle()

    assert isinstance(answers[0][0], Transacted)


@pytest.mark.guarantee("G33")
def test_two_owners_at_once_do_no_harm() -> None:
    """A stale owner sends everything twice, and it counts once."""
    alone, contended = Database(), Database()
    for database in (alone, contended):
        table = database.create(**BY_COLOUR)
        if database is contended:
            for number in (1, 2):
                _add_owner(database, number)
        for nth in range(20):
            database.do(1, put_in(database, 1, table, nth, colour={"S": f"c{nth}"}))
            both = [put_in(database, number, table, nth + 30, colour={"S": "x"}) for number in (1, 2)]
            assert isinstance(database.do(1, transact(*both))[0], Transacted)

    for number in (1, 2):
        tables = [database.state(number).tables[table.definition.id] for database in (alone, contended)]
        counts = [(each.items.count, each.indexes["by-colour"].store.count) for each in tables]
        assert counts[0] == counts[1]
        assert not contended.state(number).unacknowledged_bytes


def _add_owner(database: Database, number: int) -> None:
    database.owner(number).start()


def test_an_idle_log_stays_idle() -> None:
    """Completed work is not proposed again as time passes."""
    database = Database(sweep_interval=60.0)
    table = database.create(**BY_COLOUR)
    for nth in range(5):
        database.do(1, put_in(database, 1, table, nth, colour={"S": f"c{nth}"}))
    database.do(1, transact(put_in(database, 1, table), put_in(database, 2, table)))
    database.loop.advance(1)
    ends = database.ends()

    database.loop.advance(600)

    assert ends == database.ends()


def test_many_unacknowledged_messages_throttle_clients_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "UNACKNOWLEDGED_BYTES", 1000)
    database = Database()
    table = database.create(**BY_COLOUR)
    reachable = list(database.partitions)
    database.partitions[:] = [Nowhere(), Nowhere(), Nowhere()]

    outcomes = []
    for nth in range(100):
        reachable[1].submit(
            put_in(database, 1, table, nth, colour={"S": f"c{nth}"}), 10, lambda *a: outcomes.append(a[0])
        )
        database.loop.settle()
    refused = [each.error for each in outcomes if isinstance(each, Failed)]
    assert refused
    assert all(isinstance(error, ThrottlingError) for error in refused)
    free: list[object] = []
    reachable[1].submit(Barrier(), 10, lambda *a: free.append(a[0]))
    database.loop.settle()
    assert free
    assert not isinstance(free[0], Failed)

    database.partitions[:] = reachable
    database.loop.advance(10)
    assert isinstance(database.do(1, put_in(database, 1, table))[0], Applied)


def test_a_restart_finds_the_same_state() -> None:
    database = Database()
    table = database.create(**BY_COLOUR)
    for nth in range(5):
        database.do(1, put_in(database, 1, table, nth, colour={"S": f"c{nth}"}))
    database.do(1, transact(put_in(database, 1, table), put_in(database, 2, table)))

    restarted = Database(log=database.log)

    for number in range(3):
        assert digest(database.state(number)) == digest(restarted.state(number))


def test_a_close_answers_clients_of_open_transactions() -> None:
    database = Database()
    table = database.create()
    database.partitions[2] = Nowhere()
    answers = database.submit(1, transact(put_in(database, 1, table), put_in(database, 2, table)))
    database.loop.settle()
    worker = database.workers[1]
    assert worker.statistics().waiting == 1

    closed: list[str] = []
    worker.close(lambda: closed.append("closed"))

    assert ["closed"] == closed
    assert isinstance(answers[0][0], Failed)
