"""Reads a log beside its writer, or without one; takes no lock and writes nothing.

What the writer is at this moment writing may be torn, or may be taken back. So a reader shows the last segment only
as far as the writer's mark says that it was acknowledged, or as far as a later block says that it was synced.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ...model.errors import CorruptionError, LogError
from ..commands import Genesis, Record
from . import segment
from .disk import Disk
from .history import History, Limit, place
from .mark import Mark, read_mark
from .segment import Scan


@dataclass(frozen=True, slots=True)
class LogStatistics:
    """A log as far as it may be read: `time_ms` is its last record's, `ends` has each partition's next offset."""

    log_id: bytes
    segments: int
    bytes: int
    records: int
    ends: tuple[int, ...]
    time_ms: int


class LogReader:
    """A log as it may be read. `end` and `read` look for what came since."""

    def __init__(self, folder: Path, disk: Disk) -> None:
        self._disk = disk
        self._folder = folder
        self._history = History(disk, folder)
        try:
            self._history.load()
        except (FileNotFoundError, NotADirectoryError):
            raise LogError(f"there is no folder {folder}") from None
        if not self._history.headers:
            raise LogError(f"there is no log in {folder}: name a folder that `foldb serve` has served")
        self._genesis = self._history.genesis()
        self._header = self._history.headers[-1]
        self._chain = self._header.chain.copy()
        self._position = self._header.size

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
        self._follow()
        return self._history.read(partition, start, Limit(self._header.chain.sequence, self._position))

    def hash_of(self, partition: int, offset: int) -> bytes:
        """What tells the history up to and including a record from any other."""
        self._follow()
        limit = Limit(self._header.chain.sequence, self._position)
        return self._history.hash_of(partition, offset, limit)

    def end(self, partition: int) -> int:
        """The offset of the next record, as far as one may know."""
        self._follow()
        return self._chain.ends[partition]

    def genesis(self, partition: int) -> Genesis:
        """The partition's first command."""
        return self._genesis[partition]

    def size(self) -> int:
        """How many bytes the log has."""
        return self.statistics().bytes

    def statistics(self) -> LogStatistics:
        """How the log is now."""
        self._follow()
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

    def _follow(self) -> None:
        """Go on to where the log may be read by now.

        The order matters: what the mark speaks of is there when the names are listed, and a segment that has a
        follower then is complete.
        """
        mark = read_mark(self._disk, self._folder)
        self._history.load()
        later = [header for header in self._history.headers if header.chain.sequence > self._start]
        for header in later:
            self._advance()
            if self._chain != header.chain:
                raise CorruptionError(
                    place(header, 0, header.chain), "the segment does not continue the one before"
                )
            self._header, self._chain, self._position = header, header.chain.copy(), header.size
        self._advance_to_durable(mark if mark and mark.sequence == self._start else None)

    @property
    def _start(self) -> int:
        return self._header.chain.sequence

    def _advance(self) -> None:
        """Go on to the end of the current segment, which has a follower and must be whole."""
        scan = segment.scan(self._unread(), 0, self._header.marker, self._chain)
        if scan.damage:
            raise self._damaged(scan, scan.damage.what)
        self._take(scan)

    def _advance_to_durable(self, mark: Mark | None) -> None:
        """Go on in the last segment to what was acknowledged, or what is known to be durable."""
        data = self._unread()
        scan = segment.scan(data, 0, self._header.marker, self._chain)
        synced = mark.synced - self._position if mark else 0
        if scan.end < synced:
            raise self._damaged(scan, scan.damage.what if scan.damage else "the segment ends here")
        if scan.damage and not segment.is_torn(data, scan.end, self._header.marker, scan.chain):
            raise self._damaged(scan, scan.damage.what)
        acknowledged = mark.acknowledged - self._position if mark else 0
        durable = max(scan.synced, min(scan.end, acknowledged))
        self._take(segment.scan(data[:durable], 0, self._header.marker, self._chain))

    def _unread(self) -> bytes:
        file = self._disk.open(self._history.path(self._header), write=False)
        try:
            return file.read(self._position, file.size() - self._position)
        finally:
            file.close()

    def _take(self, scan: Scan) -> None:
        self._chain = scan.chain
        self._position += scan.end

    def _damaged(self, scan: Scan, what: str) -> CorruptionError:
        return CorruptionError(place(self._header, self._position + scan.end, scan.chain), what)
