"""What a subscription promises, on virtual time: sinks that fail, processes that end, and what is left of both."""

import asyncio
import random

import pytest

from foldb.streams.formats.delivery import Delivery
from foldb.streams.sinks.sink import Batch, Failed, Handled, Partly, Verdict
from foldb.streams.subscriptions.letters import key_of
from tests.streams.subscriptions.stage import Stage, body_of
from tests.streams.subscriptions.virtual import run

LIVES = 4


def poisoned(delivery: Delivery) -> bool:
    return "poison" in body_of(delivery)


class Moods:
    """A sink that fails by chance, in each of the ways, and at a poisoned change always."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self.is_calm = False

    def __call__(self, batch: Batch) -> Verdict:
        bad = next((each for each in batch.changes if poisoned(each)), None)
        mood = 1.0 if self.is_calm else self._dice.random()
        if mood < 0.1:
            return Failed("out of order", retry_after_s=self._dice.choice((None, 0.5)))
        if mood < 0.2:
            bad = bad or self._dice.choice(batch.changes)
        if bad is None:
            return Handled()
        if self._dice.random() < 0.5:
            return Failed("broken")
        first = next(each for each in batch.changes if each is bad or poisoned(each))
        return Partly(first.partition, first.change.sequence_number, "broken")


@pytest.mark.parametrize("seed", range(25))
def test_nothing_is_lost_and_keys_keep_their_order_whatever_fails(seed: int) -> None:
    """
    Random writes, lanes and settings; the sink, the letters and the checkpoint fail by chance; the process ends at
    random moments and another goes on from the last checkpoint.
    """
    dice = random.Random(seed)
    stage = Stage(
        settings={
            "ParallelizationFactor": dice.choice((1, 2, 4, 8)),
            "BatchSize": dice.choice((1, 3, 10, 100)),
            "MaximumRetryAttempts": dice.choice((0, 1, 3)),
            "BisectBatchOnFunctionError": dice.random() < 0.5,
            "MaximumBatchingWindowInSeconds": dice.choice((0, 0, "0.2")),
            "OnFailure": dice.choice(("isolate", "isolate", "batch")),
        },
        partitions=dice.choice((1, 3)),
        tables=dice.choice(((1,), (1, 2))),
        seed=seed,
        seconds=lambda: dice.choice((0.0, 0.01, 0.3)),
    )
    stage.judge = moods = Moods(dice)
    for life in range(LIVES):
        moods.is_calm = life == LIVES - 1
        stage.letters_fail = 0.0 if moods.is_calm else 0.1
        run(live(stage, dice, to_the_end=moods.is_calm))
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


async def live(stage: Stage, dice: random.Random, *, to_the_end: bool) -> None:
    dispatcher = stage.started()
    for _ in range(dice.randrange(10, 120)):
        feed = dice.choice(list(stage.feeds.values()))
        if dice.random() < 0.1:
            feed.pass_by()
        body = {"poison": {"BOOL": True}} if dice.random() < 0.04 else {}
        # A key is in one partition.
        feed.write(f"{feed.number}-{dice.randrange(6)}", table=dice.choice(stage.tables), body=body)
        feed.is_away = dice.random() < 0.02
        if dice.random() < 0.3:
            await asyncio.sleep(dice.choice((0.001, 0.1, 1.0)))
    for feed in stage.feeds.values():
        feed.is_away = False
    if to_the_end:
        await dispatcher.reach(stage.ends())
        assert dispatcher.marks() == stage.ends()
        await dispatcher.stop()
        assert all(
            stage.subscription.marks[place(each)[0]] >= each.change.sequence_number
            for _, each in stage.handled
        )
    elif dice.random() < 0.3:
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
        if isinstance(call.verdict, Handled):
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
            assert key_of(each) != key or each.change.sequence_number < number
