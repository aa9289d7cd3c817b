"""Read a log while another process may write to it, without a lock and without writing.

The write in progress may be torn, or undone. A reader therefore shows the last segment only up to the acknowledged
position in the writer's file `mark`, or up to the bytes that a later block reports as synced.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ...model.errors import LogError
from ...model.lazy_dataclass import dataclass
from ..commands import Record
from . import segment
from .displaced import refuse_side_files
from .durable_position import DurablePosition, read_mark
from .filesystem import Filesystem, read_all
from .history import FolderLog, History, Limit, Part, text_of
from .segment import Scan
from .torn_write import judge_end, known_end, torn_write


@dataclass(frozen=True, slots=True)
class LogStatistics:
    """Figures of the readable log. `time_ms` is its last record's log time, `ends` has each partition's next offset."""

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
        records: Intact records at the end that may be unacknowledged. A start keeps them.
        torn: Bytes after them that are not a complete record. A start moves them to a side file.
        missing: Acknowledged bytes that are missing. A start continues without them, because they were never synced.
        is_marked: Whether the file `mark` has the acknowledged bytes of the last segment.
    """

    records: int
    torn: int
    missing: int
    is_marked: bool


class LogReader(FolderLog):
    """The readable part of a log. `end` and `read` first load new records."""

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
        self._judged: DurablePosition | None = None  # of the last look at the end
        self._is_held = False

    def read(self, partition: int, start: int = 0) -> Iterator[Record]:
        self._refresh()
        return self._history.read(partition, start, Limit(self._header.chain.sequence, self._position))

    def hash_of(self, partition: int, offset: int) -> bytes:
        """Return a hash that identifies the history up to and including a record."""
        self._refresh()
        limit = Limit(self._header.chain.sequence, self._position)
        return self._history.hash_of(partition, offset, limit)

    def end(self, partition: int) -> int:
        """Return the offset after the last readable record."""
        self._refresh()
        return self._chain.ends[partition]

    def size(self) -> int:
        """Return the number of readable bytes."""
        return self.statistics().bytes

    def statistics(self) -> LogStatistics:
        """Return the current figures of the log."""
        self._refresh()
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
        """Do nothing: no file stays open."""

    def part(self) -> Part:
        """Return the currently readable part of the log, for a copy of its bytes."""
        behind = 0
        if not self._is_held:
            behind = self._judge_end(self._follow()).scan.chain.sequence - self._chain.sequence
        return Part(self._history, Limit(self._start, self._position), self._chain.copy(), behind)

    def hold(self) -> Tail:
        """Stay at the log's current end, and show every record that a start of the server would keep.

        After this call the last segment is read from memory, because a writer may undo unacknowledged records.
        """
        ending = self._judge_end(self._follow())
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

    def _refresh(self) -> None:
        """Load new records, unless the reader is held."""
        if self._is_held:
            return
        known = self._follow()
        if not self._advance_to_acknowledged(known):
            self._judge_end(known)

    def _follow(self) -> DurablePosition | None:
        """Advance to the last segment, and return the durable position in it.

        The order matters. The file `mark` is read before the names are listed, so the segment that it names exists. A
        segment that then has a successor is complete.
        """
        mark = read_mark(self._disk, self._folder)
        self._history.load()
        if self._header not in self._history.headers:  # a trim removed the segment
            self._header = self._history.headers[0]
            self._chain, self._position = self._header.chain.copy(), self._header.size
        known = known_end(self._history, mark)
        later = [header for header in self._history.headers if header.chain.sequence > self._start]
        for header in later:
            self._advance()
            if self._chain != header.chain:
                raise self._history.damaged(
                    text_of(header, 0, header.chain), "the segment does not continue the one before"
                )
            self._header, self._chain, self._position = header, header.chain.copy(), header.size
        return known

    @property
    def _start(self) -> int:
        return self._header.chain.sequence

    def _advance(self) -> None:
        """Advance to the end of the current segment, which has a successor and must be complete."""
        scan = segment.scan(self._unread(), 0, self._header.marker, self._chain)
        if scan.damage:
            raise self._history.damaged(
                text_of(self._header, self._position + scan.end, scan.chain), scan.damage.reason
            )
        self._take(scan)

    def _advance_to_acknowledged(self, known: DurablePosition | None) -> bool:
        """Advance in the last segment to the acknowledged end, without a look at the zeros after it.

        Return False if the end has to be judged: at the first look, or if the file `mark` may be too low.
        """
        if known is None or self._judged is None:
            return False
        size = known.acknowledged - self._position
        if size <= 0:
            return known == self._judged and not self._unread(1).strip(b"\0")
        scan = segment.scan(self._unread(size), 0, self._header.marker, self._chain)
        if scan.end < size:
            return False
        self._take(scan)
        self._judged = known
        return True

    def _judge_end(self, known: DurablePosition | None) -> "_Ending":
        """Advance in the last segment to the last record that was acknowledged or is known to be durable."""
        data, base = self._unread(), self._position
        scan = judge_end(self._history, data, 0, self._chain, known, base)
        acknowledged = known.acknowledged if known else 0
        durable = max(scan.synced, min(scan.end, acknowledged - base))
        if durable < scan.end:
            self._take(segment.scan(data[:durable], 0, self._header.marker, self._chain))
        else:
            self._take(scan)
        self._judged = known
        return _Ending(base, data, scan, acknowledged)

    def _unread(self, size: int | None = None) -> bytes:
        """Return bytes of the last segment that are not read yet: all of them, or at most `size`."""
        file = self._history.open(self._header)
        try:
            return file.read(self._position, file.size() - self._position if size is None else size)
        finally:
            file.close()

    def _take(self, scan: Scan) -> None:
        self._chain = scan.chain
        self._position += scan.end


class _Ending(NamedTuple):
    """The last segment from byte `base`, the scan of its blocks, and the acknowledged position of the file `mark`."""

    base: int
    data: bytes
    scan: Scan
    acknowledged: int
