"""Reads that wait: for the release of a key, for the end of a shared log, for a position."""

from collections.abc import Callable
from typing import Any

import pytest

from foldb.log.commands import Barrier, Cut, Position
from foldb.log.memory_log import MemoryLog
from foldb.materializer.consistent_partition import ConsistentPartition
from foldb.materializer.fold.outcomes import Transacted, TransactionRefused
from foldb.materializer.fold.state import PartitionState, Table
from foldb.materializer.local_partition import LocalPartition
from foldb.materializer.long_reads import LongReads
from foldb.materializer.partition import FIRST_READ, Conflict, Page, QueryRequest, ScanRequest, Since
from foldb.materializer.refold import fold_record
from foldb.materializer.replicated import ReplicatedWorker
from foldb.model.errors import (
    InternalServerError,
    LogError,
    RequestError,
    ServiceUnavailableError,
    ValidationError,
)
from tests.unit.materializer.fake_loop import FakeLoop
from tests.unit.materializer.ledger import define, delete, index_request, put, table_request
from tests.unit.materializer.several_partitions.database import Database, Nowhere, transact
from tests.unit.materializer.several_partitions.held import NEW, Held


@pytest.fixture
def held() -> Held:
    return Held()


READS = pytest.mark.parametrize("how", ["get", "get_all", "query", "scan"])


def shows_new(found: Any) -> bool:
    match found:
        case Page():
            return b'"n"' in found.items[0]
        case [(data, _)] | (data, _):
            return b'"n"' in data
    return False


@pytest.mark.guarantee("G31")
@READS
def test_a_consistent_read_of_a_held_item_waits_for_the_decision(held: Held, how: str) -> None:
    """The transaction is written elsewhere: a client that saw it there must not read the old item here."""
    answers = held.read(how)
    assert [] == answers

    held.release()

    assert shows_new(answers[0])


@READS
def test_an_eventually_consistent_read_does_not_wait(held: Held, how: str) -> None:
    [found] = held.read(how, consistent=False)

    assert not shows_new(found)


@READS
def test_a_read_waits_no_longer_than_its_deadline(held: Held, how: str) -> None:
    answers = held.read(how)

    held.database.loop.advance(5)

    assert isinstance(answers[0], InternalServerError)


def test_a_read_of_another_item_does_not_wait(held: Held) -> None:
    other = held.database.key_in(2, held.table, nth=1)["pk"]["S"].encode()
    answers: list[Any] = []

    held.reachable.get(held.table.definition.id, other, b"", True, lambda *answer: answers.append(answer[0]))

    assert [None] == answers


def test_a_callback_may_read_again_at_once(held: Held) -> None:
    seen: list[Any] = []
    pk, table = held.key["pk"]["S"].encode(), held.table.definition.id

    def again(*_: object) -> None:
        held.reachable.get(table, pk, b"", True, lambda *answer: seen.append(answer[0]))

    held.reachable.get(table, pk, b"", True, again)
    held.release()

    assert shows_new(seen[0])


class TestIsolated:
    def find(self, database: Database, table: Table, since: Position | None, *nths: int) -> tuple[Any, Any]:
        answers: list[Any] = []
        keys = [
            (table.definition.id, database.key_in(1, table, nth)["pk"]["S"].encode(), b"") for nth in nths
        ]
        database.partitions[1].get_isolated(keys, since, lambda *answer: answers.append(answer))
        database.loop.settle()
        [(found, at)] = answers
        return found, at

    @pytest.mark.parametrize("since", [None, FIRST_READ])
    def test_a_read_of_a_held_key_waits(self, held: Held, since: Since) -> None:
        answers: list[Any] = []
        pk, table = held.key["pk"]["S"].encode(), held.table.definition.id

        held.reachable.get_isolated([(table, pk, b"")], since, lambda *answer: answers.append(answer[0]))
        assert [] == answers
        held.release()

        assert shows_new(answers[0])

    def test_a_key_held_at_the_second_read_is_a_conflict(self, held: Held) -> None:
        answers: list[Any] = []
        pk, table = held.key["pk"]["S"].encode(), held.table.definition.id

        held.reachable.get_isolated(
            [(table, pk, b"")], Position(2, 0), lambda *answer: answers.append(answer[0])
        )

        assert [[Conflict()]] == answers

    def test_an_item_unchanged_between_two_reads_is_isolated(self) -> None:
        database = Database()
        table = database.create()
        database.do(1, put(table, database.key_in(1, table)))
        first, at = self.find(database, table, None, 0, 1)
        database.do(1, put(table, database.key_in(1, table, nth=5)))

        second, _ = self.find(database, table, at, 0, 1)

        assert first == second
        assert first[1] is None

    def test_absent_present_absent_is_a_change(self) -> None:
        database = Database()
        table = database.create()
        _, at = self.find(database, table, None, 0)
        key = database.key_in(1, table)
        database.do(1, put(table, {**key, **NEW}))
        database.do(1, delete(table, key))

        found, _ = self.find(database, table, at, 0)

        assert [Conflict()] == found

    @pytest.mark.parametrize("partitions", [(1,), (1, 2)])
    def test_a_transaction_between_two_looks_is_a_change(self, partitions: tuple[int, ...]) -> None:
        database = Database()
        table = database.create()
        _, at = self.find(database, table, None, 0)
        database.do(1, transact(*(put(table, database.key_in(number, table)) for number in partitions)))

        found, _ = self.find(database, table, at, 0)

        assert [Conflict()] == found

    def test_a_forgotten_item_counts_as_changed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        database = Database()
        table = database.create()
        _, at = self.find(database, table, None, 0)
        monkeypatch.setattr(database.partitions[1]._recent, "_kept", 3)
        for nth in range(1, 7):
            database.do(1, put(table, database.key_in(1, table, nth)))

        assert ([Conflict()], [Conflict()]) == (
            self.find(database, table, at, 0)[0],
            self.find(database, table, at, 9)[0],
        )
        _, later = self.find(database, table, None, 0)
        assert [None] == self.find(database, table, later, 0)[0]


class TestReach:
    def reach(self, database: Database, number: int, position: Any) -> list[RequestError | None]:
        answers: list[RequestError | None] = []
        database.partitions[number].reach(position, answers.append)
        return answers

    def test_a_position_is_reached_when_its_messages_are_folded(self) -> None:
        database = Database()
        table = database.create(GlobalSecondaryIndexes=[index_request("by-n", "n")])
        receiver = database.partitions[2]
        database.partitions[2] = Nowhere()
        for nth in range(10):
            item = {**database.key_in(1, table, nth), "n": {"S": f"n{nth}"}}
            database.do(1, put(table, item))
        position = database.workers[1].position

        answers = self.reach(database, 1, position)
        assert [] == answers
        database.partitions[2] = receiver
        database.loop.advance(2)

        assert [None] == answers

    def test_of_several_positions_the_one_in_the_partition_counts(self) -> None:
        database = Database()
        database.create()

        assert [None] == self.reach(database, 1, Cut((Position(1, 0), Position(2, 10_000))))

    def test_a_position_that_does_not_come_is_not_waited_for_without_end(self) -> None:
        database = Database()
        answers = self.reach(database, 1, Position(1, 10_000))

        database.loop.advance(5)

        assert isinstance(answers[0], InternalServerError)

    def test_where_there_is_one_partition_every_position_is_reached(self) -> None:
        node = Shared()
        alone = LocalPartition(node.worker, long_reads=LongReads(node.loop))
        answers: list[RequestError | None] = []

        alone.reach(node.worker.position, answers.append)
        alone.reach(Position(0, 10_000), answers.append)

        assert answers[0] is None
        assert isinstance(answers[1], ValidationError)


class Shared:
    """A partition on a log to which another node appends too."""

    def __init__(self, *, strict: bool = False) -> None:
        self.loop = FakeLoop()
        self.log = MemoryLog(self.loop.clock, manual=True)
        self.questions = 0
        self.connection = self.log.connect(self.loop.call_soon)
        self._ask_end = self.connection.ask_end
        self.connection.ask_end = self._count  # type: ignore[method-assign]
        self.worker = self._worker(self.connection)
        self.partition = ConsistentPartition(
            LocalPartition(self.worker, long_reads=LongReads(self.loop)),
            clock=self.loop.clock,
            scheduler=self.loop,
            strict=strict,
        )
        self.other = self._worker(self.log.connect(self.loop.call_soon))
        self.write(define("CreateTable", 0, table_request("Orders")))
        self.hear()
        self.questions = 0

    def _worker(self, log: Any) -> ReplicatedWorker:
        worker = ReplicatedWorker(
            log,
            PartitionState(),
            new_origin=lambda: b"%016d" % len(self.log.followers),
            scheduler=self.loop,
            on_fatal=lambda error: pytest.fail(str(error)),
        )
        worker.catch_up(lambda: None)
        return worker

    def _count(self, partition: int, callback: Callable[[int | LogError], None]) -> None:
        self.questions += 1
        self._ask_end(partition, callback)

    @property
    def table(self) -> Table:
        return next(iter(self.worker.state.tables.values()))

    def write(self, command: Any) -> None:
        """Let the other node write; this one does not receive it yet."""
        self.log.followers[1].hear()
        self.loop.settle()
        self.other.submit(command, 10, lambda *_: None)
        self.loop.settle()
        self.log.commit()
        self.loop.settle()

    def hear(self) -> None:
        for follower in self.log.followers:
            follower.hear()
        self.loop.settle()

    def get(self, consistent: bool) -> list[Any]:
        answers: list[Any] = []
        self.partition.get(
            self.table.definition.id, b"o-1", b"", consistent, lambda *answer: answers.append(answer[0])
        )
        self.loop.turn()
        return answers


ITEM: Any = {"pk": {"S": "o-1"}}


@pytest.mark.guarantee("G31")
def test_a_consistent_read_waits_for_all_acknowledged_writes() -> None:
    node = Shared()
    node.write(put(node.table, ITEM))

    answers = node.get(consistent=True)
    assert [] == answers
    node.hear()

    assert b"o-1" in answers[0][0]


def test_reads_that_arrive_together_share_a_question() -> None:
    node = Shared()
    found: list[Any] = []

    for _ in range(10):
        node.partition.get(
            node.table.definition.id, b"o-1", b"", True, lambda *answer: found.append(answer[0])
        )
    node.loop.settle()

    assert [None] * 10 == found
    assert node.questions == 2, "the first asks; those that come meanwhile share the next"


def test_a_log_end_without_answer_is_a_retryable_error() -> None:
    node = Shared()
    node.connection.ask_end = lambda *_: None  # type: ignore[method-assign]

    answers = node.get(consistent=True)
    node.loop.advance(5)
    assert isinstance(answers[0], ServiceUnavailableError)

    node.connection.ask_end = node._ask_end  # type: ignore[method-assign]
    assert [None] == node.get(consistent=True)


def test_an_unknown_log_end_is_a_retryable_error() -> None:
    node = Shared()
    node.connection.ask_end = _fail_to_ask  # type: ignore[method-assign]

    assert isinstance(node.get(consistent=True)[0], ServiceUnavailableError)


def _fail_to_ask(partition: int, callback: Callable[[int | LogError], None]) -> None:
    callback(LogError(f"no broker for {partition}"))


@pytest.mark.guarantee("G32")
@pytest.mark.spec("S70")
def test_an_eventually_consistent_read_uses_a_recent_state() -> None:
    node = Shared()
    node.get(consistent=True)
    node.write(put(node.table, ITEM))
    assert [None] == node.get(consistent=False)

    node.loop.advance(6)
    late = node.get(consistent=False)
    assert [] == late, "nobody knows how old the state is"

    node.hear()
    assert b"o-1" in late[0][0]


@pytest.mark.guarantee("G32")
@pytest.mark.parametrize("how", ["query", "scan"])
def test_a_page_that_must_be_fresh_is_no_older_than_the_request(how: str) -> None:
    """A client that waited for a position in an index reads the index next."""
    node = Shared()
    node.get(consistent=True)
    node.write(put(node.table, ITEM))
    table, pages = node.table.definition.id, []

    def done(page: Any, _: object) -> None:
        pages.append(page)

    if how == "query":
        node.partition.query(QueryRequest(table, None, b"o-1", b"", None, fresh=True), done)
    else:
        node.partition.scan(ScanRequest(table, None, fresh=True), done)
    node.loop.settle()
    assert [] == pages
    node.hear()

    [page] = pages
    assert page.count == 1
    assert page.table_half_units == 1, "at the price of any read"


def test_a_partition_that_is_read_from_stays_fresh() -> None:
    node = Shared()
    node.get(consistent=True)

    for _ in range(20):
        node.loop.advance(1)
        assert [None] == node.get(consistent=False)

    assert node.questions < 10


@pytest.mark.guarantee("G31")
def test_a_strict_read_is_an_entry() -> None:
    node = Shared(strict=True)
    node.write(put(node.table, ITEM))

    answers = node.get(consistent=True)
    node.loop.settle()
    node.log.commit()
    node.loop.settle()
    assert [] == answers
    node.hear()

    assert b"o-1" in answers[0][0]
    last = list(node.log.read(0))[-1]
    assert [Barrier()] == last.entry.commands
    assert node.questions == 0


def test_a_partition_says_how_it_is() -> None:
    database = Database()
    table = database.create()
    database.do(1, put(table, database.key_in(1, table)))
    answers: list[Any] = []

    other = database.create("Other")
    database.partitions[1].status(None, answers.append)
    database.partitions[1].status(other.definition.id, answers.append)

    [status, of_other] = answers
    assert {str(other.definition.id): [0, 0]} == of_other["counts"]
    assert status["position"] == of_other["position"]
    assert (status["position"], status["items"], status["stopped"]) == (
        database.workers[1].position.offset,
        1,
        False,
    )
    assert status["counts"][str(table.definition.id)][0] == 1
    assert status["unacknowledged"] == {"0": 0}


def test_readers_wait_no_longer_than_the_transaction_lasts(held: Held) -> None:
    answers = held.read("get")
    held.release()

    [(outcome, _)] = held.answers
    assert isinstance(outcome, Transacted | TransactionRefused)
    assert shows_new(answers[0])


class TestTwoReads:
    """Isolated reads on a shared log: the first keeps back the writes that come after it."""

    def read(self, node: Shared, since: Since) -> list[Any]:
        answers: list[Any] = []
        keys = [(node.table.definition.id, b"o-1", b"")]
        node.partition.get_isolated(keys, since, lambda *answer: answers.append(answer))
        node.loop.settle()
        return answers

    def write(self, node: Shared, number: int) -> list[Any]:
        answers: list[Any] = []
        command = put(node.table, {**ITEM, "n": {"N": f"{number}"}})
        node.partition.submit(command, 10, lambda *answer: answers.append(answer))
        node.loop.settle()
        return answers

    def test_a_first_read_shows_the_writes_in_flight(self) -> None:
        node = Shared()
        self.write(node, 1)
        first = self.read(node, FIRST_READ)
        assert [] == first

        node.log.commit()
        node.loop.settle()

        [([(data, _)], _)] = first
        assert b'"1"' in data

    def test_a_later_write_is_kept_back_until_the_second_read(self) -> None:
        node = Shared()
        [(found, position)] = self.read(node, FIRST_READ)
        later = self.write(node, 2)
        node.log.commit()
        node.loop.settle()
        assert [] == later

        [(again, _)] = self.read(node, position)
        node.log.commit()
        node.loop.settle()

        assert found == again == [None]
        assert 1 == len(later)

    def test_a_write_of_another_node_is_a_conflict(self) -> None:
        """No hold keeps it back: the second read finds it."""
        node = Shared()
        [(_, position)] = self.read(node, FIRST_READ)
        node.write(put(node.table, ITEM))
        second = self.read(node, position)
        node.hear()

        assert [Conflict()] == second[0][0]

    def test_entries_folded_without_outcomes_are_a_conflict(self) -> None:
        """So are those before a record that a Skip declares void (ReplicatedWorker.fold_failed)."""
        node = Shared()
        [(_, position)] = self.read(node, FIRST_READ)
        offset = node.worker.state.next_offset
        node.write(put(node.table, ITEM))
        for record in node.log.read(0, offset):
            fold_record(node.worker.state, record)

        assert [Conflict()] == self.read(node, position)[0][0]
