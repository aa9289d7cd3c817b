"""Items that an operation in doubt may have changed: the set of their possible states.

An operation in doubt may happen at any position between its opening and its closing position, or at none. So an item
that it touches has possibilities: pairs of a state, and the doubts that happened on the way there with their
positions:

    {(5, {}), (8, {d at 7})}  ──a client reads 8──►  {(8, {d at 7})}

So d happened, after the last position before 7 at which the item was read. An answer removes possibilities; if none
remains, the answer is wrong. An operation on several items happens on all of them or on none, at one position: this
rules out further possibilities.

The order of two doubts between the same two positions is not kept. Items that show them in different orders pass
here; the other checkers, which use no positions, find the cycle.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

from tests.verification.histories.history import NEVER, Operation, Step
from tests.verification.histories.model import VERBS, Refused, State, States

Possibility: TypeAlias = tuple[State, frozenset[tuple[int, int]]]  # of a doubt and its position


@dataclass(frozen=True, slots=True)
class Doubt:
    """An operation in doubt: it happens after position `after` and before `before`, or never."""

    operation: Operation
    after: int
    before: int


class Doubts:
    """The operations in doubt, during a replay by position.

    Attributes:
        possibilities: By key, for the keys with more than one possible state.
        next_change: The position after which `go_to` opens or closes a doubt.
    """

    def __init__(self, states: States, doubts: list[Doubt]) -> None:
        self.possibilities: dict[str, set[Possibility]] = {}
        self._states = states
        self._doubts = dict(enumerate(doubts))
        self._steps = {
            number: {step.key: step for step in doubt.operation.steps}
            for number, doubt in self._doubts.items()
        }
        self._to_open = sorted(self._doubts, key=lambda number: -self._doubts[number].after)
        self._open: set[int] = set()
        self._by_key: dict[str, set[int]] = {}  # the open ones
        self._tied: dict[str, set[int]] = {}  # those that differ between the possibilities of a key
        self._place = -1
        self._expanded: dict[str, int] = {}  # by key, up to which position
        self.next_change = self._next_change()

    def go_to(self, position: int) -> None:
        """Open and close the doubts up to a position."""
        self._place = position
        while self._to_open and self._doubts[self._to_open[-1]].after < position:
            self._begin(self._to_open.pop())
        for number in [one for one in self._open if self._doubts[one].before <= position]:
            if number in self._open:  # and not closed along with another
                self._finish(number)
        self.next_change = self._next_change()

    def see(self, step: Step, reported: Any, refused: bool, place: int) -> list[State]:
        """Keep the possibilities that agree with a client's result of a step at a position.

        Returns:
            An empty list; or, if no possibility agrees, the states that were possible.
        """
        key, verb, argument = step
        self._place = place
        for other in self._related(key):
            self._expand(other)
        before, kept = self.possibilities[key], set()
        for state, happened in before:
            after, would = VERBS[verb](state, argument)
            if possible(would, reported, refused):
                kept.add((state if refused else after, happened))
        self.possibilities[key] = kept
        touched = self._agree(key) if kept else None
        if touched is None:
            return [state for state, _ in before]
        self._settle(touched)
        return []

    def _next_change(self) -> int:
        opens = self._doubts[self._to_open[-1]].after if self._to_open else NEVER
        return min([opens, *(self._doubts[number].before - 1 for number in self._open)])

    def _begin(self, number: int) -> None:
        self._open.add(number)
        for key in self._steps[number]:
            self._by_key.setdefault(key, set()).add(number)
            self._tied.setdefault(key, set()).add(number)
            self.possibilities.setdefault(key, {(self._states[key], frozenset())})

    def _finish(self, number: int) -> None:
        """Close a doubt: it has happened, or never will."""
        for key in self._steps[number]:
            for other in self._related(key):
                self._expand(other)
        self._close(number)
        touched = set(self._steps[number])
        for key in self._steps[number]:
            touched |= self._agree(key) or set()
        self._settle(touched)

    def _close(self, number: int) -> None:
        self._open.remove(number)
        for key in self._steps[number]:
            self._by_key[key].remove(number)

    def _expand(self, key: str) -> None:
        """Add the states of an item after doubts that may have happened since its last read, before this position.

        Once per position: all reads at one position see the same.
        """
        if self._expanded.get(key) == self._place:
            return
        self._expanded[key] = self._place
        reached = self.possibilities[key]
        waiting = list(reached) if self._by_key[key] else []
        while waiting:
            state, happened = waiting.pop()
            for number in self._by_key[key] - {one for one, _ in happened}:
                _, verb, argument = self._steps[number][key]
                after, would = VERBS[verb](state, argument)
                # The time matters only to its other items.
                when = self._place if len(self._steps[number]) > 1 else 0
                found = (after, happened | {(number, when)})
                if type(would) is not Refused and found not in reached:
                    reached.add(found)
                    waiting.append(found)

    def _keys(self, number: int) -> list[str]:
        """Return the items whose possibilities still depend on a doubt."""
        return [key for key in self._steps[number] if number in self._tied.get(key, ())]

    def _related(self, key: str) -> set[str]:
        """Return a key and all keys that doubts connect to it."""
        related, waiting = {key}, [key]
        while waiting:
            for number in self._tied.get(waiting.pop(), ()):
                new = set(self._keys(number)) - related
                waiting.extend(new)
                related |= new
        return related

    def _agree(self, key: str) -> set[str] | None:
        """Keep the possibilities in which each doubt happens on all of its items at one position, or on none.

        Returns:
            The keys that lost possibilities; None if no consistent combination remains.
        """
        touched, waiting = {key}, {key}
        while waiting:
            for number in self._tied.get(waiting.pop(), ()):
                changed = self._align(number)
                if changed is None:
                    return None
                waiting |= changed
                touched |= changed
        return touched

    def _align(self, number: int) -> set[str] | None:
        """Remove the possibilities of a doubt on which its items disagree; return the affected keys, or None if none
        remain.
        """
        keys = self._keys(number)
        common = set.intersection(*({_when(number, one) for one in self.possibilities[key]} for key in keys))
        if not common:
            return None
        changed = set()
        for key in keys:
            kept = {one for one in self.possibilities[key] if _when(number, one) in common}
            if len(kept) < len(self.possibilities[key]):
                self.possibilities[key] = kept
                changed.add(key)
        return changed

    def _settle(self, keys: set[str]) -> None:
        """Merge equal possibilities, and return items with one state to the known ones."""
        for key in keys:
            for number in list(self._tied.get(key, ())):
                self._untie(number, key)
        for key in keys:
            if not self._by_key[key] and not self._tied[key] and len(self.possibilities[key]) == 1:
                ((self._states[key], _),) = self.possibilities.pop(key)

    def _untie(self, number: int, key: str) -> None:
        """Forget the time of a doubt for an item whose state does not depend on it."""
        if number in self._open:
            if any(_when(number, one) is None for one in self.possibilities[key]):
                return
            self._close(number)  # it has happened, so it will not happen again
        told_apart: dict[Possibility, set[int | None]] = {}
        for one in self.possibilities[key]:
            told_apart.setdefault(_without(number, one), set()).add(_when(number, one))
        whens = list(told_apart.values())
        alone = len(self._keys(number)) == 1
        if alone or all(one == whens[0] for one in whens):
            self.possibilities[key] = set(told_apart)
            self._tied[key].remove(number)
            for other in self._keys(number):
                if len(self._keys(number)) == 1:
                    self._untie(number, other)


def _when(number: int, possibility: Possibility) -> int | None:
    """Return the position at which a doubt happened; None if it did not."""
    for one, place in possibility[1]:
        if one == number:
            return place
    return None


def _without(number: int, possibility: Possibility) -> Possibility:
    state, happened = possibility
    return state, frozenset(one for one in happened if one[0] != number)


def possible(would: Any, reported: Any, refused: bool) -> bool:
    """Whether a step with the result `would` may have the result `told`, in an operation that was refused or not."""
    if refused and type(reported) is not Refused:
        return type(would) is not Refused
    return bool(would == reported)
