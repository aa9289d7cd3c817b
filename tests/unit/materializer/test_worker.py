"""The guarantees of a worker for its clients, on a log and a loop that the test controls."""

from collections.abc import Callable

import pytest

from foldb.log.commands import Command, Cut, Position, Settle, Transact
from foldb.log.memory_log import MemoryLog
from foldb.materializer import refold as refold_module
from foldb.materializer.fold.dump import digest
from foldb.materializer.fold.outcomes import Applied, Failed, Outcome, Refused
from foldb.materializer.fold.state import PartitionState, Table
from foldb.materializer.local_partition import LocalPartition
from foldb.materializer.long_reads import LongReads
from foldb.materializer.partition import OnPage, Page, QueryRequest, ScanRequest
from foldb.materializer.refold import FoldError
from foldb.materializer.worker import ENTRY_BYTES, ENTRY_STEPS, Worker
from foldb.model.errors import (
    AppendUnknownError,
    InternalServerError,
    RequestError,
    ResourceNotFoundError,
    ServiceUnavailableError,
    ThrottlingError,
)
from tests.unit.materializer.fake_loop import FakeLoop
from tests.unit.materializer.ledger import CONTEXT, define, put, table_request


class Bench:
    """A worker on a log in memory that becomes durable when the test says so."""

    def __init__(
        self,
        log: MemoryLog | None = None,
        waiting_bytes: int = 1 << 26,
        draw_salt: Callable[[], bytes] | None = None,
    ) -> None:
        self.loop = FakeLoop()
        self.log = log or MemoryLog(self.loop.clock, manual=True)
        self.fatal: list[BaseException] = []
        self.worker = Worker(
            self.log,
            PartitionState(),
            origin=b"%016d" % self.log.end(0),
            scheduler=self.loop,
            waiting_bytes=waiting_bytes,
            draw_salt=draw_salt,
            on_fatal=self.fatal.append,
        )
        self.worker.open()

    def submit(self, command: Command, size: int = 100) -> list[tuple[Outcome, Position | Cut]]:
        """Submit, and return the list that receives the answer."""
        answers: list[tuple[Outcome, Position | Cut]] = []
        self.worker.submit(command, size, lambda outcome, position: answers.append((outcome, position)))
        return answers

    def run(self) -> None:
        """Make all pending entries durable."""
        self.loop.settle()
        while self.log.commit():
            self.loop.settle()

    def table(self, name: str = "Orders") -> Table:
        self.submit(define("CreateTable", 0, table_request(name)))
        self.run()
        return next(iter(self.worker.state.tables.values()))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def error_of(answers: list[tuple[Outcome, Position | Cut]]) -> RequestError:
    [(outcome, _)] = answers
    assert isinstance(outcome, Failed)
    return outcome.error


def order(number: int) -> dict[str, dict[str, str]]:
    return {"pk": {"S": f"o-{number}"}}


@pytest.mark.guarantee("G21")
def test_nothing_is_answered_or_seen_before_it_is_durable(bench: Bench) -> None:
    table = bench.table()

    answers = bench.submit(put(table, order(1)))
    bench.loop.settle()
    assert ([], 0) == (answers, table.items.count)

    bench.log.commit()
    assert isinstance(answers[0][0], Applied)
    assert table.items.count == 1


def test_commands_of_one_turn_of_the_loop_are_one_entry(bench: Bench) -> None:
    table = bench.table()

    answers = [bench.submit(put(table, order(number))) for number in range(3)]
    bench.run()

    assert [Position(0, 2, 0), Position(0, 2, 1), Position(0, 2, 2)] == [here for [(_, here)] in answers]


@pytest.mark.parametrize(("level", "salt"), [(4, None), (5, b"salt of an entry")])
def test_entries_have_a_salt_from_level_5_on(level: int, salt: bytes | None) -> None:
    """Below it nodes of the release before read the log, and its schema has no salt."""
    log = MemoryLog(lambda: 0, manual=True, level=level)
    bench = Bench(log, draw_salt=lambda: b"salt of an entry")

    bench.table()

    assert salt == list(log.read(0))[-1].entry.salt


def test_log_time_can_pass_a_clock_that_was_set_back(bench: Bench) -> None:
    """Only the entry of the Barrier names its time; the next ones keep log time."""
    bench.table()
    ahead = bench.worker.state.log_time + 5
    bench.worker.advance_time(ahead, lambda *_: None)
    bench.run()
    bench.submit(put(next(iter(bench.worker.state.tables.values())), {"pk": {"S": "a"}}))
    bench.run()

    assert ahead == bench.worker.state.log_time
    assert [ahead, None] == [record.entry.time for record in bench.log.read(0)][-2:]


def test_commands_during_an_append_are_the_next_entry(bench: Bench) -> None:
    table = bench.table()
    first = bench.submit(put(table, order(1)))
    bench.loop.settle()

    later = [bench.submit(put(table, order(number))) for number in (2, 3)]
    bench.loop.settle()
    assert bench.log.waiting == 1, "one entry under way, no more"

    bench.run()
    assert [Position(0, 2, 0)] == [position for _, position in first]
    assert [Position(0, 3, 0), Position(0, 3, 1)] == [here for [(_, here)] in later]


def test_commands_sent_on_a_reply_are_in_the_next_entry(bench: Bench) -> None:
    table = bench.table()
    again: list[list[tuple[Outcome, Position | Cut]]] = []

    def send_again(*_: object) -> None:
        again.append(bench.submit(put(table, order(9))))

    bench.worker.submit(put(table, order(1)), 100, send_again)
    bench.loop.settle()
    waiting = bench.submit(put(table, order(2)))
    bench.run()

    assert Position(0, 3, 0) == waiting[0][1]
    assert Position(0, 3, 1) == again[0][0][1]


def test_an_entry_has_a_bounded_number_of_commands(bench: Bench) -> None:
    table = bench.table()

    answers = [bench.submit(put(table, order(number)), size=1) for number in range(ENTRY_STEPS + 1)]
    bench.run()

    assert Position(0, 2, ENTRY_STEPS - 1) == answers[ENTRY_STEPS - 1][0][1]
    assert Position(0, 3, 0) == answers[ENTRY_STEPS][0][1]


def test_a_transaction_counts_in_an_entry_as_its_actions(bench: Bench) -> None:
    """Folding an entry is one turn of the loop."""
    table = bench.table()
    actions = [put(table, order(number)) for number in range(100)]

    answers = [bench.submit(Transact(actions, CONTEXT), size=1) for _ in range(12)]
    bench.run()

    places = [position for [(_, position)] in answers]
    assert [2] * 5 + [3] * 5 + [4] * 2 == [place.offset for place in places if isinstance(place, Position)]


def test_an_entry_has_a_bounded_size_or_is_one_larger_command(bench: Bench) -> None:
    table = bench.table()
    sizes = [ENTRY_BYTES - 10, 10, 1, ENTRY_BYTES * 3, 1]

    answers = [bench.submit(put(table, order(number)), size) for number, size in enumerate(sizes)]
    bench.run()

    places = [(2, 0), (2, 1), (3, 0), (4, 0), (5, 0)]
    assert [Position(0, *place) for place in places] == [here for [(_, here)] in answers]


@pytest.mark.guarantee("G49", "SEC17")
def test_past_the_bound_a_command_is_throttled_and_leaves_no_trace() -> None:
    bench = Bench(waiting_bytes=250)
    table = bench.table()

    taken = [bench.submit(put(table, order(number))) for number in range(2)]
    refused = bench.submit(put(table, order(2)))
    assert isinstance(error_of(refused), ThrottlingError)

    bench.run()
    assert all(isinstance(answers[0][0], Applied) for answers in taken)
    assert table.items.count == 2
    assert bench.worker.statistics().waiting_bytes == 0


def test_a_command_larger_than_the_bound_is_taken_when_nothing_waits() -> None:
    bench = Bench(waiting_bytes=250)
    table = bench.table()

    answers = bench.submit(put(table, order(1)), size=1000)
    bench.run()

    assert isinstance(answers[0][0], Applied)


def test_a_full_disk_fails_only_the_commands_of_the_entry(bench: Bench) -> None:
    table = bench.table()
    failed = bench.submit(put(table, order(1)))
    bench.loop.settle()
    next_one = bench.submit(put(table, order(2)))

    bench.log.fail()
    bench.run()

    assert isinstance(error_of(failed), ServiceUnavailableError)
    assert next_one[0][1] == Position(0, 2, 0)
    assert [b"o-2"] == [pk for _, pk, _, _ in table.items.scan()]
    assert not bench.fatal


def test_the_number_of_an_entry_that_did_not_fit_is_used_again(bench: Bench) -> None:
    table = bench.table()
    bench.submit(put(table, order(1)))
    bench.loop.settle()
    bench.log.fail()
    bench.submit(put(table, order(2)))
    bench.run()

    # A gap in the entry numbers would make every later entry stale, here and on every refold.
    assert digest(Bench(bench.log).worker.state) == digest(bench.worker.state)
    assert Bench(bench.log).worker.state.tables[table.definition.id].items.count == 1


@pytest.mark.parametrize("written", [True, False])
def test_an_append_of_unknown_fate_stops_the_worker(bench: Bench, written: bool) -> None:
    table = bench.table()
    unknown = bench.submit(put(table, order(1)))
    bench.loop.settle()
    waiting = bench.submit(put(table, order(2)))

    bench.log.fail(AppendUnknownError("fsync failed"), written=written)
    late = bench.submit(put(table, order(3)))
    bench.loop.settle()

    assert isinstance(error_of(unknown), InternalServerError), "it may have happened"
    assert isinstance(error_of(waiting), ServiceUnavailableError), "it has not happened"
    assert isinstance(error_of(late), ServiceUnavailableError)
    assert isinstance(bench.fatal[0], AppendUnknownError)
    assert bench.worker.statistics().stopped


def test_a_worker_that_stopped_can_be_closed(bench: Bench) -> None:
    table = bench.table()
    bench.submit(put(table, order(1)))
    bench.loop.settle()
    bench.log.fail(AppendUnknownError("fsync failed"))
    closed: list[str] = []

    bench.worker.close(lambda: closed.append("closed"))

    assert ["closed"] == closed


def test_a_restart_finds_exactly_the_written_entries(bench: Bench) -> None:
    table = bench.table()
    for number in range(5):
        bench.submit(put(table, order(number)))
        bench.run()

    restarted = Bench(bench.log)

    assert digest(restarted.worker.state) == digest(bench.worker.state)
    assert restarted.worker.position == bench.worker.position
    assert restarted.worker.statistics().refolded == 7


def test_a_restarted_worker_goes_on_where_the_log_ends(bench: Bench) -> None:
    bench.table()
    restarted = Bench(bench.log)
    table = next(iter(restarted.worker.state.tables.values()))

    answers = restarted.submit(put(table, order(1)))
    restarted.run()

    assert isinstance(answers[0][0], Applied)
    assert answers[0][1] == Position(0, 2, 0)


def test_a_fold_that_raises_stops_the_worker_at_its_position(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = bench.table()
    monkeypatch.setattr(refold_module, "fold", _raise_a_bug)

    answers = bench.submit(put(table, order(1)))
    bench.run()

    assert isinstance(error_of(answers), InternalServerError)
    assert isinstance(bench.fatal[0], FoldError)
    assert bench.fatal[0].position == Position(0, 2)


def test_a_refold_stops_at_a_record_that_it_cannot_fold(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.table()
    monkeypatch.setattr(refold_module, "fold", _raise_a_bug)

    with pytest.raises(FoldError, match="position 0"):
        Bench(bench.log)


def _break() -> None:
    raise KeyError("a bug")


def _raise_a_bug(*_: object) -> list[Outcome]:
    raise KeyError("a bug")


def test_a_sender_that_breaks_leaves_the_others_their_answers(bench: Bench) -> None:
    table = bench.table()
    bench.worker.submit(put(table, order(1)), 100, lambda *_: _break())
    answers = bench.submit(put(table, order(2)))
    bench.loop.settle()

    bench.log.commit()

    assert isinstance(answers[0][0], Applied)
    with pytest.raises(KeyError, match="a bug"):
        bench.loop.settle()  # the loop reports it
    assert not bench.worker.statistics().stopped


def test_a_command_that_cannot_be_encoded_fails_alone(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug of one command: the other commands of its entry may be repeated, and no client waits forever."""
    table = bench.table()
    append = bench.log.append
    monkeypatch.setattr(bench.log, "append", lambda *_: _break())
    refused = bench.submit(put(table, order(1)))
    with pytest.raises(KeyError, match="a bug"):
        bench.loop.settle()  # the loop reports it

    monkeypatch.setattr(bench.log, "append", append)
    answers = bench.submit(put(table, order(2)))
    bench.run()

    assert isinstance(error_of(refused), InternalServerError)
    assert isinstance(answers[0][0], Applied)
    assert bench.worker.statistics().waiting_bytes == 0


@pytest.mark.guarantee("G9")
def test_a_close_answers_accepted_commands_and_refuses_new_ones(bench: Bench) -> None:
    table = bench.table()
    taken = bench.submit(put(table, order(1)))
    closed: list[str] = []

    bench.worker.close(lambda: closed.append("closed"))
    late = bench.submit(put(table, order(2)))
    assert not closed

    bench.run()
    assert isinstance(taken[0][0], Applied)
    assert isinstance(error_of(late), ServiceUnavailableError)
    assert ["closed"] == closed


def test_closing_an_idle_worker_is_done_at_once(bench: Bench) -> None:
    closed: list[str] = []

    bench.worker.close(lambda: closed.append("closed"))

    assert ["closed"] == closed


def test_a_worker_says_how_it_is(bench: Bench) -> None:
    table = bench.table()
    bench.submit(put(table, order(1)))
    bench.run()
    bench.submit(put(table, order(2)), size=70)

    statistics = bench.worker.statistics()

    assert statistics.position == Position(0, 2)
    assert statistics.log_time == bench.loop.clock()
    assert (statistics.waiting, statistics.waiting_bytes) == (1, 70)
    assert (statistics.entries, statistics.commands, statistics.refolded) == (2, 2, 1)
    assert (statistics.tables, statistics.items, statistics.item_bytes) == (1, 1, 5)
    assert not statistics.stopped


def test_a_bug_behind_the_fold_stops_the_worker(bench: Bench) -> None:
    """All clients are answered, and the process is notified; a worker that hangs would do neither."""
    table = bench.table()
    bench.worker.after_answers.add(lambda _: _break())

    first, second = bench.submit(put(table, order(1))), bench.submit(put(table, order(2)))
    bench.run()

    assert isinstance(first[0][0], Applied)
    assert isinstance(second[0][0], Applied)
    assert isinstance(bench.fatal[0], KeyError)
    assert isinstance(error_of(bench.submit(put(table, order(3)))), ServiceUnavailableError)


def test_timers_see_an_entry_after_its_clients_are_answered(bench: Bench) -> None:
    order_of_calls: list[str] = []
    bench.worker.after_answers.add(lambda _: order_of_calls.append("timers"))

    bench.worker.submit(Settle(1, CONTEXT), 10, lambda *_: order_of_calls.append("sender"))
    bench.run()

    assert ["sender", "timers"] == order_of_calls


def local(bench: Bench) -> LocalPartition:
    return LocalPartition(bench.worker, long_reads=LongReads(bench.loop))


class TestLocalPartition:
    """Reads are answered before the call returns, at the position of the last entry."""

    def test_get_answers_with_the_item_or_none(self, bench: Bench) -> None:
        table = bench.table()
        bench.submit(put(table, order(1)))
        bench.run()
        partition, seen = local(bench), []
        known = table.definition.id

        for key in [(known, b"o-1", b""), (known, b"o-2", b""), (known + 1, b"o-1", b"")]:
            partition.get(*key, True, lambda *answer: seen.append(answer))

        at = Position(0, 2)
        assert [((b'{"pk":{"S":"o-1"}}', 5), at), (None, at), (None, at)] == seen

    def test_get_all_answers_in_the_order_of_the_keys(self, bench: Bench) -> None:
        table = bench.table()
        bench.submit(put(table, order(1)))
        bench.run()
        partition, seen = local(bench), []
        known = table.definition.id

        keys = [(known, b"o-2", b""), (known, b"o-1", b""), (known + 1, b"o-1", b"")]
        partition.get_all(keys, True, lambda items, position: seen.extend([items, position]))

        assert [[None, (b'{"pk":{"S":"o-1"}}', 5), None], Position(0, 2)] == seen

    @pytest.mark.parametrize("read", ["query", "scan"])
    def test_a_page_or_an_error_comes_with_the_position(self, bench: Bench, read: str) -> None:
        table = bench.table()
        bench.submit(put(table, order(1)))
        bench.run()
        pages: list[tuple[Page | RequestError, Position]] = []

        for table_id in (table.definition.id, table.definition.id + 1):
            _read(
                local(bench),
                read,
                table_id,
                lambda *answer: pages.append(answer),
            )

        assert isinstance(pages[0][0], Page)
        assert [b'{"pk":{"S":"o-1"}}'] == pages[0][0].items
        assert isinstance(pages[1][0], ResourceNotFoundError)
        assert {Position(0, 2)} == {position for _, position in pages}

    def test_a_refused_write_has_a_position_too(self, bench: Bench) -> None:
        table = bench.table()
        seen: list[tuple[Outcome, Position | Cut]] = []

        command = put(table, order(1), when="attribute_exists(pk)")
        local(bench).submit(command, 10, lambda *answer: seen.append(answer))
        bench.run()

        assert isinstance(seen[0][0], Refused)
        assert seen[0][1] == Position(0, 2, 0)


def _read(
    partition: LocalPartition,
    read: str,
    table: int,
    done: OnPage,
) -> None:
    if read == "query":
        partition.query(QueryRequest(table, None, b"o-1", b"", None), done)
    else:
        partition.scan(ScanRequest(table, None), done)
