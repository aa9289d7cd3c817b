"""The end of a subscription, which skips no change."""

import asyncio
from typing import Any

import pytest

from foldb.log.commands import Position
from foldb.model.errors import TrimmedDataAccessError
from foldb.streams.sinks.sink import Batch, DeliveryResult, Success, Unsubscribed
from tests.unit.streams.delivery.stage import Stage, key


@pytest.mark.parametrize("result", [Unsubscribed("410 Gone"), "no result"], ids=["gone", "unforeseen"])
async def test_a_write_before_the_stop_does_not_restart_delivery(result: Any) -> None:
    """The new change is not below the checkpoint, so a resumed subscription reads it."""
    stage = Stage()

    def judge(_: Batch) -> DeliveryResult:
        stage.judge = lambda _: Success()
        stage.feed.write("b")
        return result  # type: ignore[no-any-return]

    stage.judge = judge
    first = stage.feed.write("a")

    dispatcher = stage.started()
    await asyncio.sleep(60)
    assert first.sequence_number > dispatcher.checkpoints()[0]
    await dispatcher.stop()

    assert [["a"]] == stage.called_with()
    assert 1 == len(stage.ended)
    assert not stage.checkpoints


async def test_a_call_that_another_task_cancelled_is_retried() -> None:
    """Another waiter may cancel the future that a sink waits for; that does not end the lane."""
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


async def test_the_history_of_a_deleted_table_is_read_once() -> None:
    """Its changes are trimmed, and each folded record moves the trim horizon further."""
    stage = Stage(tables=(1, 2))
    stage.feed.write("last words")
    stage.gone = stage.feed.trimmed_tables = {1}

    dispatcher = stage.started()
    for nth in range(100):
        stage.feed.write(f"k{nth}", table=2)
        await asyncio.sleep(1)
    await asyncio.wait_for(dispatcher.reach(stage.ends()), 60)
    assert stage.ends() == dispatcher.checkpoints()
    stage.gone = {1, 2}
    await asyncio.sleep(60)

    assert {"last words", *(f"k{nth}" for nth in range(100))} == set(stage.keys())
    assert 1 == stage.past_reads
    assert ["its tables are gone"] == stage.ended


async def test_the_last_write_before_a_table_is_deleted_is_delivered() -> None:
    """Between the feed's answer and its processing there may be writes, and then the end of the table."""
    stage = Stage()

    stage.started()
    await asyncio.sleep(1)
    stage.feed.write("a")  # answers the waiting read
    stage.feed.write("last words")
    stage.gone = {1}
    await asyncio.sleep(60)

    assert ["a", "last words"] == stage.keys()
    assert ["its tables are gone"] == stage.ended


async def test_a_write_during_the_history_of_a_deleted_table_arrives() -> None:
    stage = Stage()
    for each in ("a", "b"):
        stage.feed.write(each)
    stage.feed.trim_horizon[1] = stage.feed.end
    read_past = stage.feed.as_of

    def write_and_read(*read: Any) -> None:
        stage.feed.write("last words")
        stage.gone = {1}
        read_past(*read)

    stage.feed.as_of = write_and_read

    stage.started()
    await asyncio.sleep(60)

    assert ["a", "b", "last words"] == stage.keys()
    assert ["its tables are gone"] == stage.ended


async def test_a_replay_of_trimmed_changes_ends_with_its_history() -> None:
    stage = Stage()
    stage.feed.write("a")
    end = stage.feed.end
    stage = Stage({"End": {"Numbers": {"0": str(end)}}})
    stage.feed.write("a")
    stage.feed.pass_by()
    stage.feed.trimmed_tables = {1}

    stage.started()
    for _ in range(100):
        stage.feed.pass_by()
        await asyncio.sleep(1)

    assert ["a"] == stage.keys()
    assert 1 == stage.past_reads
    assert ["done"] == stage.ended


async def test_trimmed_changes_stop_a_subscription_with_the_reason() -> None:
    """A trim respects checkpoints, but not those of a subscription that is restored with an older log."""
    stage = Stage()
    stage.feed.write("a")
    stage.feed.trim_horizon[1] = stage.feed.end
    horizon = "The history of this database begins at position 9."
    stage.feed.as_of = lambda _, __, done: done(TrimmedDataAccessError(horizon), Position(0, 9))

    stage.started()
    await asyncio.sleep(60)

    [reason] = stage.ended
    assert f"changes of partition 0 were trimmed before they were delivered: {horizon}" in reason
    assert [] == stage.keys()


async def test_an_unavailable_partition_does_not_delay_a_stop() -> None:
    """A checkpoint polls tables without writes; if the poll fails, it is written without them."""
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


async def test_a_wait_for_progress_polls_a_returning_partition() -> None:
    stage = Stage()

    dispatcher = stage.started()
    await asyncio.sleep(1)
    stage.feed.pass_by()  # no change for the waiting read
    stage.feed.is_away = True
    reaching = asyncio.create_task(dispatcher.reach(stage.ends()))
    await asyncio.sleep(1)
    stage.feed.is_away = False
    await asyncio.wait_for(reaching, 1)
