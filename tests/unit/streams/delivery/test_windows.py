"""Tumbling windows: a state that batches hand on, and a checkpoint that waits for the window's end."""

import asyncio
from typing import Any

import pytest

from foldb.streams.sinks.sink import Batch, DeliveryResult, Failure, Success
from tests.unit.streams.delivery.stage import START_MS, Stage, lasting
from tests.unit.streams.delivery.virtual import run

MINUTE = 60_000
FIRST = START_MS - START_MS % MINUTE + MINUTE
"""When the first whole minute begins."""

SETTINGS: dict[str, Any] = {"TumblingWindowInSeconds": 60, "BatchSize": 2}


class Counting:
    """Counts a window's changes in its state, and remembers what the final calls said."""

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.fails = False

    def __call__(self, batch: Batch) -> DeliveryResult:
        assert batch.window is not None
        if self.fails:
            return Failure("not now")
        count = batch.window.state.get("count", 0) + len(batch.changes)
        if batch.window.is_final:
            assert not batch.changes
            assert batch.window.start_ms not in self.counts, "one final call a window"
            self.counts[batch.window.start_ms] = count
        for each in batch.changes:
            assert batch.window.start_ms <= each.change.time < batch.window.end_ms
        return Success({"count": count})


def write(stage: Stage, minute: int, count: int) -> None:
    stage.feed.time = FIRST + minute * MINUTE
    for nth in range(count):
        stage.feed.write(f"k{nth}")


async def test_each_window_has_its_own_state_and_one_final_call() -> None:
    counting = Counting()
    stage = Stage(SETTINGS, judge=counting)
    for minute, count in enumerate((3, 5, 2)):
        write(stage, minute, count)

    stage.started()
    await asyncio.sleep(300)

    assert {FIRST: 3, FIRST + MINUTE: 5, FIRST + 2 * MINUTE: 2} == counting.counts


def test_a_window_that_a_crash_cut_off_is_counted_anew_from_its_beginning() -> None:
    """The checkpoint stays before a window until its final call, so no change counts twice and none is missing."""
    counting = Counting()
    stage = Stage(SETTINGS, judge=counting)
    write(stage, 0, 5)

    async def cut_short() -> None:
        stage.started()
        await asyncio.sleep(5)

    run(cut_short())
    stage.crash()
    assert 5 == len(stage.handled)
    assert (
        not stage.subscription.checkpoints
        or stage.subscription.checkpoints[0] < stage.feed.changes[1][0].sequence_number
    )

    async def to_the_end() -> None:
        stage.started()
        write(stage, 0, 2)
        await asyncio.sleep(300)

    run(to_the_end())

    assert {FIRST: 7} == counting.counts
    assert stage.subscription.checkpoints[0] >= stage.feed.changes[1][-1].sequence_number


async def test_the_last_window_ends_although_nothing_more_is_written() -> None:
    counting = Counting()
    stage = Stage(SETTINGS, judge=counting)
    write(stage, 0, 1)
    stage.hours_s = (FIRST - START_MS) / 1000  # the clock is as far as log time

    dispatcher = stage.started()
    await asyncio.sleep(30)
    assert not counting.counts
    await asyncio.sleep(40)
    assert {FIRST: 1} == counting.counts
    await dispatcher.stop()


async def test_a_final_call_that_fails_is_made_again() -> None:
    counting = Counting()
    stage = Stage(SETTINGS, judge=counting)
    write(stage, 0, 1)
    stage.hours_s = (FIRST - START_MS) / 1000

    stage.started()
    await asyncio.sleep(30)
    counting.fails = True
    await asyncio.sleep(60)
    counting.fails = False
    await asyncio.sleep(120)

    assert {FIRST: 1} == counting.counts


@pytest.mark.parametrize("how", ["replay", "table gone"])
async def test_who_has_read_all_there_is_to_read_ends_the_last_window_and_is_over(how: str) -> None:
    """Nobody tells it later that log time has passed the window's end."""
    counting = Counting()
    stage = Stage(SETTINGS, judge=counting)
    write(stage, 0, 3)
    if how == "replay":
        stage = Stage({**SETTINGS, "End": {"Numbers": {"0": str(stage.feed.end)}}}, judge=counting)
        write(stage, 0, 3)
        write(stage, 0, 2)
    else:
        stage.gone = {1}
    stage.hours_s = (FIRST - START_MS) / 1000

    await lasting(stage, 10)

    assert {FIRST: 3} == counting.counts
    assert ["done" if how == "replay" else "its tables are gone"] == stage.ended
    assert stage.subscription.checkpoints[0] >= stage.feed.changes[1][2].sequence_number
