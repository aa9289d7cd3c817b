"""The timeline: which versions each record wrote, and the figures of the stores after it.

    timeline row     T  store (4)  offset (8)               ──► count (8)  size (8)  change*
    change           ::= growth of count (1)  growth of size (4)  length (2)  version key without its store
    late row         L  store (4)  scale (1)  log time (8)  position (8)
                                                            ──► effective time (8)  growth of count (8)  of size (8)
    clock row        C  offset (8)                          ──► log time (8)       only where log time rises
    definition row   D  position (8)  table (4)             ──► definition as JSON; empty: the table was dropped

With it, versions after a position can be deleted, two cuts can be compared in as many steps as there are changes
between them, and a store's count and size are known at every cut.

A *late* version has an effective time below the log time of its record: a transaction over partitions was decided
before the record. Count and size at a time T are those after the last record of that time, and the growth by late
versions whose effective time is at most T < log time. A late row is filed under its scale, the length in bits of the
time between both: of the rows at one scale with T < log time <= T + 2^scale, about half are such versions.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from .engine import Batch, Engine, RowCursor
from .version_keys import LAST_INDEX, STAMP_BYTES, offset_of, pack_position, read_stamp, unpack_position

TIMELINE: Final = b"T"
LATE: Final = b"L"
CLOCK: Final = b"C"
DEFINITION: Final = b"D"

_FIGURES: Final = Struct(">QQ")
_CHANGE: Final = Struct(">biH")
_LATE_KEY: Final = Struct(">cIBQQ")
_LATE: Final = Struct(">Qqq")
_SCALES: Final = 64
_U64: Final = Struct(">Q")
_DEFINITION_KEY: Final = Struct(">cQI")


class Figures(NamedTuple):
    """The number of a store's items, and the sum of their sizes."""

    items: int
    size: int


class VersionWritten(NamedTuple):
    """A version on the timeline of its store, and its effect on the store's figures."""

    key: bytes
    stamp: bytes
    count_growth: int
    size_growth: int

    @property
    def position(self) -> int:
        """The packed position of the command that wrote the version."""
        return read_stamp(self.stamp)[1]


def change_of(version: bytes, count_growth: int, size_growth: int) -> bytes:
    """Return the timeline's change for a version key."""
    return _CHANGE.pack(count_growth, size_growth, len(version) - 4) + version[4:]


def put_timeline_row(
    batch: Batch, prefix: bytes, offset: int, figures: Figures, changes: list[bytes]
) -> None:
    """Add the row of one record and one store, whose keys begin with `prefix`."""
    batch.put_row(TIMELINE + prefix + _U64.pack(offset), _FIGURES.pack(*figures) + b"".join(changes))


def put_late_row(
    batch: Batch, store_id: int, log_time: int, packed: int, effective_time: int, growth: Figures
) -> None:
    """Add the row of the late versions that one command wrote to a store."""
    batch.put_row(_late_key(store_id, log_time, packed, effective_time), _LATE.pack(effective_time, *growth))


def put_clock_row(batch: Batch, offset: int, log_time: int) -> None:
    """Add a rise of log time."""
    batch.put_row(CLOCK + _U64.pack(offset), _U64.pack(log_time))


def put_definition_row(batch: Batch, packed: int, table_id: int, definition: bytes) -> None:
    """Add a new definition of a table; an empty one ends the table."""
    batch.put_row(_DEFINITION_KEY.pack(DEFINITION, packed, table_id), definition)


def read_definitions(engine: Engine) -> Iterator[tuple[int, int, bytes]]:
    """Yield packed position, table id and JSON of all definition rows, in the order of the log."""
    cursor = engine.rows()
    at = cursor.seek(DEFINITION)
    while at is not None and at.startswith(DEFINITION):
        _, packed, table_id = _DEFINITION_KEY.unpack(at)
        yield packed, table_id, cursor.value()
        at = cursor.next()


def time_at(engine: Engine, offset: int) -> int:
    """Return the log time after the record at that offset; 0 before the first record."""
    cursor = engine.rows()
    at = cursor.seek_back(CLOCK + _U64.pack(offset))
    return _number(cursor.value()) if at is not None and at.startswith(CLOCK) else 0


def last_offset_at(engine: Engine, time_ms: int, first: int, end: int) -> int:
    """Return the last of the offsets from `first` to `end` (excluded) whose log time is at most `time_ms`.

    Return `first` - 1 if there is none.
    """
    low, high = first - 1, end  # the log time of low is at most time_ms, that of high is above
    while high - low > 1:
        middle = (low + high) // 2
        if time_at(engine, middle) <= time_ms:
            low = middle
        else:
            high = middle
    return low


def written(
    engine: Engine, store_id: int, first: int, end: int | None = None
) -> Iterator[tuple[int, Figures, list[VersionWritten]]]:
    """Yield offset, figures and versions of each record that wrote to a store, with first <= offset < end."""
    cursor = engine.rows()
    prefix = TIMELINE + store_id.to_bytes(4, "big")
    at = cursor.seek(prefix + _U64.pack(first))
    while at is not None and at.startswith(prefix):
        offset = _number(at[len(prefix) :])
        if end is not None and offset >= end:
            return
        yield offset, *_read_row(at, cursor.value())
        at = cursor.next()


def figures_at(engine: Engine, store_id: int, packed: int) -> Figures:
    """Return the figures of a store after the command at that packed position."""
    cursor = engine.rows()
    prefix = TIMELINE + store_id.to_bytes(4, "big")
    at = cursor.seek_back(prefix + _U64.pack(offset_of(packed)))
    if at is None or not at.startswith(prefix):
        return Figures(0, 0)
    if unpack_position(packed)[1] == LAST_INDEX:  # after the whole record
        return Figures(*_FIGURES.unpack_from(cursor.value()))
    figures, versions = _read_row(at, cursor.value())
    later = [version for version in versions if version.position > packed]
    return Figures(
        figures.items - sum(version.count_growth for version in later),
        figures.size - sum(version.size_growth for version in later),
    )


def late_growth(engine: Engine, store_id: int, time_ms: int) -> Figures:
    """Return the growth of a store by versions that count at that time, in records after it."""
    rows = [growth for _, growth in late_rows(engine, store_id, time_ms)]
    return Figures(sum(growth.items for growth in rows), sum(growth.size for growth in rows))


def late_rows(engine: Engine, store_id: int, time_ms: int) -> Iterator[tuple[int, Figures]]:
    """Yield the packed position of each later command whose versions count at that time, and the growth by them."""
    cursor = engine.rows()
    for scale in range(1, _SCALES):
        prefix = LATE + store_id.to_bytes(4, "big") + bytes((scale,))
        at = cursor.seek(prefix + _U64.pack(time_ms + 1))
        while at is not None and at.startswith(prefix):
            _, _, _, log_time, packed = _LATE_KEY.unpack(at)
            if log_time > time_ms + (1 << scale):
                break
            effective_time, count_growth, size_growth = _LATE.unpack(cursor.value())
            if effective_time <= time_ms:
                yield packed, Figures(count_growth, size_growth)
            at = cursor.next()
        if at is None or not at.startswith(prefix[:-1]):
            break


def roll_back(engine: Engine, batch: Batch, end: int) -> None:
    """Delete the versions and rows of all records from offset `end` on."""
    cursor = engine.rows()
    at = cursor.seek(TIMELINE)
    while at is not None and at.startswith(TIMELINE):
        store = at[1:5]
        store_id = int.from_bytes(store, "big")
        for offset, _, versions in written(engine, store_id, end):
            batch.delete_row(TIMELINE + store + _U64.pack(offset))
            log_time = time_at(engine, offset)
            for version in versions:
                batch.delete_version(version.key + version.stamp)
                effective_time, packed = read_stamp(version.stamp)
                if effective_time < log_time:
                    batch.delete_row(_late_key(store_id, log_time, packed, effective_time))
        at = cursor.seek(TIMELINE + store + b"\xff" * 9)
    _delete_rows(cursor, batch, CLOCK, CLOCK + _U64.pack(end))
    _delete_rows(cursor, batch, DEFINITION, DEFINITION + _U64.pack(pack_position(end, 0)))


def _delete_rows(cursor: RowCursor, batch: Batch, kind: bytes, start: bytes) -> None:
    at = cursor.seek(start)
    while at is not None and at.startswith(kind):
        batch.delete_row(at)
        at = cursor.next()


def _read_row(key: bytes, row: bytes) -> tuple[Figures, list[VersionWritten]]:
    figures, store = Figures(*_FIGURES.unpack_from(row)), key[1:5]
    versions = []
    at = _FIGURES.size
    while at < len(row):
        count_growth, size_growth, length = _CHANGE.unpack_from(row, at)
        at += _CHANGE.size + length
        stamp_at = at - STAMP_BYTES
        versions.append(
            VersionWritten(store + row[at - length : stamp_at], row[stamp_at:at], count_growth, size_growth)
        )
    return figures, versions


def _late_key(store_id: int, log_time: int, packed: int, effective_time: int) -> bytes:
    scale = (log_time - effective_time).bit_length()
    return _LATE_KEY.pack(LATE, store_id, scale, log_time, packed)


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big")
