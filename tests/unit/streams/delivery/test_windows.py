"""Tumbling windows: batches pass a state on, and the checkpoint waits for the window's end."""

import asyncio
from typing import Any

import pytest

from foldb.streams.sinks.sink import Batch, DeliveryResult, Failure, Success
from tests.unit.streams.delivery.stage import START_MS, Stage, lasting
from tests.unit.streams.delivery.virtual import run

MINUTE = 60_000
FIRST = START_MS - START_MS % MINUTE + MINUTE
"""The start of the first full minute."""

SETTINGS: dict[str, Any] = {"TumblingWindowInSeconds": 60, "BatchSize": 2}


class Counting:
    """Counts a window's changes in its state, and records the results of the final calls."""

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


def test_a_window_interrupted_by_a_crash_starts_again() -> None:
    """The checkpoint stays below a window until its final call, so no change counts twice and none is missing."""
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


async def test_the_last_window_ends_without_further_writes() -> None:
    counting = Counting()
    stage = Stage(SETTINGS, judge=counting)
    write(stage, 0, 1)
    stage.hours_s = (FIRST - START_MS) / 1000  # the clock equals log time

    dispatcher = stage.started()
    await asyncio.sleep(30)
    assert not counting.counts
    await asyncio.sleep(40)
    assert {FIRST: 1} == counting.counts
    await dispatcher.stop()


async def test_a_failed_final_call_is_retried() -> None:
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
async def test_the_end_of_reading_ends_the_last_window(how: str) -> None:
    """No later record moves log time past the window's end."""
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
