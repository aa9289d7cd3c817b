"""Reads a log beside its writer, or without one; takes no lock and writes nothing.

What the writer is at this moment writing may be torn, or may be taken back. So a reader shows the last segment only
as far as the writer's mark says that it was acknowledged, or as far as a later block says that it was synced.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ...model.errors import LogError
from ..commands import Genesis, Record
from . import segment
from .displaced import refuse_side_files
from .durable_position import DurablePosition, read_mark
from .filesystem import Filesystem, read_all
from .history import History, Limit, Part, place
from .segment import Scan
from .torn_write import judge_end, known_end, torn_write


@dataclass(frozen=True, slots=True)
class LogStatistics:
    """A log as far as it may be read: `time_ms` is its last record's, `ends` has each partition's next offset."""

    log_id: bytes
    segments: int
    bytes: int
    records: int
    ends: tuple[int, ...]
    time_ms: int


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a log that a start of the server would find.

    Attributes:
        records: Whole records at the end that nothing proves to have been acknowledged. A start keeps them.
        torn: Bytes behind them that are not a whole record. A start cuts them into a side file.
        missing: Acknowledged bytes that are not there. A start goes on without them, because they were never synced.
        is_marked: Whether the log's mark says how many bytes of the last segment were acknowledged.
    """

    records: int
    torn: int
    missing: int
    is_marked: bool


class LogReader:
    """A log as it may be read. `end` and `read` look for what came since."""

    def __init__(self, folder: Path, disk: Filesystem) -> None:
        self._disk = disk
        self._folder = folder
        self._history = History(disk, folder)
        try:
            refuse_side_files(disk, folder)
            self._history.load()
        except (FileNotFoundError, NotADirectoryError):
            raise LogError(f"there is no folder {folder}") from None
        if not self._history.headers:
            raise LogError(f"there is no log in {folder}: name a folder that `foldb serve` has served")
        self._genesis = self._history.genesis()
        self._header = self._history.headers[-1]
        self._chain = self._header.chain.copy()
        self._position = self._header.size
        self._is_held = False

    @property
    def log_id(self) -> bytes:
        """What tells this log from any other."""
        return self._genesis[0].log_id

    @property
    def partitions(self) -> int:
        """How many there are."""
        return len(self._genesis)

    def read(self, partition: int, start: int = 0) -> Iterator[Record]:
        """The durable records from offset `start` to the end as it is at the call."""
        self._look()
        return self._history.read(partition, start, Limit(self._header.chain.sequence, self._position))

    def hash_of(self, partition: int, offset: int) -> bytes:
        """What tells the history up to and including a record from any other."""
        self._look()
        limit = Limit(self._header.chain.sequence, self._position)
        return self._history.hash_of(partition, offset, limit)

    def end(self, partition: int) -> int:
        """The offset of the next record, as far as one may know."""
        self._look()
        return self._chain.ends[partition]

    def genesis(self, partition: int) -> Genesis:
        """The partition's first command."""
        return self._genesis[partition]

    def size(self) -> int:
        """How many bytes the log has."""
        return self.statistics().bytes

    def statistics(self) -> LogStatistics:
        """How the log is now."""
        self._look()
        older = self._history.headers[: self._history.headers.index(self._header)]
        return LogStatistics(
            log_id=self.log_id,
            segments=len(older) + 1,
            bytes=sum(self._history.size(header) for header in older) + self._position,
            records=self._chain.sequence,
            ends=tuple(self._chain.ends),
            time_ms=self._chain.time,
        )

    def close(self) -> None:
        """Nothing is held open."""

    def part(self) -> Part:
        """The log as far as it may be read now, for a copy of its bytes."""
        behind = 0
        if not self._is_held:
            behind = self._follow().scan.chain.sequence - self._chain.sequence
        return Part(self._history, Limit(self._start, self._position), self._chain.copy(), behind)

    def hold(self) -> Tail:
        """Stay at the log's present end, and show every record that a start of the server would keep.

        The last segment is read from memory from now on: a writer beside this reader may take back records that it has
        not acknowledged.
        """
        ending = self._follow()
        kept = Tail(
            records=ending.scan.chain.sequence - self._chain.sequence,
            torn=len(torn_write(ending.data, ending.scan)),
            missing=max(0, ending.acknowledged - ending.base - ending.scan.end),
            is_marked=ending.acknowledged > 0,
        )
        before = read_all(self._disk, self._history.path(self._header), ending.base)
        self._history.hold(self._header, before + ending.data[: ending.scan.end])
        self._chain, self._position = ending.scan.chain, ending.base + ending.scan.end
        self._is_held = True
        return kept

    def _look(self) -> None:
        """Look for records that came since, unless the reader is held."""
        if not self._is_held:
            self._follow()

    def _follow(self) -> "_Ending":
        """Go on to where the log may be read by now.

        The order matters: what the mark speaks of is there when the names are listed, and a segment that has a
        follower then is complete.
        """
        mark = read_mark(self._disk, self._folder)
        self._history.load()
        known = known_end(self._history, mark)
        later = [header for header in self._history.headers if header.chain.sequence > self._start]
        for header in later:
            self._advance()
            if self._chain != header.chain:
                raise self._history.damaged(
                    place(header, 0, header.chain), "the segment does not continue the one before"
                )
            self._header, self._chain, self._position = header, header.chain.copy(), header.size
        return self._advance_to_durable(known)

    @property
    def _start(self) -> int:
        return self._header.chain.sequence

    def _advance(self) -> None:
        """Go on to the end of the current segment, which has a follower and must be whole."""
        scan = segment.scan(self._unread(), 0, self._header.marker, self._chain)
        if scan.damage:
            raise self._history.damaged(
                place(self._header, self._position + scan.end, scan.chain), scan.damage.what
            )
        self._take(scan)

    def _advance_to_durable(self, known: DurablePosition | None) -> "_Ending":
        """Go on in the last segment to the last record that was acknowledged, or that is known to be durable."""
        data, base = self._unread(), self._position
        scan = judge_end(self._history, data, 0, self._chain, known, base)
        acknowledged = known.acknowledged if known else 0
        durable = max(scan.synced, min(scan.end, acknowledged - base))
        self._take(segment.scan(data[:durable], 0, self._header.marker, self._chain))
        return _Ending(base, data, scan, acknowledged)

    def _unread(self) -> bytes:
        file = self._disk.open(self._history.path(self._header), write=False)
        try:
            return file.read(self._position, file.size() - self._position)
        finally:
            file.close()

    def _take(self, scan: Scan) -> None:
        self._chain = scan.chain
        self._position += scan.end


class _Ending(NamedTuple):
    """The last segment from byte `base` on, its whole blocks, and the acknowledged byte of the mark."""

    base: int
    data: bytes
    scan: Scan
    acknowledged: int
