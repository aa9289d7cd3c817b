"""Items that an operation in doubt may have changed: every state they may be in.

Between the positions where it opens and where it closes an operation in doubt may happen at any, or at none. So
an item that it touches has possibilities, pairs of a state and the doubts that happened on the way there, and when:

    {(5, {}), (8, {d at 7})}  ──a client reads 8──►  {(8, {d at 7})}

So d happened, after the place before 7 at which somebody looked. What a client is told removes possibilities; when
none is left nobody could have told it. An operation on several items happens on all of them or on none, at one
position: possibilities that its other items rule out go too.

In which order two doubts happened between the same two places is not kept. Items that show them in different orders
pass here; the other judges, who know of no places, see the circle.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

from tests.verification.histories.history import NEVER, Operation, Step
from tests.verification.histories.model import VERBS, Refused, State, States

Possibility: TypeAlias = tuple[State, frozenset[tuple[int, int]]]  # of a doubt and its place


@dataclass(frozen=True, slots=True)
class Doubt:
    """An operation in doubt: it happens after position `after` and before `before`, or never."""

    operation: Operation
    after: int
    before: int


class Doubts:
    """The operations in doubt, along a replay by position.

    Attributes:
        possibilities: By key, for the keys whose state is not known for sure.
        next_change: Beyond this position `go_to` has something to do.
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
        self._tied: dict[str, set[int]] = {}  # those that a key's possibilities tell apart
        self._place = -1
        self._expanded: dict[str, int] = {}  # by key, up to which position
        self.next_change = self._next_change()

    def go_to(self, position: int) -> None:
        """Open and close what does up to a position."""
        self._place = position
        while self._to_open and self._doubts[self._to_open[-1]].after < position:
            self._begin(self._to_open.pop())
        for number in [one for one in self._open if self._doubts[one].before <= position]:
            if number in self._open:  # and not closed along with another
                self._finish(number)
        self.next_change = self._next_change()

    def see(self, step: Step, told: Any, refused: bool, place: int) -> list[State]:
        """Keep what agrees with what a client was told of a step at a place.

        Returns:
            If nothing does: the states that the item could have been in. Else nothing.
        """
        key, verb, argument = step
        self._place = place
        for other in self._related(key):
            self._expand(other)
        before, kept = self.possibilities[key], set()
        for state, happened in before:
            after, would = VERBS[verb](state, argument)
            if possible(would, told, refused):
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
        """It has happened by now, or never will."""
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
        """Add what an item may hold if open doubts happened since somebody looked, before this place.

        Once for each place: what is seen there of one item holds for what is seen there of the next.
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
                # When it happened matters to its other items alone.
                when = self._place if len(self._steps[number]) > 1 else 0
                found = (after, happened | {(number, when)})
                if type(would) is not Refused and found not in reached:
                    reached.add(found)
                    waiting.append(found)

    def _keys(self, number: int) -> list[str]:
        """The items whose possibilities still tell whether and when a doubt happened."""
        return [key for key in self._steps[number] if number in self._tied.get(key, ())]

    def _related(self, key: str) -> set[str]:
        """A key, and those that are tied to it by doubts."""
        related, waiting = {key}, [key]
        while waiting:
            for number in self._tied.get(waiting.pop(), ()):
                new = set(self._keys(number)) - related
                waiting.extend(new)
                related |= new
        return related

    def _agree(self, key: str) -> set[str] | None:
        """Have each doubt happen on all of its items at one place, or on none.

        Returns:
            The keys where possibilities went; None if that cannot be.
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
        """Remove what a doubt's items do not agree on; the keys where something went, or None if all went."""
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
        """Forget what makes no difference any more, and return items to those that are known."""
        for key in keys:
            for number in list(self._tied.get(key, ())):
                self._untie(number, key)
        for key in keys:
            if not self._by_key[key] and not self._tied[key] and len(self.possibilities[key]) == 1:
                ((self._states[key], _),) = self.possibilities.pop(key)

    def _untie(self, number: int, key: str) -> None:
        """Forget when a doubt happened, on an item that would be the same whenever it did."""
        if number in self._open:
            if any(_when(number, one) is None for one in self.possibilities[key]):
                return
            self._close(number)  # it happened for sure, so it will not again
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
    """The place at which a doubt happened, None if it did not."""
    for one, place in possibility[1]:
        if one == number:
            return place
    return None


def _without(number: int, possibility: Possibility) -> Possibility:
    state, happened = possibility
    return state, frozenset(one for one in happened if one[0] != number)


def possible(would: Any, told: Any, refused: bool) -> bool:
    """Whether a step that would tell this may have told that, in an operation that was refused or was not."""
    if refused and type(told) is not Refused:
        return type(would) is not Refused
    return bool(would == told)
