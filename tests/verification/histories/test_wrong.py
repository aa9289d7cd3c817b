"""Hand-written histories that no correct database could have produced, and the checkers that must reject them."""

import random
import re
from ast import literal_eval
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from tests.verification.histories import History, Operation, Step, ViolationError, check
from tests.verification.histories.history import position
from tests.verification.histories.linearizable import linearizable
from tests.verification.histories.model import ACCOUNTS, Refused
from tests.verification.histories.serializable import serializable
from tests.verification.histories.simulated import mutated, simulated
from tests.verification.histories.witness import witness

Judge: TypeAlias = Callable[[History], None]

JUDGES = {"W": witness, "L": linearizable, "S": serializable}
AUDIT = ", ".join(f"a{number} get" for number in range(ACCOUNTS))


def was(when: str, asked: str, *reported: Any, at: str = "0") -> Operation:
    """Return an operation: called-answered, its steps, the result of each, and the position in the answer.

    Without an answer's time it is in doubt; with one and no results, it was rejected.
    """
    called, _, answered = when.partition("-")
    steps = []
    for step in asked.split(", "):
        key, verb, *argument = step.split(" ")
        steps.append(Step(key, verb, literal_eval(argument[0]) if argument else None))
    return Operation(
        client=0,
        called=int(called),
        answered=int(answered) if answered else None,
        steps=tuple(steps),
        reported=reported or None,
        position=position(at),
    )


def history(*operations: Operation, runs: tuple[int, ...] = (0,)) -> History:
    made = History()
    made.operations, made.runs = list(operations), list(runs)
    return made


WRONG: dict[str, tuple[str, History]] = {
    "a stale read": ("WL", history(
        was("1-2", "r0 put 1", None, at="1.0"),
        was("3-4", "r0 put 2", None, at="2.0"),
        was("5-6", "r0 get", (1, None), at="2"),
    )),
    "a stale read that says so": ("WL", history(
        was("1-2", "r0 put 1", None, at="1.0"),
        was("3-4", "r0 put 2", None, at="2.0"),
        was("5-6", "r0 get", (1, None), at="1"),
    )),
    "a read that goes back": ("WL", history(
        was("1-9", "r0 put 1", None, at="1.0"),
        was("2-3", "r0 get", (1, None), at="1"),
        was("4-5", "r0 get", None, at="1"),
    )),
    "a lost update": ("WL", history(
        was("1-4", "r0 add 5", 5, at="1.0"),
        was("2-5", "r0 add 7", 7, at="2.0"),
    )),
    "an update applied twice": ("WL", history(
        was("1-2", "r0 add 5", 5, at="1.0"),
        was("3-4", "r0 get", (None, 10), at="1"),
    )),
    "a lost conditional update": ("WL", history(
        was("1-4", "r0 put_if (None,1)", None, at="1.0"),
        was("2-5", "r0 put_if (None,2)", None, at="1.1"),
    )),
    "a condition that held and refused": ("WL", history(
        was("1-2", "r0 put 1", None, at="1.0"),
        was("3-4", "r0 put_if (1,2)", Refused((1, None)), at="2.0"),
    )),
    "a dirty read of a rejected write": ("WL", history(
        was("1-2", "r0 put 1"),
        was("3-4", "r0 get", (1, None), at="1"),
    )),
    "a dirty read of a refused write": ("WL", history(
        was("1-2", "r0 put_if (9,1)", Refused(None), at="1.0"),
        was("3-4", "r0 get", (1, None), at="1"),
    )),
    "a read of what nobody wrote": ("WL", history(
        was("1-2", "r0 get", (77, None), at="1"),
    )),
    "old values that were never there": ("WL", history(
        was("1-2", "r0 put 1", None, at="1.0"),
        was("3-4", "r0 swap 2", None, at="2.0"),
    )),
    "a write acknowledged and lost": ("WL", history(
        was("1-2", "r0 put 1", None, at="1.0"),
        was("11-12", "r0 get", None, at="1"),
        runs=(0, 10),
    )),
    "a deletion acknowledged and lost": ("WL", history(
        was("1-2", "r0 put 1", None, at="1.0"),
        was("3-4", "r0 delete", (1, None), at="2.0"),
        was("11-12", "r0 get", (1, None), at="2"),
        runs=(0, 10),
    )),
    "a future read": ("WL", history(
        was("1-2", "r0 get", (1, None), at="1"),
        was("3-4", "r0 put 1", None, at="2.0"),
    )),
    "a future read that says so": ("WL", history(
        was("1-2", "r0 get", (1, None), at="2"),
        was("3-4", "r0 put 1", None, at="2.0"),
    )),
    "a doubt seen, and then not": ("WL", history(
        was("1-", "r0 put 1"),
        was("11-12", "r0 get", (1, None), at="1"),
        was("21-22", "r0 get", None, at="1"),
        runs=(0, 10, 20),
    )),
    "a doubt that happens after a restart": ("WL", history(
        was("1-", "r0 put 1"),
        was("11-12", "r0 get", None, at="1"),
        was("13-14", "r0 get", (1, None), at="2"),
        runs=(0, 10),
    )),
    "a doubt that happens twice": ("WL", history(
        was("1-", "r0 add 5"),
        was("2-3", "r0 get", (None, 5), at="1"),
        was("4-5", "r0 get", (None, 10), at="2"),
    )),
    "half of a doubt": ("WS", history(
        was("1-", "l0 append 1, l1 append 1"),
        was("11-12", "l0 get, l1 get", (1,), (), at="1"),
        was("13-14", "l1 get", (1,), at="2"),
        runs=(0, 10),
    )),
    "half of a doubt, read one by one": ("WS", history(
        was("1-", "l0 append 1, l1 append 1"),
        was("11-12", "l0 get", (1,), at="1"),
        was("13-14", "l1 get", (), at="1"),
        runs=(0, 10),
    )),
    "two writes at one position": ("W", history(
        was("1-2", "r0 put 1", None, at="1.0"),
        was("1-2", "r1 put 2", None, at="1.0"),
    )),
    "a write without a place": ("W", history(
        was("1-2", "r0 put 1", None, at="1"),
    )),
    "positions against time": ("W", history(
        was("1-2", "r0 put 1", None, at="2.0"),
        was("3-4", "r1 put 2", None, at="1.0"),
    )),
    "a torn transaction": ("WS: G-single", history(
        was("1-9", "l0 append 1, l1 append 1", None, None, at="1.0"),
        was("2-3", "l0 get, l1 get", (1,), (), at="1"),
        was("10-11", "l1 get", (1,), at="1"),
    )),
    "a read that is not repeatable in its transaction": ("WS: G-single", history(
        was("1-9", "l0 append 1, l1 append 1", None, None, at="1.0"),
        was("2-8", "l0 get, l1 get", (), (1,), at="0"),
        was("10-11", "l0 get", (1,), at="1"),
    )),
    "appends that cross": ("WS: G0", history(
        was("1-9", "l0 append 1, l1 append 1", None, None, at="1.0"),
        was("1-9", "l0 append 2, l1 append 2", None, None, at="2.0"),
        was("10-11", "l0 get, l1 get", (1, 2), (2, 1), at="2"),
    )),
    "a dirty append": ("WLS: G1a", history(
        was("1-2", "l0 append 1, l1 size 5", None, Refused(()), at="1.0"),
        was("3-4", "l0 get", (1,), at="1"),
    )),
    "a rejected append that is there": ("WLS: G1a", history(
        was("1-2", "l0 append 1"),
        was("3-4", "l0 get", (1,), at="1"),
    )),
    "half of what a transaction appends to one list": ("S: G1b", history(
        was("1-9", "l0 append 1, l0 append 2", None, None, at="1.0"),
        was("2-3", "l0 get", (1,), at="1"),
        was("10-11", "l0 get", (1, 2), at="1"),
    )),
    "transactions that see each other": ("WS: G1c", history(
        was("1-9", "l0 append 1, l1 get", None, (2,), at="1.0"),
        was("1-9", "l1 append 2, l0 get", None, (1,), at="2.0"),
    )),
    "write skew": ("WS: G2", history(
        was("1-9", "l0 append 1, l1 size 0", None, None, at="1.0"),
        was("1-9", "l1 append 2, l0 size 0", None, None, at="2.0"),
        was("10-11", "l0 get, l1 get", (1,), (2,), at="2"),
    )),
    "two readers that disagree": ("WS: G2", history(
        was("1-9", "l0 append 1", None, at="1.0"),
        was("1-9", "l1 append 2", None, at="2.0"),
        was("2-8", "l0 get, l1 get", (1,), (), at="1"),
        was("2-8", "l0 get, l1 get", (), (2,), at="2"),
    )),
    "an append acknowledged and lost": ("WLS: real-time cycle", history(
        was("1-2", "l0 append 1", None, at="1.0"),
        was("11-12", "l0 get", (), at="1"),
        was("13-14", "l0 append 2", None, at="2.0"),
        was("15-16", "l0 get", (2,), at="2"),
        runs=(0, 10),
    )),
    "an order against time": ("WS: real-time cycle", history(
        was("1-2", "l0 append 1", None, at="1.0"),
        was("3-4", "l1 append 2", None, at="2.0"),
        was("1-9", "l0 get, l1 get", (), (2,), at="2"),
    )),
    "a lost append": ("WLS: was (1,)", history(
        was("1-9", "l0 append 1", None, at="1.0"),
        was("1-9", "l0 append 2", None, at="2.0"),
        was("1-9", "l0 get", (1,), at="1"),
        was("1-9", "l0 get", (2,), at="2"),
    )),
    "an append applied twice": ("WLS: twice", history(
        was("1-2", "l0 append 1", None, at="1.0"),
        was("3-4", "l0 get", (1, 1), at="1"),
    )),
    "an append that nobody made": ("WLS: nobody appended", history(
        was("3-4", "l0 get", (1,), at="1"),
    )),
    "half of a transfer": ("WLS: the accounts come to 790", history(
        was("1-2", "a0 move -10, a1 move 10", None, None, at="1.0"),
        was("3-4", AUDIT, 90, 100, 100, 100, 100, 100, 100, 100, at="1"),
    )),
    "half of a transfer in doubt": ("WS: the accounts come to 810", history(
        was("1-", "a0 move -10, a1 move 10"),
        was("11-12", AUDIT, 100, 110, 100, 100, 100, 100, 100, 100, at="1"),
        runs=(0, 10),
    )),
    "a transfer of what is not there": ("WLS: overdrawn", history(
        was("1-2", "a0 move -60, a1 move 60", None, None, at="1.0"),
        was("3-4", "a0 move -60, a1 move 60", None, None, at="2.0"),
        was("5-6", "a0 get", -20, at="2"),
    )),
}  # fmt: skip


@pytest.mark.guarantee("G21")
@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_history_is_rejected(what: str) -> None:
    judges, _, why = WRONG[what][0].partition(": ")
    for letter in judges:
        message = re.escape(why) if letter == "S" and why else None
        with pytest.raises(ViolationError, match=message):
            JUDGES[letter](WRONG[what][1])


@pytest.mark.parametrize("seed", range(10))
def test_a_right_history_is_accepted(seed: int) -> None:
    made = simulated(seed, 3000, transactions=0.1 * (seed % 5), keys=5 * (seed + 1))
    check(made)

    assert len(made.runs) > 1


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("judge", [witness, linearizable])
def test_an_answer_with_a_value_never_written_is_rejected(judge: Judge, seed: int) -> None:
    made = mutated(simulated(seed, 1000), random.Random(seed))

    with pytest.raises(ViolationError):
        judge(made)
