"""The versions of one item and the refused writes to it, the newest first.

    versions at the key ──┐
                          ├──► merged by position ──► page
    refused writes ───────┘

Effective time and log time never fall along a key. So a page begins with one seek in each, however long the history is,
and everything older than an entry that `since` includes is included too.
"""

from collections.abc import Iterator
from heapq import merge
from typing import Final, NamedTuple

from ..fold.storage import Stored
from .attribution import RefusedWrite, author_at, refused_writes
from .engine import Engine
from .requests import ItemVersion, PastVersions, ReadVersions
from .timeline import time_at
from .version_keys import STAMP_BYTES, StoreKeys, is_visible, offset_of, read_stamp, stamp

_PAGE_BYTES: Final = 1 << 20


class _Entry(NamedTuple):
    position: int
    effective_time: int
    stored: Stored | None
    refused: RefusedWrite | None


def read_versions(engine: Engine, read: ReadVersions, cut: bytes, since: bytes | None) -> PastVersions:
    """Return a page of the versions and refused writes that are visible at `cut` and not at `since`, both stamps."""
    key = StoreKeys(read.table).key(read.pk, read.sk)
    first = cut if read.before is None else stamp(read.before[0], read.before[1] - 1)
    entries = merge(
        _versions(engine, key, first, since),
        _refused(engine, key, first, since),
        key=lambda entry: -entry.position,
    )
    found: list[ItemVersion] = []
    size, last = 0, 0
    for entry in entries:
        written = stamp(entry.effective_time, entry.position)
        if not is_visible(written, first):
            continue
        if found and (len(found) == read.limit or size > _PAGE_BYTES):
            return PastVersions(found, (found[-1].log_time, last))
        found.append(_described(engine, entry))
        size += _size_of(entry)
        last = entry.position
    return PastVersions(found, None)


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


def _described(engine: Engine, entry: _Entry) -> ItemVersion:
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
