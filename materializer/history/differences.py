"""The items of a table that differ between two cuts, in the order of their last changes.

    timeline between the cuts ──► each version ──► the newest of its key at the later cut? ──► compared with the earlier

So the steps depend on the changes between the cuts, and not on the size of the table. A key counts at its last change:
no set of keys is kept, and a page can begin at any version.
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
    between = _Between(history, since, until)
    old_cursor = since.engine.chains()
    found: list[Difference] = []
    size = looked = 0
    for nth_epoch, offset, nth, version in between.candidates(read):
        if len(found) >= read.limit or looked >= PAGE_VERSIONS or size > _PAGE_BYTES:
            return PastDifferences(found, (offset, nth))
        looked += 1
        if is_visible(version.stamp, since.cut) or not is_visible(version.stamp, until.cut):
            continue
        if not between.is_newest(nth_epoch, version):
            continue  # a later version of the key follows
        _, old = _at(old_cursor, version.key, since.cut)
        new = between.newest(version.key)
        before, after = None if old is None else old[0], None if new is None else new[0]
        if before != after:
            _, pk, sk = read_key(version.key)
            log_time = time_at(between.epochs[nth_epoch].engine, offset)
            found.append(Difference(pk, sk, before, after, version.position, log_time))
            size += len(before or b"") + len(after or b"")
    return PastDifferences(found, None)


class _Between:
    """The epochs between two cuts.

    Attributes:
        epochs: The epochs, the newest first.
    """

    def __init__(self, history: SpannedHistory, since: VersionedState, until: VersionedState) -> None:
        self._until = until
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
        end = self._until.position.offset + 1
        for nth_epoch in reversed(range(len(self.epochs))):
            epoch = self.epochs[nth_epoch]
            last = self.epochs[nth_epoch - 1].first_offset if nth_epoch else end
            rows = written(epoch.engine, read.table, max(start[0], epoch.first_offset), last)
            if not nth_epoch:
                rows = chain(rows, _late(self._until, read.table, max(start[0], end)))
            for offset, _, versions in rows:
                for nth, version in enumerate(versions):
                    if (offset, nth) >= start:
                        yield nth_epoch, offset, nth, version

    def is_newest(self, nth_epoch: int, version: VersionWritten) -> bool:
        """Return whether a version is the newest of its key at the later cut."""
        for epoch, cursor, cut in self._cursors[: nth_epoch + 1]:
            newest, _ = _at(cursor, version.key, cut)
            if newest is not None and not epoch.is_of_base(read_stamp(newest)[1]):
                return newest == version.stamp
        return False

    def newest(self, key: bytes) -> Stored | None:
        """Return the item at the later cut."""
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
