"""The change segments of one table in one partition: files that follow each other.

    <table>-<after>.avro      changes with numbers above `after`, up to where the next one goes on

One thread writes, at the end of the last; another may read whatever is there at the same time, because what is there
does not change, and lists only grow at their ends. Nothing here is the truth: a segment with a block that is not what
was written is made again from the log, and replaced as a whole (repairs.py).
"""

import errno
import re
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

from ...log.local.filesystem import File, Filesystem, read_all, write_all
from ...materializer.fold.outcomes import Change
from . import change_codec
from .change_codec import HEAD_BYTES, MARKER_BYTES, DamagedError, Head, Owner
from .shards import Beginning

SEGMENT_BYTES: Final = 16 << 20
BLOCK_BYTES: Final = 128 << 10
CACHE_BYTES: Final = 16 << 20
# A log on the same disk waits for what is being synced, so it is never much at once.
_SYNC_BYTES: Final = 8 << 20
# What a system says of a file of which nothing, or not all, can ever be read again.
_LOST: Final = (errno.ENOENT, errno.EIO)

_is_segment = re.compile(r"([0-9]+)-([0-9]+)\.avro").fullmatch
_number = attrgetter("number")
_time = attrgetter("time")
_after = attrgetter("after")
_sequence_number = attrgetter("sequence_number")


class Batch(NamedTuple):
    """Changes of one shard, on their way to a segment."""

    shard: int
    changes: Sequence[Change]


class Extent(NamedTuple):
    """How far a table's segments are whole: up to `size` bytes of the one that goes on from `after`.

    `last` is the number of the last change there, `first_after` what the oldest segment goes on from, and `begun` the
    first change of the shard in which that begins, which may have been removed; 0 where nobody knows.
    """

    first_after: int
    after: int
    size: int
    last: int
    begun: int = 0


@dataclass(slots=True, eq=False)
class Segment:
    """One file, and no other that has its name later: each is equal to itself alone.

    `heads` are those of its blocks, `size` is where the next block goes. `unread` has the places of blocks whose heads
    were read from the file and whose checks were not compared yet.
    """

    path: Path
    after: int
    marker: bytes
    size: int
    heads: list[Head] = field(default_factory=list)
    unread: set[int] = field(default_factory=set)


class SegmentDamagedError(DamagedError):
    """A segment is not what was written. Its changes can be made again from the log."""

    def __init__(self, segment: Segment, what: str) -> None:
        super().__init__(f"{segment.path}: {what}")
        self.segment = segment


class Blocks:
    """Blocks that were read lately, decoded: who reads one reads on in it, and others come behind him."""

    def __init__(self, bound: int = CACHE_BYTES) -> None:
        self._bound = bound
        self._kept: OrderedDict[tuple[Segment, int], list[Change]] = OrderedDict()
        self._sizes: dict[tuple[Segment, int], int] = {}
        self._bytes = 0

    def get(self, disk: Filesystem, segment: Segment, head: Head, table: int) -> list[Change]:
        """The changes of a block."""
        key = segment, head.at
        found = self._kept.get(key)
        if found is None:
            found = _read_block(disk, segment, head, table)
            self._kept[key] = found
            self._sizes[key] = head.size
            self._bytes += head.size
            while self._bytes > self._bound and len(self._kept) > 1:
                oldest, _ = self._kept.popitem(last=False)
                self._bytes -= self._sizes.pop(oldest)
        else:
            self._kept.move_to_end(key)
        return found


class Segments:
    """See the module.

    Attributes:
        last: The number of the last change that is written.
        is_doubtful: Whether a sync has failed. The next one would say that all is well, and it would not be so.
    """

    def __init__(
        self,
        disk: Filesystem,
        folder: Callable[[], Path],
        owner: Owner,
        blocks: Blocks,
        *,
        after: int = 0,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        """None is there yet; the first one will hold what has a higher number than `after`.

        `folder` is asked for when there is something to write.
        """
        self.last = after
        self.is_doubtful = False
        self._disk = disk
        self._folder = folder
        self._owner = owner
        self._blocks = blocks
        self._segment_bytes = segment_bytes
        self._segments: list[Segment] = []
        self._begun = 0  # see Extent
        self._file: File | None = None
        self._unsynced: list[File] = []
        self._unsynced_bytes = 0
        self._is_named = True  # whether all names would survive a power cut

    # Opening

    @classmethod
    def open(
        cls,
        disk: Filesystem,
        folder: Path,
        owner: Owner,
        blocks: Blocks,
        extent: Extent,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> "Segments":
        """What is there of a table up to `extent`; what is there besides is removed.

        Raises:
            DamagedError, OSError: Not all of it is there.
        """
        self = cls(disk, lambda: folder, owner, blocks, after=extent.last, segment_bytes=segment_bytes)
        self._begun = extent.begun
        for after, path in segments_of(disk, folder, owner.table):
            if extent.first_after <= after <= extent.after:
                self._segments.append(self._load(path, after))
            else:
                disk.remove(path)
        if not self._segments or self._segments[0].after != extent.first_after:
            raise DamagedError("the oldest segment is gone")
        newest = self._segments[-1]
        if newest.after != extent.after or newest.size < extent.size:
            raise DamagedError("the newest segment is not as long as it was")
        self._cut(newest, extent.size)
        self._check_order(extent)
        return self

    def _load(self, path: Path, after: int, until: int | None = None) -> Segment:
        """A segment with the heads of its blocks, up to so many bytes or as far as it is whole."""
        head = change_codec.header(self._owner, after)
        segment = Segment(path, after, head[-MARKER_BYTES:], len(head))
        file = self._disk.open(path, write=False)
        try:
            if file.read(0, len(head)) != head:
                raise DamagedError("a segment's header is not what it was")
            self._walk(file, segment, file.size() if until is None else until)
        except DamagedError:
            if not segment.heads:
                raise
        finally:
            file.close()
        return segment

    def _walk(self, file: File, segment: Segment, until: int) -> None:
        """Take the heads of the blocks that follow those that are known."""
        while segment.size < until:
            # The marker before a block shows that the one before it ended there.
            data = file.read(segment.size - MARKER_BYTES, MARKER_BYTES + HEAD_BYTES)
            if data[:MARKER_BYTES] != segment.marker:
                raise DamagedError("a block does not end where it says")
            block = change_codec.read_head(data[MARKER_BYTES:], segment.size)
            if block.at + block.size > until:
                return
            if not _continues(segment, block):
                raise DamagedError("a block does not continue the one before")
            segment.heads.append(block)
            segment.unread.add(block.at)
            segment.size += block.size

    def follow(self, extent: Extent) -> None:
        """Take in what somebody else has written, up to `extent`; he writes to these files and nobody here does."""
        known = self._segments[-1].after if self._segments else -1
        for after, path in segments_of(self._disk, self._folder(), self._owner.table):
            if not known <= after <= extent.after:
                continue
            if after > known:
                self._segments.append(self._load(path, after, 0))
            file = self._disk.open(path, write=False)
            try:
                self._walk(file, self._segments[-1], extent.size if after == extent.after else file.size())
            finally:
                file.close()
        self.last = extent.last

    def _cut(self, newest: Segment, size: int) -> None:
        """Forget what was written after the extent was told: it is folded again."""
        while newest.heads and newest.heads[-1].at + newest.heads[-1].size > size:
            newest.heads.pop()
        newest.size = newest.heads[-1].at + newest.heads[-1].size if newest.heads else newest.size
        if newest.size != size:
            raise DamagedError("the newest segment does not end where it did")
        self._file = self._disk.open(newest.path)
        self._file.truncate(size)
        self._unsynced.append(self._file)

    def _check_order(self, extent: Extent) -> None:
        """Each must go on from what the one before ends with; the last ends with what was said.

        The first block of each is read too: what is over is decided by its time.
        """
        ends = [segment.after for segment in self._segments[1:]] + [extent.last]
        for segment, end in zip(self._segments, ends, strict=True):
            if self._last_of(segment) != end:
                raise DamagedError("a segment is gone, or damaged at its end")
            for head in segment.heads[:1]:
                _read_block(self._disk, segment, head, self._owner.table)

    def _last_of(self, segment: Segment) -> int:
        if not segment.heads:
            return segment.after
        block = _read_block(self._disk, segment, segment.heads[-1], self._owner.table)
        return block[-1].sequence_number

    # Writing

    def append(self, after: int, batches: Sequence[Batch]) -> None:
        """Write changes that follow the change with number `after`. They are not synced yet.

        Raises:
            OSError: The disk would not have them. Some of them are written: up to `last`.
        """
        assert after == self.last, "a change was left out"
        for batch in batches:
            for part in _parts(batch.changes):
                self._write(part, batch.shard)

    def _write(self, changes: Sequence[Change], shard: int) -> None:
        if self._file is None or self._segments[-1].size >= self._segment_bytes:
            self._begin()
        segment, file = self._segments[-1], self._file
        assert file is not None
        data = change_codec.block(changes, shard, segment.marker)
        write_all(file, segment.size, data)
        if file not in self._unsynced:
            self._unsynced.append(file)
        first = changes[0]
        head = Head(
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
            self._surely(file.sync)
            self._unsynced_bytes = 0

    def _begin(self) -> None:
        """Go on in a new segment."""
        if not self._segments:
            self._disk.make_folder(self._folder())
            for _, path in segments_of(self._disk, self._folder(), self._owner.table):
                self._disk.remove(path)  # of which nothing is known
        head = change_codec.header(self._owner, self.last)
        path = self._folder() / file_name(self._owner.table, self.last)
        file = self._disk.open(path, create=True)
        try:
            file.truncate(0)
            write_all(file, 0, head)
        except OSError:
            file.close()
            raise
        if self._file is not None and self._file not in self._unsynced:
            self._file.close()
        self._file, self._is_named = file, False
        self._unsynced.append(file)
        self._segments.append(Segment(path, self.last, head[-MARKER_BYTES:], len(head)))

    def sync(self) -> Extent | None:
        """Have all that is written survive a power cut; how far that is, None if there is nothing.

        Raises:
            OSError, DamagedError: It may not.
        """
        if self.is_doubtful:
            raise DamagedError("a sync has failed")
        for file in self._unsynced:
            self._surely(file.sync)
            if file is not self._file:
                file.close()
        self._unsynced.clear()
        if not self._is_named:
            self._surely(lambda: self._disk.sync_folder(self._folder()))
            self._is_named = True
        return self.extent

    def _surely(self, sync: Callable[[], None]) -> None:
        try:
            sync()
        except OSError:
            self.is_doubtful = True
            raise

    @property
    def extent(self) -> Extent | None:
        """How far they go, None if there is nothing."""
        if not self._segments:
            return None
        newest = self._segments[-1]
        return Extent(self._segments[0].after, newest.after, newest.size, self.last, self._begun)

    def over(self, before_ms: int) -> int:
        """How many segments, from the oldest on, hold only what is older than `before_ms`; the newest is kept."""
        firsts = [segment.heads[0].time for segment in self._segments[1:] if segment.heads]
        return bisect_left(firsts, before_ms)

    def remove(self, count: int) -> None:
        """Show the `count` oldest no more, and remove them."""
        self._begun = self._begun_without(count)
        paths = [segment.path for segment in self._segments[:count]]
        del self._segments[:count]
        for path in paths:
            with suppress(FileNotFoundError):  # somebody else did
                self._disk.remove(path)

    def extent_without(self, count: int, extent: Extent) -> Extent:
        """The extent when the `count` oldest are gone."""
        return extent._replace(first_after=self._segments[count].after, begun=self._begun_without(count))

    def _begun_without(self, count: int) -> int:
        """Where the shard began in which they begin when the `count` oldest are gone."""
        heads = [head for segment in self._segments[:count] for head in segment.heads]
        following = [head for segment in self._segments[count:] for head in segment.heads[:1]]
        return self._shards_of([*heads, following[0]])[-1].number if following else 0

    def remove_all(self) -> None:
        """Remove every segment."""
        self.close()
        self.remove(len(self._segments))

    def seal(self, damaged: Segment) -> int | None:
        """Write no more to a segment that is to be replaced; the number of its last change, None if it was removed."""
        if damaged not in self._segments:
            return None
        place = self._segments.index(damaged)
        if place + 1 < len(self._segments):
            return self._segments[place + 1].after
        if self._file is not None and self._file not in self._unsynced:
            self._file.close()
        self._file = None
        return self.last

    def replace(self, damaged: Segment, made: Path, last: int) -> bool:
        """Put the file `made`, which holds the same changes up to number `last`, in the place of a damaged segment.

        Return False if that was removed in the meantime.

        Raises:
            DamagedError: The file does not hold them.
            OSError: The disk refuses it.
        """
        if damaged not in self._segments:
            return False
        segment = self._load(made, damaged.after)
        self._check(segment)
        if self._last_of(segment) != last:
            raise DamagedError(f"{made} does not end with the last change of {damaged.path}")
        file = self._disk.open(made)
        try:
            file.sync()
        finally:
            file.close()
        self._disk.rename(made, damaged.path)
        segment.path = damaged.path
        self._segments[self._segments.index(damaged)] = segment
        self._disk.sync_folder(self._folder())
        return True

    def close(self) -> None:
        """Let files go; what was not synced may be lost."""
        for file in {*self._unsynced, *([] if self._file is None else [self._file])}:
            file.close()
        self._unsynced.clear()
        self._file = None

    # Reading

    @property
    def first_after(self) -> int:
        """What the oldest segment goes on from."""
        oldest = self._segments[:1]  # another thread may remove it
        return oldest[0].after if oldest else self.last

    def read(self, after: int, until: int) -> Iterator[list[Change]]:
        """Changes with numbers above `after` and up to `until`, block by block."""
        for segment, head in self._heads(after):
            if head.number > until:
                if head.at in segment.unread:
                    self._changes(segment, head)  # a head that is damaged must not end the read too early
                return
            changes = self._changes(segment, head)
            low = bisect_right(changes, after, key=_sequence_number)
            high = bisect_right(changes, until, lo=low, key=_sequence_number)
            yield changes[low:high]

    def _heads(self, after: int) -> Iterator[tuple[Segment, Head]]:
        """The blocks that may hold numbers above `after`, in order."""
        segments = list(self._segments)
        for segment in segments[max(0, bisect_right(segments, after, key=_after) - 1) :]:
            heads = segment.heads
            for place in range(max(0, bisect_right(heads, after, key=_number) - 1), len(heads)):
                yield segment, heads[place]

    def _changes(self, segment: Segment, head: Head) -> list[Change]:
        """The changes of a block.

        Raises:
            SegmentDamagedError: The segment no longer holds them.
            OSError: They cannot be read now, or their time was over meanwhile.
        """
        try:
            changes = self._blocks.get(self._disk, segment, head, self._owner.table)
        except DamagedError as error:
            raise SegmentDamagedError(segment, f"at byte {head.at}: {error}") from error
        except OSError as error:
            if error.errno in _LOST and segment in self._segments:
                raise SegmentDamagedError(segment, str(error)) from error
            raise
        segment.unread.discard(head.at)
        return changes

    def check(self, after: int) -> None:
        """Read the segment that goes on from `after` to its end, if there is one.

        Raises:
            SegmentDamagedError: It is not what was written.
            OSError: It cannot be read now.
        """
        for segment in list(self._segments):
            if segment.after == after and segment.heads:
                self._check(segment)

    def _check(self, segment: Segment) -> None:
        size = segment.size
        try:
            data = read_all(self._disk, segment.path, size)
            if len(data) < size:
                raise DamagedError("the file is cut short")
            change_codec.check(data, self._owner, segment.after)
        except DamagedError as error:
            raise SegmentDamagedError(segment, str(error)) from error
        except OSError as error:
            if error.errno in _LOST and segment in self._segments:
                raise SegmentDamagedError(segment, str(error)) from error
            raise

    def find(self, time_ms: int) -> int:
        """The highest number of a change with a lower log time; `first_after` if there is none."""
        segments = [segment for segment in list(self._segments) if segment.heads]
        place = bisect_left(segments, time_ms, key=lambda segment: segment.heads[0].time)
        if not place:
            return self.first_after
        segment = segments[place - 1]
        head = segment.heads[bisect_left(segment.heads, time_ms, key=_time) - 1]
        changes = self._changes(segment, head)
        return changes[bisect_left(changes, time_ms, key=_time) - 1].sequence_number

    def count(self, after: int, until: int) -> tuple[int, int | None]:
        """How many changes have numbers above `after` and up to `until`, and the log time of the first."""
        count, oldest_ms = 0, None
        heads = list(self._heads(after))
        for nth, (segment, head) in enumerate(heads):
            is_whole = head.number > after and nth + 1 < len(heads) and heads[nth + 1][1].number <= until
            if is_whole:
                first_ms, inside = head.time, head.changes
            else:
                changes = self._changes(segment, head)
                numbers = [change.sequence_number for change in changes]
                low = bisect_right(numbers, after)
                inside = bisect_right(numbers, until) - low
                first_ms = changes[low].time if inside > 0 else 0
            if inside > 0:
                count += inside
                oldest_ms = first_ms if oldest_ms is None else oldest_ms
        return count, oldest_ms

    def beginnings(self) -> list[Beginning]:
        """The first changes of shards."""
        return self._shards_of(head for segment in self._segments for head in segment.heads)

    def _shards_of(self, heads: Iterable[Head]) -> list[Beginning]:
        """Those of the oldest blocks."""
        found: list[Beginning] = []
        for head in heads:
            if not found:
                found.append(Beginning(head.stream, head.shard, self._begun or head.number))
            elif (found[-1].stream, found[-1].nth) != (head.stream, head.shard):
                found.append(Beginning(head.stream, head.shard, head.number))
        return found


def _read_block(disk: Filesystem, segment: Segment, head: Head, table: int) -> list[Change]:
    file = disk.open(segment.path, write=False)
    try:
        data = file.read(head.at, head.size)
    finally:
        file.close()
    return change_codec.read_block(data, segment.marker, table)


def _continues(segment: Segment, block: Head) -> bool:
    """Whether the numbers, times and shards of a block are not before those of the block before it."""
    if not segment.heads:
        return block.number > segment.after
    before = segment.heads[-1]
    is_later = before.number < block.number and before.time <= block.time
    return is_later and (before.stream != block.stream or before.shard <= block.shard)


def _parts(changes: Sequence[Change]) -> list[Sequence[Change]]:
    """Stretches that make about a block each."""
    parts, begin, size = [], 0, 0
    for place, change in enumerate(changes):
        size += 150 + len(change.old or b"") + len(change.new or b"")
        if size >= BLOCK_BYTES:
            parts.append(changes[begin : place + 1])
            begin, size = place + 1, 0
    if begin < len(changes):
        parts.append(changes[begin:])
    return parts


def file_name(table: int, after: int) -> str:
    """The name of the segment of a table that goes on from `after`."""
    return f"{table}-{after:027d}.avro"


def segments_of(disk: Filesystem, folder: Path, table: int) -> list[tuple[int, Path]]:
    """The segments of a table that a folder holds, oldest first, each with what it goes on from."""
    matches = [match for match in map(_is_segment, disk.names(folder)) if match and int(match[1]) == table]
    return sorted((int(match[2]), folder / match[0]) for match in matches)


def remove_others(disk: Filesystem, folder: Path, tables: Container[int]) -> None:
    """Remove the segments of all tables but these."""
    for match in filter(None, map(_is_segment, disk.names(folder))):
        if int(match[1]) not in tables:
            disk.remove(folder / match[0])
