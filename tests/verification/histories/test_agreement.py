"""The checkers against all orders, for histories that are small enough to try them."""

import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.verification import reliability
from tests.verification.histories import History, Operation, Step, ViolationError, check
from tests.verification.histories.linearizable import linearizable
from tests.verification.histories.model import VERBS, Refused, States
from tests.verification.histories.serializable import serializable
from tests.verification.histories.simulated import mutated, simulated, unheard_of
from tests.verification.histories.workload import Workload

SOAK = bool(os.environ.get("FOLDB_SOAK"))
_TELL_STATES = {"get", "swap", "set", "delete"}
pytestmark = [pytest.mark.soak] if SOAK else []
BATCHES, HISTORIES = (10, 10_000) if SOAK else (4, 1000)


def explained(history: History, *, by_position: bool) -> bool:
    """Whether any order explains a history, by trying all; with `by_position` only orders that agree with the
    positions.
    """
    operations = [one for one in history.operations if one.reported is not None or not one.looks]
    ends = {id(one): history.deadline(one) if one.answered is None else one.answered for one in operations}

    def go_on(left: list[Operation], states: dict[str, Any], place: int) -> bool:
        if all(one.in_doubt for one in left):
            return True
        return any(
            after is not None and go_on(rest, after, place if one.in_doubt else one.position + 1)
            for one in left
            if (rest := without(one, left, place)) is not None
            for after in [carried_out(one, states)]
        )

    def without(chosen: Operation, left: list[Operation], place: int) -> list[Operation] | None:
        """Return the possible next operations; None if another one must come before.

        An operation in doubt is not between two that see the same position.
        """
        rest = [one for one in left if one is not chosen]
        earlier = [one for one in rest if ends[id(one)] < chosen.called]
        if any(not one.in_doubt for one in earlier):
            return None
        known = [one.position for one in rest if not one.in_doubt]
        if by_position and known and min(known) < (place if chosen.in_doubt else chosen.position):
            return None
        return [one for one in rest if one not in earlier]

    return go_on(operations, States(), 0)


def carried_out(operation: Operation, states: dict[str, Any]) -> dict[str, Any] | None:
    """Return the states after an operation, or None if its result is impossible."""
    done = [VERBS[step.verb](states[step.key], step.argument) for step in operation.steps]
    reported = tuple(result for _, result in done)
    refused = any(type(one) is Refused for one in reported)
    if refused:
        reported = tuple(one if type(one) is Refused else None for one in reported)
    if operation.reported != reported and not operation.in_doubt:
        return None
    after = States(states)
    if not refused:
        after.update(zip((step.key for step in operation.steps), (state for state, _ in done), strict=True))
    return after


def accepts(judge: Callable[[History], None], history: History) -> bool:
    try:
        judge(history)
    except ViolationError:
        return False
    return True


def small(seed: int, draw: Callable[[Workload], Any]) -> History:
    """Return a history that is small enough. Most have a changed answer, so that about half are wrong."""
    dice = random.Random(seed)
    history = simulated(seed, dice.randint(2, 6), clients=3, keys=1, crashes=0.05, draw=draw)
    if dice.random() < 0.8:
        return mutated(history, dice, lambda step, reported: another(history, step, reported, dice))
    return history


def another(history: History, step: Step, reported: Any, dice: random.Random) -> Any:
    """Return the result of such a step elsewhere, or a possible one: an answer that is old, early, or made up."""
    pool = [
        result
        for one in history.operations
        for asked, result in zip(one.steps, one.reported or (), strict=False)
        if asked.key[0] == step.key[0] and (asked.verb == step.verb or {asked.verb, step.verb} < _TELL_STATES)
    ]
    if step.verb in _TELL_STATES and step.key[0] == "r":
        pool += [None, *((dice.randint(1, 6), number) for number in (None, 7))]
    if step.key[0] == "l" and step.verb == "get":
        pool += [reported[:-1], tuple(reversed(reported))]
    pool = [one for one in pool if one != reported]
    return dice.choice(pool) if pool else unheard_of(step, reported)


def lists(workload: Workload) -> tuple[Step, ...]:
    """Return transactions on two lists."""
    drawn = workload.dice.choice((Workload.append, Workload.append_if, Workload.read_lists))(workload)
    return tuple({step.key: step for step in (_folded(step) for step in drawn)}.values())


def _folded(step: Step) -> Step:
    return step._replace(key=f"l{int(step.key[1:]) % 2}")


def anything(workload: Workload) -> tuple[Step, ...]:
    return workload.draw() if workload.dice.random() < 0.3 else lists(workload)


@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize(
    ("judge", "draw", "by_position"),
    [
        pytest.param(linearizable, Workload.single, False, id="linearizable"),
        pytest.param(check, anything, True, id="all three"),
        pytest.param(serializable, lists, False, id="serializable"),
    ],
)
def test_a_checker_accepts_exactly_the_explainable_histories(
    judge: Callable[[History], None], draw: Callable[[Workload], Any], by_position: bool, batch: int
) -> None:
    """The witness alone accepts a little more: see doubts.py. The others reject these histories."""
    wrong = 0
    seeds = range(batch * HISTORIES, (batch + 1) * HISTORIES)
    for seed in seeds:
        history = small(seed, draw)
        right = explained(history, by_position=by_position)
        assert right == accepts(judge, history), f"seed {seed}"
        wrong += not right
    assert HISTORIES // 5 < wrong < HISTORIES * 4 // 5
    reliability.record(
        test=f"histories against every order: {judge.__name__}",
        seeds=f"{seeds[0]}-{seeds[-1]}",
        checked=HISTORIES,
    )
