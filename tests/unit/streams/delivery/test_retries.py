"""Retries: which changes, how often and when, and the end of a change that never succeeds."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from math import log2
from typing import Any

import pytest

from foldb.streams.sinks.sink import Batch, DeliveryResult, Failure, PartialFailure, Success, Unsubscribed
from tests.unit.streams.delivery.stage import START_MS, Stage, key, lasting, settled


def failing_at(bad: str, *, named: bool) -> Callable[[Batch], DeliveryResult]:
    """Return a judge that fails at one key, and may name the change."""

    def judge(batch: Batch) -> DeliveryResult:
        for each in batch.changes:
            if key(each) == bad:
                if named:
                    return PartialFailure(each.partition, each.change.sequence_number, "bad", "traceback")
                return Failure("bad", "traceback")
        return Success()

    return judge


def written(stage: Stage, keys: str) -> Stage:
    for each in keys.split():
        stage.feed.write(each)
    return stage


@pytest.mark.guarantee("G42")
@pytest.mark.parametrize("place", [0, 1, 7, 31, 50, 63])
async def test_bisecting_finds_a_poisoned_change_in_log2_failures(place: int) -> None:
    stage = Stage({"MaximumRetryAttempts": 1, "BatchSize": 64}, judge=failing_at(f"k{place}", named=False))
    written(stage, " ".join(f"k{nth}" for nth in range(64)))

    await settled(stage)

    dead_letters = [dead_letter for own in stage.dead_letters.values() for dead_letter in own.values()]
    assert [f"k{place}"] == [key(dead_letter.delivery) for dead_letter in dead_letters]
    assert [f"k{nth}" for nth in range(64) if nth != place] == stage.keys()
    failed = [call for call in stage.calls if isinstance(call.result, Failure)]
    assert len(failed) <= 2 + log2(64)
    assert len(stage.calls) <= 2 + 2 * log2(64) + 1


async def test_a_named_change_is_dead_lettered_without_more_calls() -> None:
    stage = written(Stage({"MaximumRetryAttempts": 2}, judge=failing_at("b", named=True)), "a b c")

    await settled(stage)

    assert [["a", "b", "c"], ["b", "c"], ["b", "c"], ["c"]] == [
        [key(each) for each in call.batch.changes] for call in stage.calls
    ]
    assert [1, 2, 3, 1] == [call.batch.attempt for call in stage.calls]
    (dead_letter,) = [dead_letter for own in stage.dead_letters.values() for dead_letter in own.values()]
    assert ("bad", "traceback", 3, "v1") == (
        dead_letter.error,
        dead_letter.traceback,
        dead_letter.attempts,
        dead_letter.version,
    )


@pytest.mark.guarantee("G42")
async def test_a_partial_failure_is_not_retried_forever() -> None:
    """A function that handles one change per call and names the next one makes progress with each call.

    A change that it always names must still reach its limit, although the batch before it has just become shorter.
    """
    stage = written(
        Stage({"MaximumRetryAttempts": 3}, judge=failing_at("poison", named=True)), "a b poison c poison d"
    )

    await settled(stage)

    assert ["a", "b", "c", "d"] == stage.keys()
    assert 2 == len(stage.dead())


async def test_unlimited_retries_block_one_lane_only() -> None:
    stage = Stage({"ParallelizationFactor": 8}, judge=failing_at("stuck", named=True))
    for nth in range(40):
        stage.feed.write(f"k{nth}")
    stage.feed.write("stuck")
    for nth in range(40):
        stage.feed.write(f"k{nth}")

    dispatcher = stage.started()
    await asyncio.sleep(4 * 3600)
    assert [("stuck", True)] == [(key(each), tries > 200) for each, tries in dispatcher.failing()]
    (stuck,) = (each for each, _ in dispatcher.failing())
    assert {0: stuck.change.sequence_number - 1} == dispatcher.checkpoints()
    await dispatcher.stop()

    assert not stage.dead()
    assert len(set(stage.keys())) > 30


async def test_the_backoff_doubles_up_to_its_maximum() -> None:
    stage = Stage(
        {"Backoff": {"First": 1, "Most": 10}, "MaximumRetryAttempts": 6}, judge=lambda _: Failure("no")
    )
    stage.seconds = lambda: 0.0
    stage.jitter.random = lambda: 1.0  # type: ignore[method-assign]
    written(stage, "a")

    await settled(stage)

    at = [call.at for call in stage.calls]
    assert [1.0, 2.0, 4.0, 8.0, 10.0, 10.0] == pytest.approx(
        [later - earlier for earlier, later in pairwise(at)]
    )


async def test_a_retry_after_of_the_sink_is_obeyed() -> None:
    answers: list[DeliveryResult] = [Failure("busy", retry_after_s=90), Success()]
    stage = written(Stage(judge=lambda _: answers.pop(0)), "a")

    await settled(stage)

    assert stage.calls[1].at - stage.calls[0].at >= 90


@pytest.mark.parametrize(
    "settings",
    [
        {"MaximumRetryAttempts": 0, "BatchSize": 1},
        {"MaximumRetryAttempts": 0, "BatchSize": 8},
        {"MaximumRetryAttempts": 0, "OnFailure": "batch", "BatchSize": 2},
        {"MaximumRetryAttempts": 2, "BisectBatchOnFunctionError": True},
    ],
)
async def test_retry_after_delays_every_next_call(
    settings: dict[str, Any],
) -> None:
    """The next call may be the next batch after a dead letter, or a half of the failed one."""
    stage = Stage(settings)
    stage.judge = lambda batch: (
        Failure("busy", retry_after_s=90) if "b" in map(key, batch.changes) else Success()
    )
    written(stage, "a b c d")

    await settled(stage)

    again = [later.at - call.at for call, later in pairwise(stage.calls) if isinstance(call.result, Failure)]
    assert again
    assert min(again) >= 90


async def test_bisecting_starts_at_the_first_failure() -> None:
    settings = {"MaximumRetryAttempts": 2, "BisectBatchOnFunctionError": True}
    stage = written(Stage(settings, judge=failing_at("c", named=False)), "a b c d")

    await settled(stage)

    assert ["a", "b", "d"] == stage.keys()
    assert ["a b c d", "a b", "c", "c", "c", "d"] == [
        " ".join(key(each) for each in call.batch.changes) for call in stage.calls
    ]
    assert 1 == len(stage.dead())


async def test_on_failure_batch_dead_letters_the_whole_batch() -> None:
    settings = {"MaximumRetryAttempts": 0, "OnFailure": "batch", "BatchSize": 3}
    stage = written(Stage(settings, judge=failing_at("b", named=False)), "a b c d")

    await settled(stage)

    assert 3 == len(stage.dead())
    assert ["d"] == stage.keys()


async def test_on_failure_block_reports_the_blocked_lane() -> None:
    settings = {"MaximumRetryAttempts": 1, "OnFailure": "block"}
    stage = written(Stage(settings, judge=failing_at("b", named=True)), "a b c")

    dispatcher = stage.started()
    await asyncio.sleep(3600)
    assert ["bad"] == dispatcher.blocked
    await dispatcher.stop()

    assert ["a"] == stage.keys()
    assert not stage.dead()
    assert stage.subscription.checkpoints == {0: stage.feed.changes[1][1].sequence_number - 1}


async def test_a_change_that_is_too_old_becomes_a_dead_letter() -> None:
    stage = Stage({"MaximumRecordAgeInSeconds": 60})
    stage.feed.write("old")
    stage.hours_s = 61.0
    stage.feed.time = START_MS + 60_000
    stage.feed.write("new")

    await settled(stage)

    assert ["new"] == stage.keys()
    (dead_letter,) = [dead_letter for own in stage.dead_letters.values() for dead_letter in own.values()]
    assert ("old", 0) == (key(dead_letter.delivery), dead_letter.attempts)


async def test_a_loop_of_triggers_ends_in_a_dead_letter() -> None:
    stage = Stage()
    stage.feed.write("a", depth=15)
    stage.feed.write("b", depth=16)
    stage.feed.write("c", depth=0)

    await settled(stage)

    assert ["a", "c"] == stage.keys()
    (dead_letter,) = [dead_letter for own in stage.dead_letters.values() for dead_letter in own.values()]
    assert "a loop of triggers: 16 in a row led to this change" == dead_letter.error


async def test_a_batch_has_changes_of_one_depth() -> None:
    stage = Stage()
    for depth in (0, 0, 1, 1, 0):
        stage.feed.write("a", depth=depth)

    await settled(stage)

    assert [2, 2, 1] == [len(call.sequence_numbers) for call in stage.calls]


@pytest.mark.guarantee("G40")
async def test_only_later_changes_of_a_key_follow_its_dead_letter() -> None:
    stage = Stage({"MaximumRetryAttempts": 0, "BatchSize": 2})
    stage.judge = lambda batch: (
        Failure("bad") if any(b"poison" in (each.change.new or b"") for each in batch.changes) else Success()
    )
    first = stage.feed.write("a", body={"poison": {"BOOL": True}})
    for each in ("a", "b", "a", "b"):
        stage.feed.write(each)

    await settled(stage)

    assert ["b", "b"] == stage.keys()
    errors = [dead_letter.error for own in stage.dead_letters.values() for dead_letter in own.values()]
    assert ["bad", *[f"waits for sequence number {first.sequence_number}"] * 2] == errors


async def test_a_key_continues_without_dead_letters() -> None:
    stage = Stage({"MaximumRetryAttempts": 0}, judge=lambda _: Failure("bad"))

    dispatcher = stage.started()
    stage.feed.write("a")
    await dispatcher.reach(stage.ends())
    stage.judge = lambda _: Success()
    stage.feed.write("a")
    await dispatcher.reach(stage.ends())
    assert not stage.handled
    stage.dead_letters.clear()
    stage.feed.write("a")
    await dispatcher.reach(stage.ends())
    await dispatcher.stop()

    assert ["a"] == stage.keys()


async def test_a_repeated_failure_is_logged_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = {"MaximumRetryAttempts": -1, "Backoff": {"First": 1, "Most": 1}}
    stage = written(Stage(settings, judge=lambda _: Failure("no!")), "a")

    await lasting(stage, 150)

    assert len(stage.calls) > 100
    assert ["orders: no!"] * 3 == [record.getMessage() for record in caplog.records]


async def test_an_unsubscribed_sink_is_not_called_again() -> None:
    stage = written(Stage(judge=lambda _: Unsubscribed("410 Gone")), "a b")

    await lasting(stage, 60)

    assert ["410 Gone"] == stage.ended
    assert 1 == len(stage.calls)
    assert not stage.checkpoints


async def test_a_call_without_end_times_out() -> None:
    stage = written(Stage({"TimeoutSeconds": 3, "MaximumRetryAttempts": 0}), "a")
    stage.seconds = lambda: 1e9

    await settled(stage)

    (dead_letter,) = [dead_letter for own in stage.dead_letters.values() for dead_letter in own.values()]
    assert "no answer in time" == dead_letter.error


async def test_slow_loading_of_code_is_not_a_timeout() -> None:
    """A sink enforces its timeout from the start of a call; the time before that is not counted."""
    stage = written(Stage({"TimeoutSeconds": 1, "MaximumRetryAttempts": 0}), "a")
    stage.seconds = lambda: 60.0 + 60.0 + 1.0  # waits for another lane's loading, and for its own

    await settled(stage)

    assert ["a"] == stage.keys()
    assert not stage.dead()


async def test_an_exception_of_a_sink_is_a_failure_with_traceback() -> None:
    def judge(_: Batch) -> DeliveryResult:
        raise ValueError("no such thing")

    stage = written(Stage({"MaximumRetryAttempts": 0}, judge=judge), "a")

    await settled(stage)

    (dead_letter,) = [dead_letter for own in stage.dead_letters.values() for dead_letter in own.values()]
    assert "ValueError: no such thing" == dead_letter.error
    assert "Traceback" in (dead_letter.traceback or "")


@pytest.mark.guarantee("G42")
async def test_unwritten_dead_letters_hold_the_checkpoint_back() -> None:
    stage = written(Stage({"MaximumRetryAttempts": 0}, judge=lambda _: Failure("bad")), "a")
    stage.dead_letters_fail = 1.0

    dispatcher = stage.started()
    await asyncio.sleep(600)
    assert dispatcher.checkpoints()[0] < stage.feed.changes[1][0].sequence_number
    stage.dead_letters_fail = 0.0
    await dispatcher.reach(stage.ends())
    await dispatcher.stop()

    assert 1 == len(stage.dead())


async def test_a_failed_start_is_retried_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = written(Stage(), "a")
    stage.starts_fail = ["no broker", "no broker", "no broker", "no room"]
    await settled(stage)

    assert ["a"] == stage.keys()
    said = [record.getMessage().rpartition(": ")[2] for record in caplog.records]
    assert ["no broker", "no room"] == said


async def test_a_failure_appears_in_the_metrics() -> None:
    stage = written(Stage({"MaximumRetryAttempts": 0}, judge=failing_at("b", named=True)), "a b c")
    reported: dict[str, Any] = {}

    dispatcher = stage.started()
    await dispatcher.reach(stage.ends())
    reported.update(dispatcher.metrics.to_json(asyncio.get_running_loop().time()))
    await dispatcher.stop()

    assert (2, 1, 3, 2, 1, "bad") == (
        reported["Calls"],
        reported["FailedCalls"],
        reported["Handled"],
        reported["Delivered"],
        reported["DeadLetters"],
        reported["LastError"],
    )
