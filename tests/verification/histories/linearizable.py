"""Checks each item's operations without trusting any position.

Is there one order of an item's operations, in which each takes effect at one moment between its call and its answer,
that explains every answer? Items are independent, so each is searched alone. The search walks through the calls and
answers in time and keeps every configuration that is still possible:

    (the pending operations that have taken effect, the state after them)

A call makes an operation pending. An answer keeps the configurations in which its operation took effect with the
client's result; configurations without it are extended first, by pending operations in every order. An operation in
doubt may take effect until its run ends, or not at all. A transaction counts as one operation per item here.

Two rules keep the set small: a read that agrees with the state takes effect at once, because waiting makes it only
harder; and an operation takes effect only when an answer requires it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from tests.verification.histories.history import History, Operation, ViolationError
from tests.verification.histories.model import LOOKS, VERBS, Refused, State, initial

Configuration: TypeAlias = tuple[int, State]  # the set as bits

_SHOWN = 12


@dataclass(slots=True)
class Part:
    """An operation's request for one item."""

    called: int
    ends: int
    verb: str
    argument: Any
    reported: Any
    in_doubt: bool
    looks: bool  # it leaves the state unchanged
    operation: Operation


def linearizable(history: History) -> None:
    """Search an order for each item.

    Raises:
        ViolationError: An item has no such order.
    """
    for key, parts in parts_by_key(history).items():
        search(key, parts)


def parts_by_key(history: History) -> dict[str, list[Part]]:
    """Return the requests for each item whose result is known, or which may have changed it."""
    parts: dict[str, list[Part]] = {}
    for operation in history.operations:
        _, called, answered, steps, reported, _ = operation
        if answered is None:
            if not operation.looks:
                ends = history.deadline(operation)
                for key, verb, argument in steps:
                    part = Part(called, ends, verb, argument, None, True, False, operation)
                    parts.setdefault(key, []).append(part)
        elif reported is not None:
            refused = operation.refused
            for (key, verb, argument), result in zip(steps, reported, strict=True):
                # Of a refused transaction, only its reads count.
                looks = verb in LOOKS or type(result) is Refused
                if looks or not refused:
                    part = Part(called, answered, verb, argument, result, False, looks, operation)
                    parts.setdefault(key, []).append(part)
    return parts


def search(key: str, parts: list[Part]) -> None:
    """Search an order for one item's operations.

    Raises:
        ViolationError: The operations have no such order.
    """
    configurations: set[Configuration] = {(0, initial(key))}
    pending: dict[int, Part] = {}  # by bit
    bits: dict[int, int] = {}
    for number, is_call in _events(parts):
        part = parts[number]
        if is_call:
            bit = bits[number] = _free_bit(pending)
            pending[bit] = part
            if part.looks:
                configurations = {_with_looks(one, {bit: part}) for one in configurations}
            continue
        bit = bits.pop(number)
        having = (_alone if len(pending) == 1 else _having)(bit, configurations, pending)
        if part.in_doubt:
            having |= configurations  # it may never have happened
        elif not having:
            raise ViolationError(_explained(key, part, configurations, pending.values(), parts))
        del pending[bit]
        configurations = {(effective & ~bit, state) for effective, state in having}


def _events(parts: list[Part]) -> list[tuple[int, bool]]:
    """Return calls and answers in time, as (number of the part, whether it is its call); calls first at equal times."""
    events = [(part.called, 0, number) for number, part in enumerate(parts)]
    events += [(part.ends, 1, number) for number, part in enumerate(parts)]
    events.sort()
    return [(number, not is_end) for _, is_end, number in events]


def _free_bit(pending: dict[int, Part]) -> int:
    bit = 1
    while bit in pending:
        bit <<= 1
    return bit


def _having(bit: int, configurations: set[Configuration], pending: dict[int, Part]) -> set[Configuration]:
    """Return the configurations in which a pending operation has taken effect, extending those that lack it."""
    having = {one for one in configurations if one[0] & bit}
    reached = set(configurations)
    waiting = [one for one in configurations if not one[0] & bit]
    looks = {each: part for each, part in pending.items() if part.looks}
    while waiting:
        effective, state = waiting.pop()
        for each, part in pending.items():
            if effective & each:
                continue
            after, would = VERBS[part.verb](state, part.argument)
            if type(would) is Refused if part.in_doubt else would != part.reported:
                continue
            found = (effective | each, after)
            if looks:
                found = _with_looks(found, looks)
            if found in reached:
                continue
            reached.add(found)
            if found[0] & bit:
                having.add(found)
            else:
                waiting.append(found)
    return having


def _alone(bit: int, configurations: set[Configuration], pending: dict[int, Part]) -> set[Configuration]:
    """Do the same when no other operation is pending, which is the usual case."""
    part, having = pending[bit], set()
    for configuration in configurations:
        if configuration[0]:
            having.add(configuration)
            continue
        after, would = VERBS[part.verb](configuration[1], part.argument)
        if type(would) is not Refused if part.in_doubt else would == part.reported:
            having.add((bit, after))
    return having


def _with_looks(configuration: Configuration, looks: dict[int, Part]) -> Configuration:
    """Let all pending reads take effect whose result is the current state."""
    effective, state = configuration
    for bit, part in looks.items():
        if not effective & bit and VERBS[part.verb](state, part.argument)[1] == part.reported:
            effective |= bit
    return effective, state


def _explained(
    key: str, part: Part, before: set[Configuration], pending: Iterable[Part], parts: list[Part]
) -> str:
    states = " or ".join(sorted({str(state) for _, state in before}))
    earlier = sorted((one for one in parts if one.ends < part.called), key=lambda one: one.ends)[-_SHOWN:]
    meanwhile = [one for one in pending if one is not part]
    return "\n  ".join(
        [
            f"no order of what was asked of {key} explains the last of these; before it {key} held {states}",
            *(str(one.operation) for one in earlier),
            "at the same time:",
            *(str(one.operation) for one in meanwhile),
            str(part.operation),
        ]
    )
