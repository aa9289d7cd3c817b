"""Workers on a shared log: they fold the same state, and each finds its own entries."""

from collections.abc import Callable, Collection

import pytest

from foldb.log.commands import LEVEL, Command, Entry, Record, Skip
from foldb.log.log import Appended, genesis_entry
from foldb.log.memory_log import MemoryLog
from foldb.materializer import refold as refold_module
from foldb.materializer.fold import fold
from foldb.materializer.fold.dump import digest
from foldb.materializer.fold.fold_record import Void
from foldb.materializer.fold.outcomes import Applied, Failed, Outcome
from foldb.materializer.fold.state import ORIGINS_KEPT, PartitionState, Table
from foldb.materializer.partition import ResultPosition
from foldb.materializer.refold import FoldError
from foldb.materializer.replicated import ReplicatedWorker
from foldb.model.errors import (
    AppendUnknownError,
    CorruptionError,
    InternalServerError,
    LogError,
    LogFullError,
    NewerVersionError,
    ServiceUnavailableError,
)
from tests.unit.materializer.fake_loop import FakeLoop
from tests.unit.materializer.ledger import CONTEXT, define, put, table_request

SILENCE = 10.0
Answers = list[tuple[Outcome, ResultPosition]]


class Node:
    """A worker of its own on a shared log; it receives records when the test says so."""

    count = 0

    def __init__(self, log: MemoryLog, loop: FakeLoop) -> None:
        self.loop = loop
        self.fatal: list[BaseException] = []
        self.caught_up: list[str] = []
        self.connection = log.connect(loop.call_soon)
        self.worker = ReplicatedWorker(
            self.connection,
            PartitionState(),
            new_origin=self._new_origin,
            scheduler=loop,
            silence=SILENCE,
            on_fatal=self.fatal.append,
        )
        self.worker.catch_up(lambda: self.caught_up.append("caught up"))
        self.follower = log.followers[-1]

    def _new_origin(self) -> bytes:
        Node.count += 1
        return b"%016d" % Node.count

    @property
    def state(self) -> PartitionState:
        return self.worker.state

    @property
    def table(self) -> Table:
        return next(iter(self.state.tables.values()))

    def submit(self, command: Command) -> Answers:
        """Submit, send the entry, and return the list that receives the answer."""
        answers: Answers = []
        self.worker.submit(command, 100, lambda outcome, at: answers.append((outcome, at)))
        self.loop.settle()
        return answers

    def hear(self) -> None:
        self.follower.hear()
        self.loop.settle()


class Bench:
    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.log = MemoryLog(self.loop.clock, manual=True)
        self.one = Node(self.log, self.loop)
        self.two = Node(self.log, self.loop)
        self.one.submit(define("CreateTable", 0, table_request("Orders")))
        self.settle()

    def commit(self, count: int | None = None, place: int = 0) -> None:
        self.log.commit(count, index=place)
        self.loop.settle()

    def settle(self) -> None:
        """Append, acknowledge and deliver everything."""
        self.loop.settle()
        while self.log.waiting or self.one.follower.behind or self.two.follower.behind:
            self.commit()
            self.one.hear()
            self.two.hear()

    def folded(self) -> list[int]:
        return [node.state.next_offset for node in (self.one, self.two)]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def order(number: int) -> dict[str, dict[str, str]]:
    return {"pk": {"S": f"o-{number}"}}


def test_an_entry_that_follows_directly_is_folded_on_acknowledgement(bench: Bench) -> None:
    answers = bench.one.submit(put(bench.one.table, order(1)))
    assert [] == answers

    bench.commit()

    assert isinstance(answers[0][0], Applied)
    assert [3, 2] == bench.folded(), "the other one has not heard of it"


def test_followers_fold_the_same_state(bench: Bench) -> None:
    for number in range(5):
        bench.one.submit(put(bench.one.table, order(number)))
        bench.two.submit(put(bench.two.table, order(number + 2)))
        bench.settle()

    assert digest(bench.one.state) == digest(bench.two.state)
    assert bench.one.table.items.count == 7


def test_an_entry_behind_others_waits_until_they_are_received(bench: Bench) -> None:
    late = bench.two.submit(put(bench.two.table, order(2)))
    early = bench.one.submit(put(bench.one.table, order(1)))
    bench.commit(1, place=1)
    bench.commit()
    assert isinstance(early[0][0], Applied)
    assert [] == late, "it is in the log, behind an entry that is not known here"

    bench.two.hear()

    assert isinstance(late[0][0], Applied)
    assert bench.folded() == [3, 4]


def test_an_entry_of_another_is_not_taken_for_ones_own(bench: Bench) -> None:
    bench.two.submit(put(bench.two.table, order(0)))
    bench.settle()  # both have written one entry now: their next entry numbers are equal

    mine = bench.two.submit(put(bench.two.table, order(2)))
    bench.one.submit(put(bench.one.table, order(1)))
    bench.commit(1, place=1)
    bench.two.hear()
    assert [] == mine

    bench.settle()
    assert isinstance(mine[0][0], Applied)
    assert digest(bench.one.state) == digest(bench.two.state)


def test_a_received_entry_replaces_its_lost_acknowledgement(bench: Bench) -> None:
    answers = bench.one.submit(put(bench.one.table, order(1)))
    bench.log.lose()
    bench.loop.settle()
    assert [] == answers

    bench.one.hear()
    assert isinstance(answers[0][0], Applied)

    again = bench.one.submit(put(bench.one.table, order(2)))
    assert bench.log.waiting == 1, "what was found is not repeated"
    bench.settle()
    assert isinstance(again[0][0], Applied)


def test_a_second_copy_counts_for_nothing(bench: Bench) -> None:
    answers = bench.one.submit(put(bench.one.table, order(1)))
    bench.log.lose()
    bench.settle()
    more = bench.one.submit(put(bench.one.table, order(2)))
    bench.settle()

    assert (1, 1) == (len(answers), len(more))
    assert bench.log.end(0) == 5, "two copies of one entry, and another entry"
    assert digest(bench.one.state) == digest(bench.two.state)
    assert not bench.one.fatal


def test_an_acknowledgement_without_offset_waits_for_the_entry(bench: Bench) -> None:
    def acknowledge_without_place(partition: int, entry: Entry, callback: Callable[..., None]) -> None:
        append(partition, entry, lambda _: callback(Appended(partition, -1, -1)))

    append = bench.one.connection.append
    bench.one.connection.append = acknowledge_without_place  # type: ignore[method-assign]
    answers = bench.one.submit(put(bench.one.table, order(1)))
    bench.commit()
    assert [] == answers

    bench.one.hear()

    assert isinstance(answers[0][0], Applied)


def test_another_entry_than_was_acknowledged_is_the_end(bench: Bench) -> None:
    """For example a broker that lost an acknowledged entry: other workers fold another one than was answered."""
    bench.one.submit(put(bench.one.table, order(1)))
    bench.commit()
    other = MemoryLog(bench.loop.clock)
    other.append(0, Entry(b"another one     ", 0, [put(bench.one.table, order(2))]), lambda _: None)
    [_, foreign] = other.raw_records(0, range(2))

    bench.one.follower._handle([foreign._replace(offset=2)])

    [error] = bench.one.fatal
    assert isinstance(error, CorruptionError)
    assert isinstance(bench.one.submit(put(bench.one.table, order(3)))[0][0], Failed)


def test_a_record_that_is_missing_is_the_end(bench: Bench) -> None:
    bench.two.submit(put(bench.two.table, order(1)))
    bench.two.submit(put(bench.two.table, order(2)))
    bench.commit()
    bench.commit()

    bench.one.follower._handle(bench.log.raw_records(0, range(3, 4)))

    assert isinstance(bench.one.fatal[0], CorruptionError)


def test_a_worker_whose_origin_was_forgotten_takes_another(bench: Bench) -> None:
    """A thousand others wrote while it was paused; whether its entry is a duplicate is unknown: it is sent with a new
    origin.
    """
    bench.one.submit(put(bench.one.table, order(0)))
    bench.settle()
    answers = bench.one.submit(put(bench.one.table, order(1)))
    for number in range(ORIGINS_KEPT):
        bench.log.append(
            0, Entry(b"other %010d" % number, 0, [put(bench.one.table, order(9))]), lambda _: None
        )
    bench.log.commit(ORIGINS_KEPT, index=1)
    bench.settle()

    [(outcome, at)] = answers
    assert isinstance(outcome, Applied)
    assert at.text() == f"{3 + ORIGINS_KEPT + 1}.0", "behind its first copy"
    after = bench.one.submit(put(bench.one.table, order(2)))
    bench.settle()
    assert isinstance(after[0][0], Applied)
    assert digest(bench.one.state) == digest(bench.two.state)


def test_clients_are_answered_although_the_log_is_silent(bench: Bench) -> None:
    sent = bench.one.submit(put(bench.one.table, order(1)))
    waiting = bench.one.submit(put(bench.one.table, order(2)))

    bench.loop.advance(SILENCE)

    assert isinstance(_error(sent), InternalServerError), "it may happen yet"
    assert isinstance(_error(waiting), ServiceUnavailableError), "it will not happen"
    late = bench.one.submit(put(bench.one.table, order(3)))
    assert bench.log.waiting == 1, "nothing goes before the entry whose fate is unknown"
    bench.settle()
    assert isinstance(late[0][0], Applied)
    assert bench.one.table.items.count == 2
    assert bench.one.worker.statistics().waiting_bytes == 0


def test_a_log_that_stays_silent_blocks_no_client(bench: Bench) -> None:
    bench.one.submit(put(bench.one.table, order(1)))
    for number in range(3):
        answers = bench.one.submit(put(bench.one.table, order(number)))
        bench.loop.advance(SILENCE)
        assert isinstance(_error(answers), ServiceUnavailableError)


def test_a_refused_entry_does_not_refuse_the_next(bench: Bench) -> None:
    refused = bench.one.submit(put(bench.one.table, order(1)))
    bench.log.fail(LogFullError("larger than a message may be"))
    bench.loop.settle()
    assert isinstance(_error(refused), ServiceUnavailableError)

    answers = bench.one.submit(put(bench.one.table, order(2)))
    bench.settle()
    assert isinstance(answers[0][0], Applied)


def test_an_append_that_failed_permanently_stops_the_worker(bench: Bench) -> None:
    answers = bench.one.submit(put(bench.one.table, order(1)))

    bench.log.fail(AppendUnknownError("authorization failed"), written=True)
    bench.loop.settle()

    assert isinstance(_error(answers), InternalServerError)
    assert isinstance(bench.one.fatal[0], AppendUnknownError)
    bench.two.hear()
    assert bench.two.table.items.count == 1
    assert len(bench.log.followers) == 1, "who has stopped hears nothing more"


def test_catching_up_ends_where_the_log_did(bench: Bench) -> None:
    for number in range(5):
        bench.one.submit(put(bench.one.table, order(number)))
        bench.settle()
    late = Node(bench.log, bench.loop)
    bench.loop.settle()
    late.follower.hear(6)
    bench.loop.settle()
    assert [] == late.caught_up

    late.follower.hear(1)
    bench.loop.settle()

    assert ["caught up"] == late.caught_up
    assert digest(late.state) == digest(bench.one.state)


def test_catching_up_goes_on_though_the_log_does_not_answer_at_first(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_end = bench.log.ask_end_from
    monkeypatch.setattr(bench.log, "ask_end_from", lambda *args: args[2](LogError("no broker")))
    late = Node(bench.log, bench.loop)
    late.hear()
    assert [] == late.caught_up

    monkeypatch.setattr(bench.log, "ask_end_from", ask_end)
    bench.loop.advance(1)

    assert ["caught up"] == late.caught_up


def test_a_standby_may_take_over_at_any_moment(bench: Bench) -> None:
    bench.one.submit(put(bench.one.table, order(1)))
    bench.commit()

    answers = bench.two.submit(put(bench.two.table, order(2)))
    bench.settle()

    assert isinstance(answers[0][0], Applied)
    assert digest(bench.one.state) == digest(bench.two.state)


def test_a_close_answers_the_entry_in_flight_and_stops_following(bench: Bench) -> None:
    answers = bench.one.submit(put(bench.one.table, order(1)))
    closed: list[str] = []
    bench.one.worker.close(lambda: closed.append("closed"))
    assert [] == closed

    bench.commit()

    assert isinstance(answers[0][0], Applied)
    assert ["closed"] == closed
    assert bench.log.followers == [bench.two.follower]


def test_closing_does_not_wait_for_a_log_that_says_nothing(bench: Bench) -> None:
    answers = bench.one.submit(put(bench.one.table, order(1)))
    closed: list[str] = []
    bench.one.worker.close(lambda: closed.append("closed"))

    bench.loop.advance(SILENCE)

    assert isinstance(_error(answers), InternalServerError)
    assert ["closed"] == closed


def test_a_record_of_a_later_release_stops_the_worker(bench: Bench) -> None:
    newer = genesis_entry(b"memory log      ", 0, 1, level=LEVEL + 1)
    bench.log.connect(bench.loop.call_soon).append(0, Entry(bytes(16), 0, newer.commands), lambda _: None)
    # A Genesis has an effect only at the beginning: so the state has none.
    bench.commit()
    late = ReplicatedWorker(
        bench.log,
        PartitionState(next_offset=2),
        new_origin=lambda: bytes(16),
        scheduler=bench.loop,
        on_fatal=bench.two.fatal.append,
    )
    late.catch_up(lambda: None)
    bench.log.followers[-1].hear()
    bench.loop.settle()

    assert isinstance(bench.two.fatal[0], NewerVersionError)


def test_where_the_fold_raises_every_worker_stops_and_none_skips(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refold_module, "fold", _raise_a_bug)
    answers = bench.one.submit(put(bench.one.table, order(1)))
    bench.commit()
    bench.two.hear()

    assert isinstance(_error(answers), InternalServerError)
    for node in (bench.one, bench.two):
        assert isinstance(node.fatal[0], FoldError)


def test_a_void_command_is_skipped(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Skip is behind the record on which the fold raises, so the worker searches the rest of the log."""

    def raise_at_two(state: PartitionState, record: Record, void: Collection[Void] = ()) -> list[Outcome]:
        if record.offset == 2 and (2, None) not in void:
            raise KeyError("a bug")
        return fold(state, record, void)

    table = bench.one.table
    bench.one.submit(put(table, order(1)))
    bench.two.submit(put(table, order(2)))
    bench.settle()
    monkeypatch.setattr(refold_module, "fold", raise_at_two)
    stopped = Node(bench.log, bench.loop)
    stopped.hear()
    assert isinstance(stopped.fatal[0], FoldError)

    bench.log.append(0, Entry(b"an operator     ", 0, [Skip(2, None, CONTEXT)]), lambda _: None)
    bench.log.commit()
    late = Node(bench.log, bench.loop)
    late.hear()

    assert not late.fatal
    assert ["caught up"] == late.caught_up
    assert [b"o-2"] == [pk for _, pk, _, _ in late.table.items.scan()]


def _error(answers: Answers) -> Exception:
    [(outcome, _)] = answers
    assert isinstance(outcome, Failed)
    return outcome.error


def _raise_a_bug(*_: object) -> list[Outcome]:
    raise KeyError("a bug")
