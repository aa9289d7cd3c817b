"""The recently written items, for isolated reads that read twice.

A read of several partitions is isolated if no item that it reads changes between its first and its second read. The
number of remembered items is bounded; a forgotten item counts as changed. Items are remembered in two generations, and
the older one is forgotten as a whole: removing single items from the front of a dict takes time in proportion to the
number of those that were removed before.
"""

from collections.abc import Iterable
from typing import Final

from ..log.commands import Action, Check
from .fold.outcomes import Applied, Change, Completed, Loaded, MessageFolded, Outcome, Transacted
from .fold.storage import EncodedKey

CHANGES_KEPT: Final = 50_000


class RecentWrites:
    """The offset of the last write of each recently written item.

    Args:
        since: The offset before which writes are unknown.
        kept: The number of items of a generation.
    """

    def __init__(self, since: int, kept: int = CHANGES_KEPT) -> None:
        self._recent: dict[EncodedKey, int] = {}
        self._older: dict[EncodedKey, int] = {}
        self._known_after = self._older_until = since - 1
        self._kept = kept

    def note(self, offset: int, outcomes: Iterable[Outcome]) -> None:
        """Remember the writes of the entry at `offset`."""
        recent = self._recent
        for outcome in outcomes:
            for action in _writes(outcome):
                recent[action.table, action.pk, action.sk] = offset
        if len(recent) >= self._kept:
            self._known_after, self._older_until = self._older_until, offset
            self._older, self._recent = recent, {}

    def changed(self, key: EncodedKey, after: int) -> bool:
        """Whether an item was written after the entry at offset `after`, or may have been."""
        return after < self._known_after or self._recent.get(key, self._older.get(key, -1)) > after


def _writes(outcome: Outcome) -> Iterable[Action | Change]:
    """Return the possible writes of an outcome."""
    if isinstance(outcome, Applied):
        return (outcome.action,)
    if isinstance(outcome, Transacted):
        return [each.action for each in outcome.actions if isinstance(each, Applied) and not _looks(each)]
    if isinstance(outcome, Loaded):
        return [each.action for each in outcome.applied]
    if isinstance(outcome, MessageFolded):
        return [each.action for each in outcome.applied if not _looks(each)]
    if isinstance(outcome, Completed) and outcome.change is not None:
        return (outcome.change,)
    return ()


def _looks(applied: Applied) -> bool:
    return isinstance(applied.action, Check)
