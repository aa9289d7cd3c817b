"""The change segments of one table in one partition: files that follow each other.

    <table>-<after>.avro      changes with sequence numbers above `after`, up to the start of the next file

One thread appends to the last file. Other threads may read at the same time: written bytes do not change, and lists
only grow at their ends. Segments are derived data: one with a damaged block is rebuilt from the log and replaced
(repairs.py).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

from ...log.local.filesystem import File, Filesystem, write_all
from ...materializer.fold.outcomes import Change
from . import change_codec
from .change_codec import MARKER_BYTES, BlockHead, DamagedError, SegmentOwner
from .segment_files import BlockCache, Segment, SegmentFiles, file_name, segments_of
from .shards import ShardStart

SEGMENT_BYTES: Final = 16 << 20
BLOCK_BYTES: Final = 128 << 10
REBUILT: Final = "rebuilt"
"""The folder, in that of the segments, where a damaged segment is rebuilt."""
_ONE_SEGMENT: Final = 1 << 62  # bytes: all changes go to one segment
# A log on the same disk waits for each sync, so a sync is kept small.
_SYNC_BYTES: Final = 8 << 20

_time = attrgetter("time")
_after = attrgetter("after")
_sequence_number = attrgetter("sequence_number")


class ShardBatch(NamedTuple):
    """Changes of one shard that are to be written."""

    shard: int
    changes: Sequence[Change]


class Extent(NamedTuple):
    """The range of a table's segments that is durable.

    Attributes:
        first_after: Exclusive lower bound of the oldest segment.
        after: Exclusive lower bound of the newest segment.
        size: Durable size of the newest segment in bytes.
        last: Sequence number of the last change.
        begun: Sequence number of the first change of the shard in which the oldest segment begins; that change may be
            removed. 0 if it is unknown.
    """

    first_after: int
    after: int
    size: int
    last: int
    begun: int = 0


class Segments:
    """The segments of one table in one partition.

    Attributes:
        last: Sequence number of the last change that is written.
        is_doubtful: Whether a sync has failed. A later sync may report success although bytes were lost.
    """

    def __init__(
        self,
        disk: Filesystem,
        folder: Callable[[], Path],
        owner: SegmentOwner,
        cache: BlockCache,
        *,
        after: int = 0,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        """Prepare an empty list of segments that continues after the sequence number `after`.

        `folder` is called at the first write.
        """
        self.last = after
        self.is_doubtful = False
        self._disk = disk
        self._folder = folder
        self._owner = owner
        self._segment_bytes = segment_bytes
        self._segments: list[Segment] = []
        self._files = SegmentFiles(disk, owner, cache, self._segments)
        self._begun = 0  # see Extent
        self._file: File | None = None
        self._unsynced: list[File] = []
        self._unsynced_bytes = 0
        self._is_folder_synced = True

    # Opening

    @classmethod
    def open(
        cls,
        disk: Filesystem,
        folder: Path,
        owner: SegmentOwner,
        cache: BlockCache,
        extent: Extent,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> "Segments":
        """Open a table's segments up to `extent`, and remove everything beyond it.

        Raises:
            DamagedError: A part of the extent is missing or damaged.
            OSError: A file cannot be read.
        """
        self = cls(disk, lambda: folder, owner, cache, after=extent.last, segment_bytes=segment_bytes)
        self._begun = extent.begun
        for after, path in segments_of(disk, folder, owner.table):
            if extent.first_after <= after <= extent.after:
                self._segments.append(self._files.load(path, after))
            else:
                disk.remove(path)
        if not self._segments or self._segments[0].after != extent.first_after:
            raise DamagedError("the oldest segment is missing")
        newest = self._segments[-1]
        if newest.after != extent.after or newest.size < extent.size:
            raise DamagedError("the newest segment is shorter than its durable size")
        self._cut(newest, extent.size)
        self._check_order(extent)
        return self

    def _cut(self, newest: Segment, size: int) -> None:
        """Truncate the newest segment to its durable size: the rest is folded again."""
        while newest.heads and newest.heads[-1].at + newest.heads[-1].size > size:
            newest.heads.pop()
        newest.size = newest.heads[-1].at + newest.heads[-1].size if newest.heads else newest.size
        if newest.size != size:
            raise DamagedError("the newest segment has no block end at its durable size")
        self._file = self._disk.open(newest.path)
        self._file.truncate(size)
        self._unsynced.append(self._file)

    def _check_order(self, extent: Extent) -> None:
        """Check that each segment continues the previous one, and that the newest ends with the extent's last change.

        The first block of each is read too, because its time decides when the segment is trimmed.
        """
        ends = [segment.after for segment in self._segments[1:]] + [extent.last]
        for segment, end in zip(self._segments, ends, strict=True):
            if self._files.last_of(segment) != end:
                raise DamagedError("a segment is missing, or damaged at its end")
            for head in segment.heads[:1]:
                self._files.read(segment, head)

    # Writing

    def append(self, after: int, batches: Sequence[ShardBatch]) -> None:
        """Write changes that follow the change with sequence number `after`, without a sync.

        Raises:
            OSError: The disk refused a write. The changes up to `last` are written.
        """
        assert after == self.last, "a change was left out"
        for batch in batches:
            for part in _parts(batch.changes):
                self._write(part, batch.shard)

    def _write(self, changes: Sequence[Change], shard: int) -> None:
        if self._file is None or self._segments[-1].size >= self._segment_bytes:
            self._begin_segment()
        segment, file = self._segments[-1], self._file
        assert file is not None
        data = change_codec.block(changes, shard, segment.marker)
        write_all(file, segment.size, data)
        if file not in self._unsynced:
            self._unsynced.append(file)
        first = changes[0]
        head = BlockHead(
            segment.size,
            len(data),
            len(changes),
            first.sequence_number,
            first.time,
            first.stream,
            shard,
        )
        segment.size += len(data)
        segment.heads.append(head)
        self.last = changes[-1].sequence_number
        self._unsynced_bytes += len(data)
        if self._unsynced_bytes >= _SYNC_BYTES:
            self._sync(file.sync)
            self._unsynced_bytes = 0

    def _begin_segment(self) -> None:
        if not self._segments:
            self._disk.make_folder(self._folder())
            for _, path in segments_of(self._disk, self._folder(), self._owner.table):
                self._disk.remove(path)  # left by an earlier process
        header = change_codec.header(self._owner, self.last)
        path = self._folder() / file_name(self._owner.table, self.last)
        file = self._disk.open(path, create=True)
        try:
            file.truncate(0)
            write_all(file, 0, header)
        except OSError:
            file.close()
            raise
        self._close_if_synced()
        self._file, self._is_folder_synced = file, False
        self._unsynced.append(file)
        self._segments.append(Segment(path, self.last, header[-MARKER_BYTES:], len(header)))

    def _close_if_synced(self) -> None:
        """Close the newest file, unless its sync is pending."""
        if self._file is not None and self._file not in self._unsynced:
            self._file.close()

    def sync(self) -> Extent | None:
        """Sync all files. Return the durable extent, None without segments.

        Raises:
            DamagedError: An earlier sync failed.
            OSError: The disk refused this sync.
        """
        if self.is_doubtful:
            raise DamagedError("a sync has failed")
        for file in self._unsynced:
            self._sync(file.sync)
            if file is not self._file:
                file.close()
        self._unsynced.clear()
        if not self._is_folder_synced:
            self._sync(lambda: self._disk.sync_folder(self._folder()))
            self._is_folder_synced = True
        return self.extent

    def _sync(self, sync: Callable[[], None]) -> None:
        try:
            sync()
        except OSError:
            self.is_doubtful = True
            raise

    @property
    def extent(self) -> Extent | None:
        """The range that is written, None without segments."""
        if not self._segments:
            return None
        newest = self._segments[-1]
        return Extent(self._segments[0].after, newest.after, newest.size, self.last, self._begun)

    def close(self) -> None:
        """Close all files. Writes that were not synced may be lost."""
        for file in {*self._unsynced, *([] if self._file is None else [self._file])}:
            file.close()
        self._unsynced.clear()
        self._file = None

    # Removing and replacing

    def expired(self, before_ms: int) -> int:
        """Return how many of the oldest segments have only changes before `before_ms`; the newest is never one."""
        firsts = [segment.heads[0].time for segment in self._segments[1:] if segment.heads]
        return bisect_left(firsts, before_ms)

    def remove(self, count: int) -> None:
        """Remove the `count` oldest segments."""
        self._begun = self._begun_without(count)
        paths = [segment.path for segment in self._segments[:count]]
        del self._segments[:count]
        for path in paths:
            with suppress(FileNotFoundError):  # removed by another process or by hand
                self._disk.remove(path)

    def extent_without(self, count: int, extent: Extent) -> Extent:
        """Return the extent after a removal of the `count` oldest segments."""
        return extent._replace(first_after=self._segments[count].after, begun=self._begun_without(count))

    def _begun_without(self, count: int) -> int:
        """Return `Extent.begun` after a removal of the `count` oldest segments."""
        heads = [head for segment in self._segments[:count] for head in segment.heads]
        following = [head for segment in self._segments[count:] for head in segment.heads[:1]]
        return self._shard_starts([*heads, following[0]])[-1].sequence_number if following else 0

    def remove_all(self) -> None:
        self.close()
        self.remove(len(self._segments))

    def seal(self, damaged: Segment) -> int | None:
        """Close a segment that is to be replaced to writes. Return its last sequence number, None if it was removed."""
        if damaged not in self._segments:
            return None
        index = self._segments.index(damaged)
        if index + 1 < len(self._segments):
            return self._segments[index + 1].after
        self._close_if_synced()
        self._file = None
        return self.last

    def rebuilt(self, damaged: Segment) -> "Segments":
        """Return segments in another folder, where the changes of a damaged segment are written to one file."""
        folder = damaged.path.parent / REBUILT
        return Segments(
            self._disk,
            lambda: folder,
            self._owner,
            BlockCache(),
            after=damaged.after,
            segment_bytes=_ONE_SEGMENT,
        )

    def replace(self, damaged: Segment, rebuilt: "Segments", last: int) -> bool:
        """Replace a damaged segment by `rebuilt`, which has the same changes up to sequence number `last`.

        Return False if the segment was removed in the meantime.

        Raises:
            DamagedError: The rebuilt segment does not have these changes.
            OSError: The disk refused the replacement.
        """
        if damaged not in self._segments:
            return False
        if rebuilt.last != last:
            raise DamagedError("the history does not end with the last change of the segment")
        [segment] = rebuilt._segments
        rebuilt.sync()
        self._files.verify(segment)
        self._disk.rename(segment.path, damaged.path)
        rebuilt._segments.clear()
        segment.path = damaged.path
        self._segments[self._segments.index(damaged)] = segment
        self._disk.sync_folder(self._folder())
        return True

    # Reading

    @property
    def first_after(self) -> int:
        """Exclusive lower bound of the oldest segment."""
        oldest = self._segments[:1]  # another thread may remove it
        return oldest[0].after if oldest else self.last

    def read(self, after: int, until: int) -> Iterator[list[Change]]:
        """Yield the changes with after < sequence number <= until, block by block."""
        for segment, head in self._heads(after):
            if head.sequence_number > until:
                if head.at in segment.unverified:
                    self._changes(segment, head)  # a damaged head must not end the read too early
                return
            changes = self._changes(segment, head)
            low = bisect_right(changes, after, key=_sequence_number)
            high = bisect_right(changes, until, lo=low, key=_sequence_number)
            yield changes[low:high]

    def _heads(self, after: int) -> Iterator[tuple[Segment, BlockHead]]:
        """Yield the blocks that may have sequence numbers above `after`, in order."""
        segments = list(self._segments)
        for segment in segments[max(0, bisect_right(segments, after, key=_after) - 1) :]:
            heads = segment.heads
            first = max(0, bisect_right(heads, after, key=_sequence_number) - 1)
            for index in range(first, len(heads)):
                yield segment, heads[index]

    def _changes(self, segment: Segment, head: BlockHead) -> list[Change]:
        return self._files.changes(segment, head)

    def verify(self, after: int) -> None:
        """Read the segment that begins after a sequence number to its end, if there is one.

        Raises:
            SegmentDamagedError: The segment has other bytes than were written.
            OSError: The file cannot be read now.
        """
        for segment in list(self._segments):
            if segment.after == after and segment.heads:
                self._files.verify(segment)

    def find(self, time_ms: int) -> int:
        """Return the highest sequence number with an earlier log time; `first_after` without one."""
        segments = [segment for segment in list(self._segments) if segment.heads]
        index = bisect_left(segments, time_ms, key=lambda segment: segment.heads[0].time)
        if not index:
            return self.first_after
        segment = segments[index - 1]
        head = segment.heads[bisect_left(segment.heads, time_ms, key=_time) - 1]
        changes = self._changes(segment, head)
        return changes[bisect_left(changes, time_ms, key=_time) - 1].sequence_number

    def count(self, after: int, until: int) -> tuple[int, int | None]:
        """Return the number of changes with after < sequence number <= until, and the log time of the first."""
        count, oldest_ms = 0, None
        heads = list(self._heads(after))
        for index, (segment, head) in enumerate(heads):
            is_inside = index + 1 < len(heads) and heads[index + 1][1].sequence_number <= until
            if is_inside and head.sequence_number > after:
                first_ms, inside = head.time, head.changes
            else:
                changes = self._changes(segment, head)
                low = bisect_right(changes, after, key=_sequence_number)
                inside = bisect_right(changes, until, key=_sequence_number) - low
                first_ms = changes[low].time if inside > 0 else 0
            if inside > 0:
                count += inside
                oldest_ms = first_ms if oldest_ms is None else oldest_ms
        return count, oldest_ms

    def shard_starts(self) -> list[ShardStart]:
        """Return the first change of each shard."""
        return self._shard_starts(head for segment in self._segments for head in segment.heads)

    def _shard_starts(self, heads: Iterable[BlockHead]) -> list[ShardStart]:
        """Return the first change of each shard of `heads`, which begin with the oldest block."""
        found: list[ShardStart] = []
        for head in heads:
            if not found:
                found.append(ShardStart(head.stream, head.shard, self._begun or head.sequence_number))
            elif (found[-1].stream, found[-1].period) != (head.stream, head.shard):
                found.append(ShardStart(head.stream, head.shard, head.sequence_number))
        return found


def _parts(changes: Sequence[Change]) -> list[Sequence[Change]]:
    """Divide changes into parts of about one block each."""
    parts, begin, size = [], 0, 0
    for index, change in enumerate(changes):
        size += 150 + len(change.old or b"") + len(change.new or b"")
        if size >= BLOCK_BYTES:
            parts.append(changes[begin : index + 1])
            begin, size = index + 1, 0
    if begin < len(changes):
        parts.append(changes[begin:])
    return parts
