"""The guarantees of a subscription on virtual time: failing sinks, crashes, and the state after both."""

import asyncio
import random

import pytest

from foldb.streams.delivery.dead_letters import item_key_of
from foldb.streams.formats.table_view import Delivery
from foldb.streams.sinks.sink import Batch, DeliveryResult, Failure, PartialFailure, Success
from tests.unit.streams.delivery.stage import Stage, body_of
from tests.unit.streams.delivery.virtual import run

LIVES = 4


def poisoned(delivery: Delivery) -> bool:
    return "poison" in body_of(delivery)


class Moods:
    """A sink that fails at random in every way, and always at a poisoned change."""

    def __init__(self, jitter: random.Random) -> None:
        self._jitter = jitter
        self.is_calm = False

    def __call__(self, batch: Batch) -> DeliveryResult:
        bad = next((each for each in batch.changes if poisoned(each)), None)
        mood = 1.0 if self.is_calm else self._jitter.random()
        if mood < 0.1:
            return Failure("out of order", retry_after_s=self._jitter.choice((None, 0.5)))
        if mood < 0.2:
            bad = bad or self._jitter.choice(batch.changes)
        if bad is None:
            return Success()
        if self._jitter.random() < 0.5:
            return Failure("broken")
        first = next(each for each in batch.changes if each is bad or poisoned(each))
        return PartialFailure(first.partition, first.change.sequence_number, "broken")


@pytest.mark.guarantee("G39", "G40")
@pytest.mark.parametrize("seed", range(25))
def test_failures_lose_no_change_and_keep_the_order_of_keys(seed: int) -> None:
    """Random writes, lanes and settings.

    The sink, the dead letters and the checkpoint fail at random; the process ends at random times and another one
    continues from the last checkpoint.
    """
    jitter = random.Random(seed)
    stage = Stage(
        settings={
            "ParallelizationFactor": jitter.choice((1, 2, 4, 8)),
            "BatchSize": jitter.choice((1, 3, 10, 100)),
            "MaximumRetryAttempts": jitter.choice((0, 1, 3)),
            "BisectBatchOnFunctionError": jitter.random() < 0.5,
            "MaximumBatchingWindowInSeconds": jitter.choice((0, 0, "0.2")),
            "OnFailure": jitter.choice(("isolate", "isolate", "batch")),
        },
        partitions=jitter.choice((1, 3)),
        tables=jitter.choice(((1,), (1, 2))),
        seed=seed,
        seconds=lambda: jitter.choice((0.0, 0.01, 0.3)),
    )
    stage.judge = moods = Moods(jitter)
    for life in range(LIVES):
        moods.is_calm = life == LIVES - 1
        stage.dead_letters_fail = 0.0 if moods.is_calm else 0.1
        run(live(stage, jitter, to_the_end=moods.is_calm))
        stage.crash()

    handled = {identity(each) for _, each in stage.handled}
    dead_letters = {
        identity(dead_letter.delivery) for own in stage.dead_letters.values() for dead_letter in own.values()
    }
    assert stage.written() == handled | dead_letters
    assert {identity(each) for _, each in stage.handled if poisoned(each)} == set()
    assert_only_repeated_after_the_checkpoint(stage)
    assert_order_of_keys(stage)
    assert_dead_letters_block_their_keys(stage)


def identity(delivery: Delivery) -> tuple[int, int, int]:
    return delivery.partition, delivery.change.table, delivery.change.sequence_number


async def live(stage: Stage, jitter: random.Random, *, to_the_end: bool) -> None:
    dispatcher = stage.started()
    for _ in range(jitter.randrange(10, 120)):
        feed = jitter.choice(list(stage.feeds.values()))
        if jitter.random() < 0.1:
            feed.pass_by()
        body = {"poison": {"BOOL": True}} if jitter.random() < 0.04 else {}
        # A key is in one partition.
        feed.write(f"{feed.number}-{jitter.randrange(6)}", table=jitter.choice(stage.tables), body=body)
        feed.is_away = jitter.random() < 0.02
        if jitter.random() < 0.3:
            await asyncio.sleep(jitter.choice((0.001, 0.1, 1.0)))
    for feed in stage.feeds.values():
        feed.is_away = False
    if to_the_end:
        await dispatcher.reach(stage.ends())
        assert dispatcher.checkpoints() == stage.ends()
        await dispatcher.stop()
        assert all(
            stage.subscription.checkpoints[identity(each)[0]] >= each.change.sequence_number
            for _, each in stage.handled
        )
    elif jitter.random() < 0.3:
        await dispatcher.stop()
    stage.hours_s += asyncio.get_running_loop().time()


def assert_only_repeated_after_the_checkpoint(stage: Stage) -> None:
    """Each life calls only with changes beyond its first checkpoint that it has not handled before."""
    handled_by_life: set[tuple[int, tuple[int, int, int]]] = set()
    for call in stage.calls:
        checkpoints = stage.checkpoints_at[call.life]
        for each in call.batch.changes:
            assert each.change.sequence_number > checkpoints.get(each.partition, 0)
            assert (call.life, identity(each)) not in handled_by_life
        if isinstance(call.result, Success):
            handled_by_life |= {(call.life, identity(each)) for each in call.batch.changes}


def assert_order_of_keys(stage: Stage) -> None:
    """Within a life the changes of a key are attempted in order: none before the previous one is handled."""
    latest: dict[tuple[int, int, bytes], int] = {}
    for call in stage.calls:
        in_batch: dict[tuple[int, int, bytes], int] = {}
        for each in call.batch.changes:
            key = (call.life, each.change.table, each.change.pk)
            sequence_number = each.change.sequence_number
            assert sequence_number > in_batch.get(key, 0)
            in_batch[key] = sequence_number
            if sequence_number < latest.get(key, 0):  # only the retry of a batch goes back
                assert any(
                    sequence_number in other.sequence_numbers for other in stage.calls if other is not call
                )
            latest[key] = max(sequence_number, latest.get(key, 0))
    handled: dict[tuple[int, int, bytes], int] = {}
    for life, each in stage.handled:
        key = (life, each.change.table, each.change.pk)
        assert each.change.sequence_number > handled.get(key, 0)
        handled[key] = each.change.sequence_number


def assert_dead_letters_block_their_keys(stage: Stage) -> None:
    """No change of a key is handled after its first dead letter is written, in this life or a later one."""
    for (key, sequence_number), since in stage.written_dead_letters.items():
        for _, each in stage.handled[since:]:
            assert item_key_of(each) != key or each.change.sequence_number < sequence_number
