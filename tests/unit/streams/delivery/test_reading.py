"""The start and the end of a subscription, the changes that it reads, and its checkpoint."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from foldb.streams.sinks.sink import Failure, Success
from tests.unit.streams.delivery.stage import START_MS, FakePartition, Stage, key, lasting, settled
from tests.unit.streams.delivery.virtual import run


def trim(feed: FakePartition, kept: int) -> None:
    """Trim all but the last `kept` changes from the feed; the log has all."""
    feed.trim_horizon[1] = feed.changes[1][-kept - 1].sequence_number


async def test_trimmed_changes_are_read_from_the_log() -> None:
    stage = Stage({"Start": {"At": "BEGINNING"}})
    for nth in range(30):
        stage.feed.write(f"k{nth}")
    trim(stage.feed, kept=4)

    await settled(stage)

    assert [f"k{nth}" for nth in range(30)] == stage.keys()


async def test_a_start_at_the_horizon_skips_trimmed_changes() -> None:
    stage = Stage({"Start": {"At": "HORIZON"}})
    for nth in range(30):
        stage.feed.write(f"k{nth}")
    trim(stage.feed, kept=4)

    await settled(stage)

    assert [f"k{nth}" for nth in range(26, 30)] == stage.keys()


def test_a_checkpoint_below_the_trim_horizon_loses_nothing() -> None:
    stage = Stage()
    stage.feed.write("a")
    run(settled(stage))
    stage.crash()
    for nth in range(30):
        stage.feed.write(f"k{nth}")
    trim(stage.feed, kept=4)

    run(settled(stage))

    assert ["a", *[f"k{nth}" for nth in range(30)]] == stage.keys()


async def test_a_failed_read_of_the_past_continues_where_it_was() -> None:
    stage = Stage()
    for nth in range(30):
        stage.feed.write(f"k{nth}")
    trim(stage.feed, kept=4)
    stage.failing_past_reads = {2, 4}

    await settled(stage)

    assert [f"k{nth}" for nth in range(30)] == stage.keys()
    assert 6 + 2 == stage.past_reads
    assert not stage.ended


async def test_a_start_now_includes_writes_during_the_start() -> None:
    """The settings have the ends of the partitions before the first read, so every later change is read."""
    stage = Stage()
    stage.feed.write("before")
    stage = restarted(stage, {"Start": {"At": "NOW", "Numbers": {"0": str(stage.feed.end)}}})

    dispatcher = stage.dispatcher()
    stage.feed.write("meanwhile")
    dispatcher.start()
    stage.feed.write("after")
    await dispatcher.reach(stage.ends())
    await dispatcher.stop()

    assert ["meanwhile", "after"] == stage.keys()


def restarted(stage: Stage, settings: dict[str, Any]) -> Stage:
    """Return another subscription on the same feeds."""
    other = Stage(settings, stage.partitions, tables=stage.tables)
    other.feeds, other.feed = stage.feeds, stage.feed
    return other


@pytest.mark.parametrize("kept", [2, 8])
async def test_a_start_at_a_time_includes_all_later_changes(kept: int) -> None:
    stage = Stage({"Start": {"At": "TIME", "Time": START_MS + 5000}})
    for nth in range(10):
        stage.feed.time = START_MS + nth * 1000
        stage.feed.write(f"k{nth}")
    trim(stage.feed, kept)

    await settled(stage)

    assert [f"k{nth}" for nth in range(5, 10)] == stage.keys()


async def test_a_replay_stops_at_its_end() -> None:
    stage = Stage(
        {"Start": {"At": "TIME", "Time": START_MS + 2000}, "End": {"Time": START_MS + 6000}, "Replay": True}
    )
    for nth in range(10):
        stage.feed.time = START_MS + nth * 1000
        stage.feed.write(f"k{nth}")

    await lasting(stage, 60)

    assert [f"k{nth}" for nth in range(2, 7)] == stage.keys()
    assert all(call.batch.replay for call in stage.calls)
    assert ["done"] == stage.ended


@pytest.mark.parametrize("seed", range(10))
def test_a_snapshot_and_its_changes_have_no_gap_or_duplicate(seed: int) -> None:
    """The items at a sequence number and the changes after it make up the table.

    A process that ends in between continues from the item that it has reached.
    """
    stage = Stage(partitions=2, seed=seed)
    for _ in range(40):
        feed = stage.jitter.choice(list(stage.feeds.values()))
        feed.write(f"{feed.number}-{stage.jitter.randrange(12)}", body={"n": {"N": str(feed.offset)}})
    sequence_numbers = {str(number): str(feed.end) for number, feed in stage.feeds.items()}
    stage = restarted(stage, {"Start": {"At": "SNAPSHOT", "Numbers": sequence_numbers}, "BatchSize": 4})
    stage.seconds = lambda: 0.3

    async def cut_short() -> None:
        stage.started()
        await asyncio.sleep(stage.jitter.random() * 2)

    run(cut_short())
    stage.crash()
    for feed in stage.feeds.values():
        feed.write(f"{feed.number}-late")
    begun = dict(stage.subscription.checkpoints)
    run(settled(stage))

    reads = [each for life, each in stage.handled if each.change.is_read and life == 2]
    assert all(each.change.sequence_number > begun.get(each.partition, 0) for each in reads)
    latest = {each.change.pk: each.change.new for _, each in stage.handled}
    assert latest == {each.pk: each.new for feed in stage.feeds.values() for each in feed.changes[1]}
    changes = [key(each) for _, each in stage.handled if not each.change.is_read]
    assert sorted(["1-late", "2-late"]) == sorted(set(changes))


def test_a_dead_letter_of_a_snapshot_stays_one_after_a_crash() -> None:
    stage = Stage()
    for each in ("a", "b", "c"):
        stage.feed.write(each)
    start = {"At": "SNAPSHOT", "Numbers": {"0": str(stage.feed.end)}}
    stage = restarted(stage, {"Start": start, "MaximumRetryAttempts": 0, "BatchSize": 1})
    stage.judge = lambda batch: Failure("bad") if batch.changes[0].change.pk == b"a" else Success()
    run(settled(stage))
    stage.subscription = replace(stage.subscription, checkpoints={})  # a lost checkpoint
    stage.judge = lambda _: Success()
    stage.feed.write("a")
    run(settled(stage))

    assert ["b", "c", "b", "c"] == [key(each) for _, each in stage.handled]
    assert 2 == len(stage.dead()), "what was written later is behind it"


async def test_filtered_changes_move_the_checkpoint() -> None:
    stage = Stage({"Events": ["REMOVE"]})
    for nth in range(20):
        stage.feed.write(f"k{nth}")

    stage.started()
    await asyncio.sleep(1)

    assert not stage.calls
    assert stage.subscription.checkpoints[0] >= stage.feed.changes[1][-1].sequence_number
    assert 20 == stage.subscription.handled


async def test_two_subscriptions_both_get_every_change() -> None:
    first = Stage()
    second = restarted(first, {"BatchSize": 3})

    dispatchers = [first.dispatcher(), second.dispatcher()]
    for each in dispatchers:
        each.start()
    for nth in range(50):
        first.feed.write(f"k{nth}")
        await asyncio.sleep(0.003)
    for each in dispatchers:
        await each.reach(first.ends())
        await each.stop()

    assert [f"k{nth}" for nth in range(50)] == first.keys() == second.keys()


async def test_an_idle_subscription_only_polls() -> None:
    stage = Stage()
    stage.feed.write("a")

    stage.started()
    await asyncio.sleep(10)
    reads, checkpoints = stage.feed.reads, len(stage.checkpoints)
    for _ in range(100):
        stage.feed.pass_by()  # writes to other tables
        await asyncio.sleep(1)
    assert stage.feed.reads - reads <= 2 * (100 // 20 + 1)
    assert len(stage.checkpoints) == checkpoints


async def test_at_most_five_checkpoints_a_second_are_written() -> None:
    stage = Stage({"BatchSize": 1})
    for nth in range(300):
        stage.feed.write(f"k{nth}")

    dispatcher = stage.started()
    await dispatcher.reach(stage.ends())
    assert len(stage.checkpoints) <= asyncio.get_running_loop().time() * 5 + 1
    await dispatcher.stop()

    assert 300 == sum(each.handled for each in stage.checkpoints)


async def test_a_partial_batch_waits_at_most_its_window() -> None:
    stage = Stage({"MaximumBatchingWindowInSeconds": 10, "BatchSize": 3})
    stage.seconds = lambda: 0.0

    stage.started()
    await asyncio.sleep(1)
    for each in ("a", "b", "c"):
        stage.feed.write(each)
    await asyncio.sleep(1)
    assert [["a", "b", "c"]] == [[key(each) for each in call.batch.changes] for call in stage.calls]
    stage.feed.write("d")
    await asyncio.sleep(9)
    assert 1 == len(stage.calls)
    await asyncio.sleep(2)
    assert 2 == len(stage.calls)


async def test_several_tables_are_handled_to_the_same_end() -> None:
    """A table without writes does not hold back the checkpoint of a table with many."""
    stage = Stage(tables=(1, 2))

    stage.started()
    await asyncio.sleep(1)
    for nth in range(10):
        stage.feed.write(f"k{nth}")
    await asyncio.sleep(1)

    assert stage.subscription.checkpoints[0] >= stage.feed.changes[1][-1].sequence_number


@pytest.mark.guarantee("G47")
async def test_reading_ahead_of_a_slow_sink_is_bounded() -> None:
    stage = Stage({"BatchSize": 10})
    stage.seconds = lambda: 1e6
    stage.feed.page = 500
    for nth in range(12_000):
        stage.feed.write(f"k{nth}")

    stage.started()
    await asyncio.sleep(60)
    assert stage.feed.reads <= 10_000 / 500 + 2


async def test_a_subscription_of_a_deleted_table_ends_when_handled() -> None:
    stage = Stage()
    stage.feed.write("last words")
    stage.gone = {1}

    stage.started()
    await asyncio.sleep(60)

    assert ["last words"] == stage.keys()
    assert ["its tables are gone"] == stage.ended


def test_a_batch_under_way_at_a_stop_is_handled_once() -> None:
    stage = Stage(judge=lambda _: Success())
    stage.seconds = lambda: 1.0
    stage.feed.write("a")

    run(lasting(stage, 0.5))
    stage.crash()
    run(settled(stage))

    assert ["a"] == stage.keys()
