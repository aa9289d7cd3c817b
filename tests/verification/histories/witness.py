"""Checks a history by the positions in its answers.

Each answer claims a position in the log at which it is true. So the order is given, and is only checked:

    1. real time    an operation answered before another one was called has no later position than it
    2. replay       in the order of positions, each step gives the client's result

Positions of different partitions are not comparable: each partition's are checked alone.

An operation in doubt has no position: it may happen at any position from the last one known before its call to the
end of its run. Items that it touches are replayed as sets of possibilities (doubts.py) until reads leave one.
"""

from collections.abc import Iterable
from operator import attrgetter

from tests.verification.histories.doubts import Doubt, Doubts, possible
from tests.verification.histories.history import NEVER, WHOLE_ENTRY, History, Operation, ViolationError, spelt
from tests.verification.histories.model import VERBS, States

_by_call, _by_answer, _by_position = attrgetter("called"), attrgetter("answered"), attrgetter("position")

_SHOWN = 12


def witness(history: History) -> None:
    """Check every answer at its position.

    Raises:
        ViolationError: An answer is wrong at its position.
    """
    for part in history.by_partition():
        _witness(part)


def _witness(history: History) -> None:
    reported = history.reported()
    called = sorted([*reported, *history.doubts()], key=_by_call)
    doubts = _check_real_time(history, called, sorted(reported, key=_by_answer))
    reported.sort(key=_by_position)
    _check_places(reported)
    _replay(reported, doubts)


def _check_real_time(history: History, called: list[Operation], answered: list[Operation]) -> list[Doubt]:
    """Compare each call with the answers before it; return the ranges of the operations in doubt."""
    highest, ended, ends = -1, 0, len(answered)
    next_end = answered[0].answered if answered else NEVER
    first_of_run = _first_positions(history, called)
    doubts = []
    for operation in called:
        _, begun, _, _, reported, place = operation
        while next_end is not None and next_end < begun:
            if answered[ended].position > highest:
                highest = answered[ended].position
            ended += 1
            next_end = answered[ended].answered if ended < ends else NEVER
        if reported is None:
            deadline = history.deadline(operation)
            doubts.append(Doubt(operation, highest, first_of_run.get(deadline, NEVER)))
        elif place < highest:
            raise _explained("answered as of an earlier position than was known", operation, answered[:ended])
    return doubts


def _first_positions(history: History, called: list[Operation]) -> dict[int, int]:
    """Return, by the time at which a run began, the lowest position from then on."""
    first: dict[int, int] = {}
    lowest, runs = NEVER, history.runs[1:]
    for operation in reversed(called if runs else []):
        while runs and operation.called <= runs[-1]:
            first[runs.pop()] = lowest
        if operation.reported is not None and operation.position < lowest:
            lowest = operation.position
    return first


def _check_places(reported: Iterable[Operation]) -> None:
    """Check that each write has a position of its own; reads may share the end of an entry."""
    before: Operation | None = None
    for operation in reported:
        place = operation.position
        if place & WHOLE_ENTRY == WHOLE_ENTRY:
            if not operation.looks:
                raise ViolationError(f"a write has no place in its entry: {operation}")
        elif before is not None and before.position == place:
            raise _explained("two have the same position", operation, [before])
        before = operation


def _replay(reported: list[Operation], doubts: list[Doubt]) -> None:
    states = States()
    open_ones = Doubts(states, doubts)
    change = open_ones.next_change
    unsettled = open_ones.possibilities  # keys with more than one possible state
    for operation in reported:
        _, _, _, steps, results, place = operation
        if place > change:
            open_ones.go_to(place)
            change = open_ones.next_change
        assert results is not None
        if len(steps) == 1:
            key, verb, argument = steps[0]
            if key not in unsettled:
                after, result = VERBS[verb](states[key], argument)
                if result != results[0]:
                    raise _wrong(operation, key, [states[key]], reported)
                states[key] = after
                continue
        _replay_steps(operation, states, open_ones, reported)


def _replay_steps(operation: Operation, states: States, open_ones: Doubts, reported: list[Operation]) -> None:
    """Replay steps of one transaction, or steps on an item with more than one possible state."""
    refused = operation.refused
    for step, result in zip(operation.steps, operation.reported or (), strict=True):
        key, verb, argument = step
        if key in open_ones.possibilities:
            if states_before := open_ones.see(step, result, refused, operation.position):
                raise _wrong(operation, key, states_before, reported)
            continue
        state = states[key]
        after, would = VERBS[verb](state, argument)
        if not possible(would, result, refused):
            raise _wrong(operation, key, [state], reported)
        if not refused:
            states[key] = after


def _wrong(operation: Operation, key: str, states: list[object], reported: list[Operation]) -> ViolationError:
    earlier = [one for one in reported if one.position <= operation.position and one is not operation]
    held = " or ".join(sorted(map(str, states)))
    told_of = [
        result
        for step, result in zip(operation.steps, operation.reported or (), strict=True)
        if step.key == key
    ]
    verdict = f"at {spelt(operation.position)} {key} holds {held}, and a client was told {told_of}"
    return _explained(verdict, operation, [one for one in earlier if any(s.key == key for s in one.steps)])


def _explained(verdict: str, operation: Operation, others: Iterable[Operation]) -> ViolationError:
    """Return an error with the verdict, the operation, and the last of the others in order of position."""
    last = sorted(others, key=_by_position)[-_SHOWN:]
    return ViolationError("\n  ".join([verdict, *map(str, last), str(operation)]))
