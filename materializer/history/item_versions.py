"""The versions of one item and the refused writes to it, the newest first.

    versions at the key ──┐
                          ├──► merged by position ──► page ──► the next older epoch
    refused writes ───────┘

Effective time and log time never fall along a key. So a page begins with one seek in each, however long the history is,
and everything older than an entry that `since` includes is included too.

The base of an epoch has no entry here: its versions are entries of older epochs. Only that of a trimmed log is shown.
"""

from collections.abc import Iterator
from heapq import merge
from typing import Final, NamedTuple

from ..fold.storage import Stored
from .attribution import RefusedWrite, author_at, refused_writes
from .engine import Engine
from .history import NotFoldedError, PartitionCut, TimeCut
from .requests import ItemVersion, PastVersions, ReadVersions
from .timeline import time_at
from .version_history import SpannedHistory, VersionedState, VersionHistory
from .version_keys import (
    STAMP_BYTES,
    StoreKeys,
    is_visible,
    offset_of,
    pack_position,
    position_stamp,
    read_stamp,
    stamp,
    time_stamp,
)

_PAGE_BYTES: Final = 1 << 20


class _Entry(NamedTuple):
    position: int
    effective_time: int
    stored: Stored | None
    refused: RefusedWrite | None

    @property
    def stamp(self) -> bytes:
        return stamp(self.effective_time, self.position)


def read_versions(history: SpannedHistory, read: ReadVersions, state: VersionedState) -> PastVersions:
    """Return a page of the versions and refused writes that are visible at a state and not at `since`.

    Raises:
        NotFoldedError: The page begins in an epoch that is not folded yet. A page ends before such an epoch.
    """
    key = StoreKeys(read.table).key(read.pk, read.sk)
    found: list[ItemVersion] = []
    size, last = 0, 0
    try:
        for epoch, entry in _entries(history, key, read, state):
            if found and (len(found) == read.limit or size > _PAGE_BYTES):
                return PastVersions(found, (found[-1].log_time, last))
            found.append(_described(epoch, entry))
            size += _size_of(entry)
            last = entry.position
    except NotFoldedError:
        if not found:
            raise
        return PastVersions(found, (found[-1].log_time, last))
    return PastVersions(found, None)


def _entries(
    history: SpannedHistory, key: bytes, read: ReadVersions, state: VersionedState
) -> Iterator[tuple[VersionHistory, "_Entry"]]:
    """Yield the entries of a key that are visible at a state and before the page's start, with their epochs."""
    epoch, cut, horizon = state.history, state.cut, history.horizon.offset
    since = None if read.since is None else _since_stamp(read.since, horizon)
    if read.before is not None and epoch.is_of_base(read.before[1] - 1):
        epoch = history.epoch_at(offset_of(read.before[1] - 1))
        cut = position_stamp(read.before[1] - 1)
    while True:
        first = cut if read.before is None else max(cut, stamp(read.before[0], read.before[1] - 1))
        entries = merge(
            _versions(epoch.engine, key, first, since),
            _refused(epoch.engine, key, first, since),
            key=lambda entry: -entry.position,
        )
        base_time = time_at(epoch.engine, epoch.first_offset - 1) if epoch.first_offset else 0
        for entry in entries:
            if not is_visible(entry.stamp, cut) or not is_visible(entry.stamp, first):
                continue
            if not epoch.is_of_base(entry.position):
                yield epoch, entry
            elif epoch.first_offset == horizon:
                yield epoch, entry._replace(effective_time=base_time)
        if epoch.first_offset == horizon:
            return
        last = pack_position(epoch.first_offset - 1, None)
        if since is not None and is_visible(stamp(base_time, last), since):
            return
        cut = position_stamp(last)
        epoch = history.epoch_at(epoch.first_offset - 1)


def _since_stamp(since: PartitionCut, horizon: int) -> bytes | None:
    """Return the stamp of a cut; None if everything that can be read is after it."""
    if isinstance(since, TimeCut):
        return time_stamp(since.time_ms)
    return None if since.offset < horizon else position_stamp(pack_position(since.offset, since.index))


def _size_of(entry: _Entry) -> int:
    """Return the bytes of the item, or of the expression of a refused write."""
    if entry.stored is not None:
        return len(entry.stored[0])
    refused = entry.refused
    if refused is None:
        return 0
    return sum(len(part) for part in (refused.values, refused.condition, refused.update) if part is not None)


def _versions(engine: Engine, key: bytes, first: bytes, since: bytes | None) -> Iterator[_Entry]:
    cursor = engine.chains()
    at = cursor.seek(key + first)
    while at is not None and at.startswith(key):
        written = at[-STAMP_BYTES:]
        if since is not None and is_visible(written, since):
            return
        effective_time, packed = read_stamp(written)
        yield _Entry(packed, effective_time, cursor.value(), None)
        at = cursor.next()


def _refused(engine: Engine, key: bytes, first: bytes, since: bytes | None) -> Iterator[_Entry]:
    for written, refused in refused_writes(engine, key, first):
        if since is not None and is_visible(written, since):
            return
        log_time, packed = read_stamp(written)
        yield _Entry(packed, log_time, None, refused)


def _described(epoch: VersionHistory, entry: _Entry) -> ItemVersion:
    engine = epoch.engine
    if entry.refused is not None:
        log_time = entry.effective_time
        return ItemVersion(
            entry.position, log_time, log_time, None, entry.refused.context, None, entry.refused
        )
    author = author_at(engine, entry.position)
    return ItemVersion(
        entry.position,
        time_at(engine, offset_of(entry.position)),
        entry.effective_time,
        None if entry.stored is None else entry.stored[0],
        None if author is None else author.context.encoded,
        None if author is None else author.transaction,
        None,
    )
