"""The answers of a partition's feed while the changes are in memory."""

import random
from collections.abc import Sequence
from dataclasses import fields

import pytest

from foldb.log.memory_log import MemoryLog
from foldb.materializer.feed_requests import (
    Changes,
    CountChanges,
    FindSequenceNumber,
    ListShards,
    ReadChanges,
)
from foldb.materializer.fold.feed.capture import CapturePeriod
from foldb.materializer.fold.state import PartitionState
from foldb.materializer.refold import refold_log
from foldb.streams.feed import shards
from tests.unit.materializer.fake_loop import FakeLoop
from tests.unit.materializer.ledger import define
from tests.unit.streams.feed.bench import NO_STREAM, SHARD_MS, STREAM, Bench
from tests.unit.streams.feed.life import Life, make_small


@pytest.fixture
def bench() -> Bench:
    return Bench()


def keys(page: Changes) -> list[bytes]:
    return [change.pk for change in page.changes]


def test_a_reader_gets_each_change_once_and_in_order(bench: Bench) -> None:
    table = bench.create()
    for key in "abc":
        bench.put(table, key)
    bench.put(table, "b", n={"N": "1"})
    bench.delete(table, "a")

    page = bench.read(table)

    assert [b"a", b"b", b"c", b"b", b"a"] == keys(page)
    assert [None, None, None] == [change.old for change in page.changes[:3]]
    assert page.changes[1].new == page.changes[3].old
    assert page.changes[4].new is None
    assert page.changes[4].sequence_number <= page.next
    assert page.is_end


def test_a_write_that_changes_nothing_is_not_in_the_feed(bench: Bench) -> None:
    table = bench.create()
    bench.put(table, "a")
    bench.put(table, "a")
    bench.delete(table, "b")

    assert [b"a"] == keys(bench.read(table))


@pytest.mark.parametrize(("limits", "sizes"), [("modern", [3, 9]), ("2012", [0, 0])])
def test_sizes_of_2012_are_not_those_of_records(limits: str, sizes: list[int]) -> None:
    bench = Bench(MemoryLog(FakeLoop().clock, level=3, limits=limits))
    table = bench.create()
    bench.put(table, "a")
    bench.put(table, "a", n={"L": [{"S": "b"}]})

    [_, change] = bench.read(table).changes

    assert sizes == [change.old_size, change.new_size]


def test_a_table_without_a_stream_has_no_changes(bench: Bench) -> None:
    table = bench.create(BillingMode="PAY_PER_REQUEST")
    bench.put(table, "a")

    page = bench.read(table)

    assert [] == page.changes
    assert page.trim_horizon == page.next == bench.read(table, after=page.next).next


def test_a_full_page_is_continued_by_the_next(bench: Bench) -> None:
    table = bench.create()
    for key in "abcde":
        bench.put(table, key)

    first = bench.read(table, limit=2)
    second = bench.read(table, after=first.next, size=1)
    third = bench.read(table, after=second.next)

    assert ([b"a", b"b"], False) == (keys(first), first.is_end)
    assert ([b"c"], False) == (keys(second), second.is_end)
    assert ([b"d", b"e"], True) == (keys(third), third.is_end)


def test_a_disabled_stream_is_read_to_its_end(bench: Bench) -> None:
    """Changes of the next stream are not searched."""
    table = bench.create()
    bench.put(table, "a")
    label = bench.label(table)
    bench.define(table, NO_STREAM)
    bench.loop.advance(1)
    bench.define(table, STREAM)
    for n in range(5):
        bench.put(table, f"{n}")
    [ended, _] = bench.worker.state.periods[table]

    page = bench.read(table, stream=label)

    assert [b"a"] == keys(page)
    assert (ended.ended, True) == (page.next, page.is_end)


def test_a_waiting_read_is_answered_after_a_change(bench: Bench) -> None:
    table = bench.create()
    bench.put(table, "a")
    end = bench.read(table).next

    answers = bench.ask(ReadChanges(table, end, wait_ms=5000))
    assert [] == answers
    bench.put(table, "b")

    [page] = answers
    assert [b"b"] == keys(page)


def test_a_waiting_read_times_out_with_an_empty_page(bench: Bench) -> None:
    table = bench.create()
    other = bench.create("Other")
    end = bench.read(table).next

    answers = bench.ask(ReadChanges(table, end, wait_ms=5000))
    bench.put(other, "x")
    bench.loop.advance(4.9)
    assert [] == answers
    bench.loop.advance(0.2)

    [page] = answers
    assert [] == page.changes
    assert page.next > end


def test_a_reader_of_small_pages_is_not_woken_by_each_entry(bench: Bench) -> None:
    """A reader that came back for every change would take the time that writers need."""
    table = bench.create()
    pages: list[Changes] = []

    def ask(after: int) -> None:
        bench.partition.feed(ReadChanges(table, after, wait_ms=5000), lambda page, _: on_page(page))

    def on_page(page: Changes) -> None:
        pages.append(page)
        ask(page.next)

    ask(bench.read(table).next)
    for n in range(20):
        bench.put(table, f"k{n}")
    assert 1 == len(pages)
    bench.loop.advance(0.1)

    assert 2 == len(pages)
    assert 20 == sum(len(page.changes) for page in pages)


def test_a_closing_partition_answers_waiting_reads(bench: Bench) -> None:
    table = bench.create()
    answers = bench.ask(ReadChanges(table, bench.read(table).next, wait_ms=5000))

    bench.feed.close()

    [page] = answers
    assert [] == page.changes
    assert 1 == len(bench.ask(ReadChanges(table, page.next, wait_ms=5000)))


def test_a_disabled_stream_is_read_by_its_label_alone(bench: Bench) -> None:
    table = bench.create()
    first = bench.label(table)
    bench.put(table, "a")
    bench.define(table, NO_STREAM)
    bench.put(table, "b")
    bench.loop.advance(1)
    bench.define(table, STREAM)
    second = bench.label(table)
    bench.put(table, "c")

    assert [b"a"] == keys(bench.read(table, stream=first))
    assert [b"c"] == keys(bench.read(table, stream=second))
    assert [b"c"] == keys(bench.read(table))
    assert bench.read(table).trim_horizon == bench.read(table, stream=second).trim_horizon


@pytest.mark.parametrize("is_open", [True, False])
def test_ended_capture_periods_cost_a_write_nothing(
    is_open: bool, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are searched after a change of the definition, and not again."""
    looks: list[int] = []

    def notify(windows: Sequence[CapturePeriod], number: int) -> CapturePeriod | None:
        looks.append(len(windows))
        return window_of(windows, number)

    window_of = shards.window_of
    monkeypatch.setattr(shards, "window_of", notify)
    table = bench.create()
    for _ in range(3):
        bench.loop.advance(1)
        bench.define(table, NO_STREAM)
        bench.loop.advance(1)
        if is_open:
            bench.define(table, STREAM)
        for n in range(5):
            bench.put(table, f"k{n}", n={"N": str(bench.loop.clock())})

    assert ([2, 3, 4] if is_open else [1]) == looks
    assert (5 if is_open else 0) == len(bench.read(table).changes)


def test_the_changes_of_a_deleted_table_can_still_be_read(bench: Bench) -> None:
    table = bench.create()
    bench.put(table, "a")
    label, name = bench.label(table), {"TableName": "Orders"}
    bench.submit(define("DeleteTable", table, name))

    assert table not in bench.worker.state.tables
    assert [b"a"] == keys(bench.read(table)) == keys(bench.read(table, stream=label))


def test_a_read_of_a_deleted_table_does_not_wait(bench: Bench) -> None:
    table = bench.create()
    bench.put(table, "a")
    end = bench.read(table).next
    answers = bench.ask(ReadChanges(table, end, wait_ms=20_000))
    bench.submit(define("DeleteTable", table, {"TableName": "Orders"}))

    [page] = answers
    assert [] == page.changes
    assert 1 == len(bench.ask(ReadChanges(table, page.next, wait_ms=20_000)))


def test_shards_follow_log_time_and_contain_changes(bench: Bench) -> None:
    table = bench.create()
    label = bench.label(table)
    bench.put(table, "a")
    bench.loop.advance(2.5 * SHARD_MS / 1000)
    bench.put(table, "b")
    bench.put(table, "c")
    a, b, _ = bench.read(table).changes

    open_ = bench.answer(ListShards(table, label)).shards
    bench.define(table, NO_STREAM)
    closed = bench.answer(ListShards(table, label)).shards

    assert [0, 2] == [shard.nth for shard in open_]
    assert [label, label + 2 * SHARD_MS] == [shard.begun_ms for shard in open_]
    assert open_[0].first < a.sequence_number <= open_[0].last == b.sequence_number - 1
    assert (b.sequence_number, None) == (open_[1].first, open_[1].last)
    assert open_[0] == closed[0]
    assert closed[1].last is not None


def test_the_start_of_a_shard_survives_trims_and_restarts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first change of an open shard is trimmed, with the segments that had it."""
    make_small(monkeypatch)
    life = Life(random.Random(1), retention_ms=3 * SHARD_MS)
    table = life.create("T")

    def firsts() -> dict[int, int]:
        answer = life.ask(ListShards(table, life.books.labels[table]))
        return {shard.nth: shard.first for shard in answer.shards}

    life.fill(table, 150)
    before = firsts()
    life.stop()
    life.fill(table, 30)
    assert before == firsts()
    life.now += 2500
    life.fill(table, 75)
    life.sync()

    trimmed = firsts()
    assert {1, 4} <= trimmed.keys()
    assert before[1] == trimmed[1] < life.ask(ReadChanges(table, 0)).trim_horizon
    life.kill()
    assert trimmed == firsts()
    life.stop()
    assert trimmed == firsts()
    life.sync()
    life.fill(table, 20)
    assert before[1] == firsts()[1]


def test_a_sequence_number_is_found_by_time(bench: Bench) -> None:
    table = bench.create()
    for key in "abc":
        bench.loop.advance(1)
        bench.put(table, key)
    a, b, c = bench.read(table).changes

    def after(time_ms: int) -> int:
        number: int = bench.answer(FindSequenceNumber(table, time_ms)).after
        return number

    assert after(a.time) < a.sequence_number
    assert a.sequence_number == after(a.time + 1) == after(b.time)
    assert b.sequence_number == after(c.time)
    assert bench.read(table, after=c.sequence_number).next == after(2**62)


def test_changes_are_counted(bench: Bench) -> None:
    table = bench.create()
    for key in "abc":
        bench.put(table, key)
    a, b, c = bench.read(table).changes

    count = bench.answer(CountChanges(table, a.sequence_number))

    assert (2, b.time) == (count.changes, count.oldest_ms)
    assert 1 == bench.answer(CountChanges(table, a.sequence_number, b.sequence_number)).changes
    assert 0 == bench.answer(CountChanges(table, c.sequence_number)).changes


def test_a_second_fold_captures_changes_again(bench: Bench) -> None:
    """An operator has declared a record void: the log is folded again from the beginning."""
    table = bench.create()
    for key in "abc":
        bench.put(table, key)
    before = bench.read(table)

    bench.feed.begin_again()
    assert [] == bench.read(table).changes
    state = bench.worker.state
    fresh = PartitionState()
    for each in fields(PartitionState):
        setattr(state, each.name, getattr(fresh, each.name))
    refold_log(state, bench.log, 0, capture=bench.feed)

    assert before == bench.read(table)
