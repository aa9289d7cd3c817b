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
from .version_history import VersionedState
from .version_keys import STAMP_BYTES, is_visible, offset_of, read_key

PAGE_VERSIONS: Final = 10_000
"""The versions that one page looks at, at most."""

_PAGE_BYTES: Final = 1 << 20


def read_differences(since: VersionedState, until: VersionedState, read: ReadDifferences) -> PastDifferences:
    """Return a page of the items that differ."""
    engine = until.engine
    cursor = engine.chains()
    found: list[Difference] = []
    size = looked = 0
    for offset, nth, version in _candidates(since, until, read):
        if len(found) >= read.limit or looked >= PAGE_VERSIONS or size > _PAGE_BYTES:
            return PastDifferences(found, (offset, nth))
        looked += 1
        if is_visible(version.stamp, since.cut) or not is_visible(version.stamp, until.cut):
            continue
        newest, new = _at(cursor, version.key, until.cut)
        if newest != version.stamp:
            continue  # a later version of the key follows
        _, old = _at(cursor, version.key, since.cut)
        before, after = None if old is None else old[0], None if new is None else new[0]
        if before != after:
            _, pk, sk = read_key(version.key)
            found.append(Difference(pk, sk, before, after, version.position, time_at(engine, offset)))
            size += len(before or b"") + len(after or b"")
    return PastDifferences(found, None)


def _candidates(
    since: VersionedState, until: VersionedState, read: ReadDifferences
) -> Iterator[tuple[int, int, VersionWritten]]:
    """Yield the versions between the cuts, from the start of the page on: offset, number in its record, and version."""
    engine = until.engine
    start = (since.position.offset, 0) if read.start is None else read.start
    end = until.position.offset + 1
    rows = chain(written(engine, read.table, start[0], end), _late(until, read.table, max(start[0], end)))
    for offset, _, versions in rows:
        for nth, version in enumerate(versions):
            if (offset, nth) >= start:
                yield offset, nth, version


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
