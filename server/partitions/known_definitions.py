"""The definitions that reads of the past have found, for the next reads at cuts nearby.

    definitions at a cut ──► the span of cuts that have them ──► kept until a record or command is declared void

Each read of the past begins with the definitions of its tables. They change seldom, so most reads need no answer of the
histories for them. Nothing else changes the past of a partition, so a span stays true.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import Final, TypeAlias

from ...materializer.fold.fold_record import Void
from ...materializer.history.history import PartitionCut, TimeCut
from ...materializer.history.requests import PastTables
from ...materializer.history.version_keys import pack_position

SPANS_KEPT: Final = 256
"""The most spans. A partition has about one for each epoch and combination of tables that is read."""
_SINCE: Final = attrgetter("since")

_Kind: TypeAlias = tuple[bool, tuple[str, ...]]
"""Whether the cuts are times, and the names of the tables."""


class KnownDefinitions:
    """See the module. Each method is passed the commands that the partition has skipped so far."""

    def __init__(self) -> None:
        self._spans: dict[_Kind, list[PastTables]] = {}  # in the order of their first cuts
        self._count = 0
        self._void: list[Void] = []

    def find(self, cut: PartitionCut, names: Sequence[str], void: Sequence[Void]) -> PastTables | None:
        """Return the definitions of tables at a cut; None if they are not known."""
        self._check(void)
        kind, place = _place(cut, names)
        spans = self._spans.get(kind, [])
        before = bisect_right(spans, place, key=_SINCE)
        return spans[before - 1] if before and place < spans[before - 1].until else None

    def add(self, cut: PartitionCut, names: Sequence[str], found: PastTables, void: Sequence[Void]) -> None:
        """Keep the answer to a read that began when these commands were void.

        If a table is missing, nothing is kept: an epoch does not know since when, and no later step of the read would
        find that a trim has passed the cut.
        """
        if self._void != void or len(found.tables) < len(names):
            return
        if self._count >= SPANS_KEPT:
            self._clear()
        kind, _ = _place(cut, names)
        spans = self._spans.setdefault(kind, [])
        at = bisect_left(spans, found.since, key=_SINCE)
        if at < len(spans) and spans[at].since == found.since:  # the log has been folded further
            spans[at] = found
        else:
            spans.insert(at, found)
            self._count += 1

    def _check(self, void: Sequence[Void]) -> None:
        if self._void != void:
            self._clear()
            self._void = list(void)

    def _clear(self) -> None:
        self._spans.clear()
        self._count = 0


def _place(cut: PartitionCut, names: Sequence[str]) -> tuple[_Kind, int]:
    """Return the kind of a cut, and its place among the cuts of this kind."""
    if isinstance(cut, TimeCut):
        return (True, tuple(names)), cut.time_ms
    return (False, tuple(names)), pack_position(cut.offset, cut.index)
