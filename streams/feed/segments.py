"""The change segments of one table in one partition: files that follow each other.

    <table>-<after>.avro      changes with sequence numbers above `after`, up to the start of the next file

One thread appends to the last file. Other threads may read at the same time: written bytes do not change, and lists
only grow at their ends. Segments are derived data: one with a damaged block is rebuilt from the log and replaced
(repairs.py).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
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
        stream: The stream of that shard.
        period: The period of that shard.
    """

    first_after: int
    after: int
    size: int
    last: int
    begun: int = 0
    stream: int = 0
    period: int = 0


class Removal(NamedTuple):
    """The oldest changes, which are removed when the durable offset no longer names their segments.

    Attributes:
        segments: The number of the oldest segments.
        rest: The segment that replaces the last of them, and has the changes of it that are kept; or None.
        begun: The first change of the shard in which the oldest kept segment begins.
    """

    segments: int
    rest: Segment | None = None
    begun: ShardStart | None = None


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
        self._begun: ShardStart | None = None  # see Extent
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
        if extent.begun:
            self._begun = ShardStart(extent.stream, extent.period, extent.begun)
        end = extent.first_after
        for after, path in segments_of(disk, folder, owner.table):
            if end <= after <= extent.after:
                end = self._open(path, after, end, extent)
            else:  # expired, newer, or the rest of a segment whose oldest changes were to be removed
                disk.remove(path)
        if self._file is None or end != extent.last:
            raise DamagedError("the newest segment is missing, or damaged at its end")
        return self

    def _open(self, path: Path, after: int, end: int, extent: Extent) -> int:
        """Open the segment that begins after `end`, and return its last sequence number.

        The first block of each segment is read too, because its time decides when the segment is trimmed.
        """
        if after != end:
            raise DamagedError("a segment is missing, or damaged at its end")
        segment = self._files.load(path, after)
        self._segments.append(segment)
        if after == extent.after:
            self._cut(segment, extent.size)
        for head in segment.heads[:1]:
            self._files.read(segment, head)
        return self._files.last_of(segment)

    def _cut(self, newest: Segment, size: int) -> None:
        """Truncate the newest segment to its durable size: the rest is folded again."""
        if newest.size < size:
            raise DamagedError("the newest segment is shorter than its durable size")
        while newest.heads and newest.heads[-1].at + newest.heads[-1].size > size:
            newest.heads.pop()
        newest.size = newest.heads[-1].at + newest.heads[-1].size if newest.heads else newest.size
        if newest.size != size:
            raise DamagedError("the newest segment has no block end at its durable size")
        self._file = self._disk.open(newest.path)
        self._file.truncate(size)
        self._unsynced.append(self._file)

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
        if self._file is None or (
            self._segments[-1].heads and self._segments[-1].size >= self._segment_bytes
        ):
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
        return self._extent(self._segments, self._begun)

    def _extent(self, segments: Sequence[Segment], begun: ShardStart | None) -> Extent:
        oldest, newest = segments[0], segments[-1]
        shard = () if begun is None else (begun.sequence_number, begun.stream, begun.period)
        return Extent(oldest.after, newest.after, newest.size, self.last, *shard)

    def close(self) -> None:
        """Close all files. Writes that were not synced may be lost."""
        for file in {*self._unsynced, *([] if self._file is None else [self._file])}:
            file.close()
        self._unsynced.clear()
        self._file = None

    # Removing and replacing

    def removal(self, before_ms: int, trimmed: int) -> Removal:
        """Prepare the removal of changes before `before_ms`.

        All changes of a segment are removed together. Those of records that the log no longer has, which have sequence
        numbers up to `trimmed`, are removed at once: the rest of their segment is written to another file.

        Raises:
            DamagedError: A part of that segment is damaged.
            OSError: The disk refused the file, or the segment cannot be read.
        """
        firsts = [segment.heads[0].time for segment in self._segments[1:] if segment.heads]
        count = bisect_left(firsts, before_ms)
        oldest = self._segments[count]
        blocks = [head for head in oldest.heads if head.time < before_ms and head.sequence_number <= trimmed]
        if not blocks:
            return self._removal(count, None)
        divided = self._files.read(oldest, blocks[-1])
        kept = [each for each in divided if each.time >= before_ms or each.sequence_number > trimmed]
        following = oldest.heads[len(blocks) :]
        if not kept and not following and count + 1 < len(self._segments):
            return self._removal(count + 1, None)
        after = divided[-len(kept) - 1].sequence_number
        return self._removal(
            count + 1, self._files.write_rest(oldest, after, kept, blocks[-1].shard, following)
        )

    def _removal(self, count: int, rest: Segment | None) -> Removal:
        if not count:
            return Removal(0, None, self._begun)
        heads = [head for segment in _replaced(self._segments, count, rest) for head in segment.heads[:1]]
        first = heads[0].sequence_number if heads else self.last
        begun = [each for each in self.shard_starts() if each.sequence_number <= first]
        return Removal(count, rest, begun[-1] if begun else None)

    def remove(self, removal: Removal) -> None:
        """Remove changes, after the durable offset was written without them."""
        removed = self._segments[: removal.segments]
        if removal.rest is not None and removal.segments == len(self._segments):
            self._close_if_synced()
            self._file = self._disk.open(removal.rest.path)
        self._begun = removal.begun
        self._segments[:] = _replaced(self._segments, removal.segments, removal.rest)
        for segment in removed:
            with suppress(FileNotFoundError):  # removed by another process or by hand
                self._disk.remove(segment.path)

    def extent_without(self, removal: Removal) -> Extent:
        """Return the extent after a removal."""
        return self._extent(_replaced(self._segments, removal.segments, removal.rest), removal.begun)

    def remove_all(self) -> None:
        self.close()
        self.remove(Removal(len(self._segments)))

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
        found = [] if self._begun is None else [self._begun]
        for head in [head for segment in self._segments for head in segment.heads]:
            if not found or (found[-1].stream, found[-1].period) != (head.stream, head.shard):
                found.append(ShardStart(head.stream, head.shard, head.sequence_number))
        return found


def _replaced(segments: Sequence[Segment], count: int, rest: Segment | None) -> list[Segment]:
    """Return segments with the rest of the `count` oldest ones in their place."""
    return [*([] if rest is None else [rest]), *segments[count:]]


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
