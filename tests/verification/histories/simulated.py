"""Histories without a server: random correct ones, and the same with one answer changed.

A drawn client takes one of three steps: it sends a request, the request takes effect, the answer arrives. A crash
leaves requests in doubt, whether they had taken effect or not; some may take effect during the crash.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.verification.histories.history import INDEX_BITS, WHOLE_ENTRY, History, Operation, Step
from tests.verification.histories.model import VERBS, Refused, States
from tests.verification.histories.workload import Workload


@dataclass(slots=True)
class _Request:
    steps: tuple[Step, ...]
    called: int
    reported: tuple[Any, ...] | None = None
    position: int = -1


class Database:
    """A correct database: it applies steps, one transaction after the other."""

    def __init__(self) -> None:
        self._states = States()
        self._offset = 0

    def perform(self, steps: tuple[Step, ...]) -> tuple[tuple[Any, ...], int]:
        """Apply steps; return the results and the position."""
        done = [VERBS[step.verb](self._states[step.key], step.argument) for step in steps]
        reported = tuple(result for _, result in done)
        if any(type(one) is Refused for one in reported):
            reported = tuple(one if type(one) is Refused else None for one in reported)
        else:
            self._states.update(zip((step.key for step in steps), (after for after, _ in done), strict=True))
        if all(step.verb == "get" for step in steps):
            return reported, self._offset << INDEX_BITS | WHOLE_ENTRY
        self._offset += 1
        return reported, self._offset << INDEX_BITS


def simulated(
    seed: int,
    operations: int,
    *,
    clients: int = 16,
    keys: int = 100,
    transactions: float = 0.2,
    crashes: float = 0.001,
    draw: Callable[[Workload], tuple[Step, ...]] = Workload.draw,
) -> History:
    """Return a correct history of `operations` operations; `crashes` is the probability of a crash at any moment."""
    dice = random.Random(seed)
    history, database = History(), Database()
    workload = Workload(history, dice, keys, transactions)
    requests: dict[int, _Request] = {}
    now = 0
    history.begin(0, now)
    while len(history.operations) < operations:
        now += dice.randint(0, 3)
        if dice.random() < crashes:
            _crash(history, database, requests, dice)
            now += 1
            history.begin(len(history.runs), now)
        client = dice.randrange(clients)
        request = requests.get(client)
        if request is None:
            requests[client] = _Request(draw(workload), now)
        elif request.reported is None:
            request.reported, request.position = database.perform(request.steps)
        else:
            del requests[client]
            ended = Operation(client, request.called, now, request.steps, request.reported, request.position)
            history.operations.append(ended)
            workload.saw(ended)
    _crash(history, database, requests, dice)
    return history


def _crash(history: History, database: Database, requests: dict[int, _Request], dice: random.Random) -> None:
    for client, request in requests.items():
        if request.reported is None and dice.random() < 0.5:
            database.perform(request.steps)
        history.operations.append(Operation(client, request.called, None, request.steps, None))
    requests.clear()


def mutated(
    history: History, dice: random.Random, changed: Callable[[Step, Any], Any] | None = None
) -> History:
    """Return the same history with another result for one step, if there is an answer."""
    places = [
        (number, nth)
        for number, operation in enumerate(history.operations)
        for nth, reported in enumerate(operation.reported or ())
        if operation.steps[nth].verb not in ("put", "append")
        and (reported is not None or not operation.refused)
    ]
    if not places:
        return history
    number, nth = dice.choice(places)
    operation = history.operations[number]
    assert operation.reported is not None
    reported = list(operation.reported)
    reported[nth] = (changed or unheard_of)(operation.steps[nth], reported[nth])
    other = History()
    other.operations, other.runs = list(history.operations), list(history.runs)
    other.operations[number] = operation._replace(reported=tuple(reported))
    return other


def unheard_of(step: Step, reported: Any) -> Any:
    """Return an answer to a step with a value that was never written."""
    if step.verb == "add":
        return reported + 1_000_000
    if step.verb in ("put_if", "size", "move"):
        return Refused({"r": (-1, None), "l": (-1,), "a": -1}[step.key[0]])
    match step.key[0]:
        case "r":
            return (-1, None) if reported is None else (-1, reported[1])
        case "l":
            return (*reported, -1)
        case _:
            return reported + 1_000_000
