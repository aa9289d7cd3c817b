"""What a subscription promises, on virtual time: sinks that fail, processes that end, and what is left of both."""

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
    """A sink that fails by chance, in each of the ways, and at a poisoned change always."""

    def __init__(self, jitter: random.Random) -> None:
        self._dice = jitter
        self.is_calm = False

    def __call__(self, batch: Batch) -> DeliveryResult:
        bad = next((each for each in batch.changes if poisoned(each)), None)
        mood = 1.0 if self.is_calm else self._dice.random()
        if mood < 0.1:
            return Failure("out of order", retry_after_s=self._dice.choice((None, 0.5)))
        if mood < 0.2:
            bad = bad or self._dice.choice(batch.changes)
        if bad is None:
            return Success()
        if self._dice.random() < 0.5:
            return Failure("broken")
        first = next(each for each in batch.changes if each is bad or poisoned(each))
        return PartialFailure(first.partition, first.change.sequence_number, "broken")


@pytest.mark.guarantee("G39", "G40")
@pytest.mark.parametrize("seed", range(25))
def test_nothing_is_lost_and_keys_keep_their_order_whatever_fails(seed: int) -> None:
    """
    Random writes, lanes and settings; the sink, the letters and the checkpoint fail by chance; the process ends at
    random moments and another goes on from the last checkpoint.
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
        stage.letters_fail = 0.0 if moods.is_calm else 0.1
        run(live(stage, jitter, to_the_end=moods.is_calm))
        stage.crash()

    handled = {place(each) for _, each in stage.handled}
    letters = {place(letter.delivery) for own in stage.letters.values() for letter in own.values()}
    assert stage.written() == handled | letters
    assert {place(each) for _, each in stage.handled if poisoned(each)} == set()
    assert_only_repeated_after_the_checkpoint(stage)
    assert_order_of_keys(stage)
    assert_letters_hold_back_their_keys(stage)


def place(delivery: Delivery) -> tuple[int, int, int]:
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
            stage.subscription.checkpoints[place(each)[0]] >= each.change.sequence_number
            for _, each in stage.handled
        )
    elif jitter.random() < 0.3:
        await dispatcher.stop()
    stage.hours_s += asyncio.get_running_loop().time()


def assert_only_repeated_after_the_checkpoint(stage: Stage) -> None:
    """What a life calls with is beyond the marks that it began with, and not what it has handled before."""
    done: set[tuple[int, tuple[int, int, int]]] = set()
    for call in stage.calls:
        marks = stage.marks_at[call.life]
        for each in call.batch.changes:
            assert each.change.sequence_number > marks.get(each.partition, 0)
            assert (call.life, place(each)) not in done
        if isinstance(call.verdict, Success):
            done |= {(call.life, place(each)) for each in call.batch.changes}


def assert_order_of_keys(stage: Stage) -> None:
    """Within a life a key's changes are tried in order: none before what is before it is handled or given up."""
    latest: dict[tuple[int, int, bytes], int] = {}
    for call in stage.calls:
        in_batch: dict[tuple[int, int, bytes], int] = {}
        for each in call.batch.changes:
            key = (call.life, each.change.table, each.change.pk)
            number = each.change.sequence_number
            assert number > in_batch.get(key, 0)
            in_batch[key] = number
            if number < latest.get(key, 0):  # only a batch that is tried again goes back
                assert any(number in other.numbers for other in stage.calls if other is not call)
            latest[key] = max(number, latest.get(key, 0))
    handled: dict[tuple[int, int, bytes], int] = {}
    for life, each in stage.handled:
        key = (life, each.change.table, each.change.pk)
        assert each.change.sequence_number > handled.get(key, 0)
        handled[key] = each.change.sequence_number


def assert_letters_hold_back_their_keys(stage: Stage) -> None:
    """Nothing of a key was handled after the first of its letters was written, in that life or a later one."""
    for (key, number), since in stage.written_letters.items():
        for _, each in stage.handled[since:]:
            assert item_key_of(each) != key or each.change.sequence_number < number
