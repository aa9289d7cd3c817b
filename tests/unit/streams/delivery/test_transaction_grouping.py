"""Transactions that are delivered together, complete, and in the order of their actions."""

import asyncio

import pytest

from foldb.materializer.feed_requests import FeedRequest, OnFed, ReadChanges
from foldb.materializer.fold.outcomes import Tx
from foldb.streams.sinks.sink import Batch, DeliveryResult, Failure, PartialFailure, Success
from tests.unit.streams.delivery.stage import FakePartition, Stage, key, lasting, settled
from tests.unit.streams.delivery.virtual import run

TOGETHER = {"Transactions": "together"}


def in_one_step(feed: FakePartition, *keys: str) -> None:
    """Write a transaction of one partition, which is one command."""
    feed.pass_by()
    feed.is_folding = True
    name = f"{feed.number}:{feed.offset}.0" if feed.number else f"{feed.offset}.0"
    for nth, each in enumerate(keys):
        feed.write_on(each, nth=nth, tx=Tx(name, nth, len(keys)))
    feed.is_folding = False
    feed.wake()


async def test_a_transaction_is_a_batch_of_its_own() -> None:
    stage = Stage(TOGETHER)
    stage.feed.write("a")
    in_one_step(stage.feed, "x", "y", "z")
    stage.feed.write("b")
    stage.feed.write("c")

    await settled(stage)

    assert [["a"], ["x", "y", "z"], ["b", "c"]] == stage.called_with()


async def test_a_transaction_may_exceed_the_batch_size() -> None:
    stage = Stage({**TOGETHER, "BatchSize": 2})
    in_one_step(stage.feed, *(f"k{nth}" for nth in range(25)))

    await settled(stage)

    assert [25] == [len(call) for call in stage.called_with()]


async def test_changes_of_partitions_arrive_in_order_of_the_actions() -> None:
    stage = Stage(TOGETHER, partitions=2)
    one, two = stage.feeds.values()

    dispatcher = stage.started()
    one.write("x", tx=Tx("1:7.0", 1, 2))
    one.write("x")  # waits behind the transaction
    one.write("other")  # does not wait
    await asyncio.sleep(0.5)
    assert [["other"]] == stage.called_with()
    two.write("y", tx=Tx("1:7.0", 0, 2))
    await dispatcher.reach(stage.ends())
    await dispatcher.stop()

    assert [["other"], ["y", "x"], ["x"]] == stage.called_with()


async def test_a_transaction_with_other_tables_is_released() -> None:
    stage = Stage(TOGETHER, partitions=2)
    one, _ = stage.feeds.values()
    one.write("x", tx=Tx("2:9.0", 0, 3))

    await settled(stage)

    assert [["x"]] == stage.called_with()


async def test_the_changes_of_one_command_are_released_at_once() -> None:
    """Its other changes belong to a table that the subscription does not read, so it need not wait for them."""
    stage = Stage(TOGETHER)
    stage.feed.pass_by()
    for nth, each in enumerate("xy"):
        stage.feed.write_on(each, nth=nth, tx=Tx(f"{stage.feed.offset}.0", nth, 5))  # before any read

    await settled(stage)
    assert asyncio.get_running_loop().time() < 0.5

    assert [["x", "y"]] == stage.called_with()


async def test_a_deleted_table_does_not_delay_a_transaction() -> None:
    stage = Stage(TOGETHER, tables=(1, 2))
    stage.gone = {1}
    stage.feed.pass_by()
    stage.feed.write_on("x", table=2, tx=Tx(f"{stage.feed.offset}.0", 0, 5))

    stage.started()
    await asyncio.sleep(1)
    stage.feed.pass_by()
    stage.feed.write_on("y", table=2, tx=Tx(f"{stage.feed.offset}.0", 0, 5))
    await asyncio.sleep(60)

    assert [["x"], ["y"]] == stage.called_with()


async def test_an_error_of_a_poll_for_a_transaction_stops_delivery() -> None:
    stage = Stage(TOGETHER, tables=(1, 2))
    read = stage.feed.feed

    def trip(request: FeedRequest, done: OnFed) -> None:
        if isinstance(request, ReadChanges) and request.limit == 1:
            raise ValueError("nobody thought of it")
        read(request, done)

    stage.feed.feed = trip  # type: ignore[method-assign]
    stage.feed.pass_by()
    stage.feed.write_on("x", tx=Tx(f"{stage.feed.offset}.0", 0, 5))

    await lasting(stage, 1)

    assert ["it cannot go on: ValueError('nobody thought of it')"] == stage.ended


async def test_a_failed_transaction_is_dead_lettered_as_a_whole() -> None:
    def judge(batch: Batch) -> DeliveryResult:
        bad = next((each for each in batch.changes if key(each) == "y"), None)
        return Success() if bad is None else PartialFailure(bad.partition, bad.change.sequence_number, "bad")

    stage = Stage({**TOGETHER, "MaximumRetryAttempts": 1}, judge=judge)
    in_one_step(stage.feed, "x", "y", "z")
    stage.feed.write("a")

    await settled(stage)

    assert [["x", "y", "z"], ["x", "y", "z"], ["a"]] == stage.called_with()
    assert 3 == len(stage.dead())


async def test_a_transaction_is_whole_behind_a_dead_letter() -> None:
    """If one change waits for an older dead letter of its key, the whole transaction does, with its other keys."""
    stage = Stage({**TOGETHER, "MaximumRetryAttempts": 0})
    stage.judge = lambda batch: Failure("bad") if "a" in map(key, batch.changes) else Success()
    in_one_step(stage.feed, "a", "b")
    in_one_step(stage.feed, "b", "c")
    stage.feed.write("c")
    stage.feed.write("d")

    await settled(stage)

    assert [["a", "b"], ["d"]] == stage.called_with()
    first = next(iter(stage.dead())) + 1  # the sequence number of b
    assert {"bad", f"waits for sequence number {first}"} <= {
        dead_letter.error for own in stage.dead_letters.values() for dead_letter in own.values()
    }
    assert 5 == len(stage.dead())


async def test_a_filter_keeps_the_rest_of_a_transaction_together() -> None:
    stage = Stage(
        {
            **TOGETHER,
            "Filter": {"Expression": "NEW.pk <> :y", "ExpressionAttributeValues": {":y": {"S": "y"}}},
        }
    )
    in_one_step(stage.feed, "x", "y", "z")

    await settled(stage)

    assert [["x", "z"]] == stage.called_with()


@pytest.mark.parametrize("seed", range(15))
def test_failures_keep_transactions_whole_and_keys_in_order(seed: int) -> None:
    stage = Stage({**TOGETHER, "BatchSize": 3, "MaximumRetryAttempts": -1}, partitions=3, seed=seed)
    jitter = stage.jitter
    stage.judge = lambda _: Failure("no") if jitter.random() < 0.2 else Success()
    feeds = list(stage.feeds.values())

    async def live(*, to_the_end: bool) -> None:
        dispatcher = stage.started()
        late: list[tuple[FakePartition, str, Tx]] = []
        for _ in range(60):
            feed = jitter.choice(feeds)
            roll = jitter.random()
            if roll < 0.2:
                in_one_step(feed, *(f"{feed.number}-{n}" for n in jitter.sample(range(6), 3)))
            elif roll < 0.4 and not late:
                chosen = jitter.sample(feeds, 2)
                name = f"1:{1000 + len(stage.written())}.0"
                late = [
                    (each, f"{each.number}-{jitter.randrange(6)}", Tx(name, nth, 2))
                    for nth, each in enumerate(chosen)
                ]
                first, its_key, tx = late.pop(jitter.randrange(2))
                first.write(its_key, tx=tx)
            else:
                feed.write(f"{feed.number}-free-{jitter.randrange(4)}")
            if late and jitter.random() < 0.5:
                other, its_key, tx = late.pop()
                other.write(its_key, tx=tx)
            if jitter.random() < 0.3:
                await asyncio.sleep(0.01)
        for other, its_key, tx in late:
            other.write(its_key, tx=tx)
        if to_the_end:
            await dispatcher.reach(stage.ends())
            await dispatcher.stop()

    for life in range(3):
        run(live(to_the_end=life == 2))
        stage.crash()

    assert stage.written() == {(each.partition, 1, each.change.sequence_number) for _, each in stage.handled}
    for call in stage.calls:
        names = {each.change.tx.id if each.change.tx else None for each in call.batch.changes}
        assert len(names) == 1
        tx = call.batch.changes[0].change.tx
        if tx is not None:
            assert list(range(tx.of)) == [each.change.tx.n for each in call.batch.changes if each.change.tx]
    latest: dict[tuple[int, str], int] = {}
    for life, each in stage.handled:
        assert each.change.sequence_number > latest.get((life, key(each)), 0)
        latest[life, key(each)] = each.change.sequence_number
