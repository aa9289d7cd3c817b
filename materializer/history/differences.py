"""The items of a table that differ between two cuts, in the order of their last changes.

    timeline between the cuts ──► each version ──► the newest of its key at the later cut? ──► compared with the earlier

So the steps depend on the changes between the cuts, and not on the size of the table. A key counts at its last change:
no set of keys is kept, and a page can begin at any version. The items that decided transactions lay over a cut
(decided_parts.py) come last, because their Commits are after it.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Final

from ..fold.storage import Stored
from .engine import VersionCursor
from .requests import Difference, PastDifferences, ReadDifferences
from .timeline import Figures, VersionWritten, late_rows, time_at, written
from .version_history import SpannedHistory, VersionedState
from .version_keys import (
    STAMP_BYTES,
    is_visible,
    offset_of,
    pack_position,
    position_stamp,
    read_key,
    read_stamp,
    stamp,
)

PAGE_VERSIONS: Final = 10_000
"""The versions that one page looks at, at most."""

_PAGE_BYTES: Final = 1 << 20


def read_differences(
    history: SpannedHistory, since: VersionedState, until: VersionedState, read: ReadDifferences
) -> PastDifferences:
    """Return a page of the items that differ.

    Raises:
        NotFoldedError: An epoch between the cuts is not folded yet.
    """
    between = _Between(history, since, until, read.table)
    found: list[Difference] = []
    size = looked = 0
    for nth_epoch, offset, nth, version in between.candidates(read):
        if len(found) >= read.limit or looked >= PAGE_VERSIONS or size > _PAGE_BYTES:
            return PastDifferences(found, (offset, nth))
        looked += 1
        if not between.is_last_change(nth_epoch, offset, version):
            continue
        old, new = between.old(version.key), between.new(version.key)
        before, after = None if old is None else old[0], None if new is None else new[0]
        if before != after:
            _, pk, sk = read_key(version.key)
            log_time = time_at(between.epochs[nth_epoch].engine, offset_of(version.position))
            found.append(Difference(pk, sk, before, after, version.position, log_time))
            size += len(before or b"") + len(after or b"")
    return PastDifferences(found, None)


class _Between:
    """The epochs between two cuts.

    Attributes:
        epochs: The epochs, the newest first.
    """

    def __init__(
        self, history: SpannedHistory, since: VersionedState, until: VersionedState, table: int
    ) -> None:
        self._since, self._until = since, until
        self._end = until.position.offset + 1
        self._old_laid, self._new_laid = since.laid(table), until.laid(table)
        self._old_cursor = since.engine.chains()
        # All versions before the epoch of the earlier cut are visible there.
        self._first = max(since.position.offset, since.history.first_offset)
        self.epochs = [until.history]
        cuts = [until.cut]
        while self.epochs[-1].first_offset > self._first:
            last = self.epochs[-1].first_offset - 1
            self.epochs.append(history.epoch_at(last))
            cuts.append(position_stamp(pack_position(last, None)))
        self._cursors = [
            (epoch, epoch.engine.chains(), cut) for epoch, cut in zip(self.epochs, cuts, strict=True)
        ]

    def candidates(self, read: ReadDifferences) -> Iterator[tuple[int, int, int, VersionWritten]]:
        """Yield the versions between the cuts, from the start of the page on.

        Each with the number of its epoch, its offset, and its number in the record.
        """
        start = (self._first, 0) if read.start is None else read.start
        end = self._end
        for nth_epoch in reversed(range(len(self.epochs))):
            epoch = self.epochs[nth_epoch]
            last = self.epochs[nth_epoch - 1].first_offset if nth_epoch else end
            rows = written(epoch.engine, read.table, max(start[0], epoch.first_offset), last)
            if not nth_epoch:
                rows = chain(rows, _late(self._until, read.table, max(start[0], end)), self._laid())
            for offset, _, versions in rows:
                for nth, version in enumerate(versions):
                    if (offset, nth) >= start:
                        yield nth_epoch, offset, nth, version

    def _laid(self) -> Iterator[tuple[int, Figures, list[VersionWritten]]]:
        """Yield the items that are laid over either cut and applied after the later one, as a record after it."""
        if self._until.time_ms is None:
            commits = {key: commit for key, (commit, _) in (self._old_laid | self._new_laid).items()}
            last = read_stamp(self._until.cut)[1]
            laid = sorted((commit, key) for key, commit in commits.items() if commit > last)
            yield self._end, Figures(0, 0), [VersionWritten(key, stamp(0, each), 0, 0) for each, key in laid]

    def is_last_change(self, nth_epoch: int, offset: int, version: VersionWritten) -> bool:
        """Return whether a candidate is the last change of its key between the cuts."""
        if offset >= self._end and self._until.time_ms is None:
            return True
        return (
            version.key not in self._new_laid
            and not is_visible(version.stamp, self._since.cut)
            and is_visible(version.stamp, self._until.cut)
            and self._is_newest(nth_epoch, version)
        )

    def _is_newest(self, nth_epoch: int, version: VersionWritten) -> bool:
        """Return whether a version is the newest of its key at the later cut."""
        for epoch, cursor, cut in self._cursors[: nth_epoch + 1]:
            newest, _ = _at(cursor, version.key, cut)
            if newest is not None and not epoch.is_of_base(read_stamp(newest)[1]):
                return newest == version.stamp
        return False

    def old(self, key: bytes) -> Stored | None:
        """Return the item at the earlier cut."""
        if key in self._old_laid:
            return self._old_laid[key][1]
        return _at(self._old_cursor, key, self._since.cut)[1]

    def new(self, key: bytes) -> Stored | None:
        """Return the item at the later cut."""
        if key in self._new_laid:
            return self._new_laid[key][1]
        _, cursor, cut = self._cursors[0]
        return _at(cursor, key, cut)[1]


def _late(
    until: VersionedState, table: int, first: int
) -> Iterator[tuple[int, Figures, list[VersionWritten]]]:
    """Yield the records after a cut by time that wrote versions which count at it."""
    if until.time_ms is None:
        return
    offsets = {offset_of(packed) for packed, _ in late_rows(until.engine, table, until.time_ms)}
    for offset in sorted(offset for offset in offsets if offset >= first):
        yield from written(until.engine, table, offset, offset + 1)


def _at(cursor: VersionCursor, key: bytes, cut: bytes) -> tuple[bytes | None, Stored | None]:
    """Return stamp and item of the version of a key that is visible at a cut."""
    at = cursor.seek(key + cut)
    while at is not None and at.startswith(key):
        if is_visible(at[-STAMP_BYTES:], cut):
            return at[-STAMP_BYTES:], cursor.value()
        at = cursor.next()
    return None, None
