"""What brings a subscription to its end, and that nothing is passed over by it."""

import asyncio
from typing import Any

import pytest

from foldb.streams.sinks.sink import Batch, DeliveryResult, Success, Unsubscribed
from tests.unit.streams.delivery.stage import Past, Stage, key


@pytest.mark.parametrize("verdict", [Unsubscribed("410 Gone"), "no verdict"], ids=["gone", "unforeseen"])
async def test_what_is_written_before_a_subscription_is_stopped_does_not_have_it_go_on(verdict: Any) -> None:
    """What it has not handled is not behind the checkpoint: whoever resumes it is to find it."""
    stage = Stage()

    def judge(_: Batch) -> DeliveryResult:
        stage.judge = lambda _: Success()
        stage.feed.write("b")
        return verdict  # type: ignore[no-any-return]

    stage.judge = judge
    first = stage.feed.write("a")

    dispatcher = stage.started()
    await asyncio.sleep(60)
    assert first.sequence_number > dispatcher.checkpoints()[0]
    await dispatcher.stop()

    assert [["a"]] == stage.called_with()
    assert 1 == len(stage.ended)
    assert not stage.checkpoints


async def test_a_call_that_somebody_else_cut_off_has_failed_and_is_made_again() -> None:
    """Whatever a sink waited for may be cancelled with somebody else who waited for it; the lane is not over then."""
    stage = Stage()

    def judge(_: Batch) -> DeliveryResult:
        stage.judge = lambda _: Success()
        stage.feed.write("b")
        raise asyncio.CancelledError

    stage.judge = judge
    stage.feed.write("a")

    dispatcher = stage.started()
    await dispatcher.reach(stage.ends())
    await dispatcher.stop()

    assert ["a", "b"] == stage.keys()
    assert [1, 2] == [call.batch.attempt for call in stage.calls if "a" in map(key, call.batch.changes)]


async def test_of_a_table_that_is_long_gone_the_log_is_read_once_whatever_others_write() -> None:
    """Its changes are kept no more, and by what was folded since, there is more and more that is not kept."""
    stage = Stage(tables=(1, 2))
    stage.feed.write("last words")
    stage.gone = stage.feed.let_go = {1}

    dispatcher = stage.started()
    for nth in range(100):
        stage.feed.write(f"k{nth}", table=2)
        await asyncio.sleep(1)
    await asyncio.wait_for(dispatcher.reach(stage.ends()), 60)
    assert stage.ends() == dispatcher.checkpoints()
    stage.gone = {1, 2}
    await asyncio.sleep(60)

    assert {"last words", *(f"k{nth}" for nth in range(100))} == set(stage.keys())
    assert 1 == stage.pasts
    assert ["its tables are gone"] == stage.ended


async def test_what_was_written_last_before_a_table_went_is_delivered() -> None:
    """Between an answer of the feed and what is done with it there may be writes, and then the end of the table."""
    stage = Stage()

    stage.started()
    await asyncio.sleep(1)
    stage.feed.write("a")  # answers who waits
    stage.feed.write("last words")
    stage.gone = {1}
    await asyncio.sleep(60)

    assert ["a", "last words"] == stage.keys()
    assert ["its tables are gone"] == stage.ended


async def test_what_was_written_while_the_past_was_read_is_delivered_though_the_table_went_meanwhile() -> (
    None
):
    stage = Stage()
    for each in ("a", "b"):
        stage.feed.write(each)
    stage.feed.trim_horizon[1] = stage.feed.end
    past = stage.changes

    def meanwhile(partition: int, table: int, after: int, until: int) -> Past:
        stage.feed.write("last words")
        stage.gone = {1}
        return past(partition, table, after, until)

    stage.changes = meanwhile  # type: ignore[method-assign]

    stage.started()
    await asyncio.sleep(60)

    assert ["a", "b", "last words"] == stage.keys()
    assert ["its tables are gone"] == stage.ended


async def test_a_replay_of_what_is_not_kept_any_more_ends_with_its_past() -> None:
    stage = Stage()
    stage.feed.write("a")
    end = stage.feed.end
    stage = Stage({"End": {"Numbers": {"0": str(end)}}})
    stage.feed.write("a")
    stage.feed.pass_by()
    stage.feed.let_go = {1}

    stage.started()
    for _ in range(100):
        stage.feed.pass_by()
        await asyncio.sleep(1)

    assert ["a"] == stage.keys()
    assert 1 == stage.pasts
    assert ["done"] == stage.ended


async def test_a_partition_that_is_away_does_not_keep_a_subscription_from_being_stopped() -> None:
    """A checkpoint looks at tables to which nothing was written; where there is no answer it does without."""
    stage = Stage(partitions=2, tables=(1, 2))
    feed = stage.feeds[1]

    dispatcher = stage.started()
    await asyncio.sleep(1)
    written = feed.write("a")
    await asyncio.sleep(0.1)
    feed.is_away = True
    await asyncio.sleep(10)
    assert ["a"] == stage.keys()
    assert 1 == stage.subscription.handled
    await asyncio.wait_for(dispatcher.stop(), 60)
    assert stage.subscription.checkpoints.get(1, 0) < written.sequence_number


async def test_who_waits_for_progress_looks_again_at_a_partition_that_comes_back() -> None:
    stage = Stage()

    dispatcher = stage.started()
    await asyncio.sleep(1)
    stage.feed.pass_by()  # nothing for who reads already
    stage.feed.is_away = True
    reaching = asyncio.create_task(dispatcher.reach(stage.ends()))
    await asyncio.sleep(1)
    stage.feed.is_away = False
    await asyncio.wait_for(reaching, 1)
