"""Which items changed lately, for reads that take two looks.

A read of several partitions is isolated if nothing that it reads changed between its first look and its last. How far
back that is known is bounded by count; what was forgotten counts as changed.
"""

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from ..log.commands import Check
from .fold.outcomes import Applied, Done, Outcome, Taken, Transacted

CHANGES_KEPT: Final = 100_000

Key: TypeAlias = tuple[int, bytes, bytes]


class RecentChanges:
    """The last offset at which each of the items that changed last did.

    Args:
        since: The offset before which nothing is known.
        kept: How many items are remembered.
    """

    def __init__(self, since: int, kept: int = CHANGES_KEPT) -> None:
        self._offsets: dict[Key, int] = {}  # the one that changed longest ago first
        self._known_after = since - 1
        self._kept = kept

    def note(self, offset: int, outcomes: Iterable[Outcome]) -> None:
        """Remember what the entry at `offset` changed."""
        offsets = self._offsets
        for outcome in outcomes:
            for key in _changed(outcome):
                offsets.pop(key, None)
                offsets[key] = offset
        while len(offsets) > self._kept:
            self._known_after = offsets.pop(next(iter(offsets)))

    def changed(self, key: Key, after: int) -> bool:
        """Whether an item changed after the entry at offset `after`, or may have."""
        return after < self._known_after or self._offsets.get(key, -1) > after


def _changed(outcome: Outcome) -> Iterator[Key]:
    match outcome:
        case Applied(action=action) if not isinstance(action, Check):
            yield action.table, action.pk, action.sk
        case Transacted(actions=actions):
            for each in actions:
                if isinstance(each, Applied):
                    yield from _changed(each)
        case Taken(applied=applied):
            for each in applied:
                yield from _changed(each)
        case Done(change=change) if change is not None:
            yield change.table, change.pk, change.sk
