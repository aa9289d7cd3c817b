"""The files of change segments, read block by block. A damaged block is an error, never a page without its changes."""

import errno
import re
from collections import OrderedDict
from collections.abc import Container, Sequence
from dataclasses import field
from pathlib import Path
from typing import Final

from ...log.local.filesystem import UNFINISHED, File, Filesystem, create_file, read_all
from ...materializer.fold.outcomes import Change
from ...model.lazy_dataclass import dataclass
from . import change_codec
from .change_codec import HEAD_BYTES, MARKER_BYTES, BlockHead, DamagedError, SegmentOwner

CACHE_BYTES: Final = 16 << 20
# Errors of the system for a file that can never be read again, in whole or in part.
_LOST: Final = (errno.ENOENT, errno.EIO)

_is_segment = re.compile(r"([0-9]+)-([0-9]+)\.avro").fullmatch


@dataclass(slots=True, eq=False)
class Segment:
    """One file. Two segments with the same name, one after the other, are not equal.

    Attributes:
        path: The file.
        after: Exclusive lower bound of its sequence numbers: the last change of the segment before it.
        marker: The bytes between its blocks.
        size: Position of the next block.
        heads: The heads of its blocks.
        unverified: Positions of blocks whose heads were read from the file and whose checksums were not compared yet.
    """

    path: Path
    after: int
    marker: bytes
    size: int
    heads: list[BlockHead] = field(default_factory=list)
    unverified: set[int] = field(default_factory=set)


class SegmentDamagedError(DamagedError):
    """A segment has other bytes than were written. Its changes can be rebuilt from the log."""

    def __init__(self, segment: Segment, reason: str) -> None:
        super().__init__(f"{segment.path}: {reason}")
        self.segment = segment


class SegmentRemovedError(Exception):
    """A reader's segment was removed, or replaced by the rest of it. The read can be repeated."""


class BlockCache:
    """Decoded blocks, least recently used out first: consecutive reads, and several readers, use the same blocks."""

    def __init__(self, max_bytes: int = CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._blocks: OrderedDict[tuple[Segment, int], list[Change]] = OrderedDict()
        self._sizes: dict[tuple[Segment, int], int] = {}
        self._bytes = 0

    def get(self, disk: Filesystem, segment: Segment, head: BlockHead, table: int) -> list[Change]:
        key = segment, head.at
        found = self._blocks.get(key)
        if found is None:
            found = read_block(disk, segment, head, table)
            self._blocks[key] = found
            self._sizes[key] = head.size
            self._bytes += head.size
            while self._bytes > self._max_bytes and len(self._blocks) > 1:
                oldest, _ = self._blocks.popitem(last=False)
                self._bytes -= self._sizes.pop(oldest)
        else:
            self._blocks.move_to_end(key)
        return found


class SegmentFiles:
    """Reads the segment files of one table in one partition."""

    def __init__(
        self, disk: Filesystem, owner: SegmentOwner, cache: BlockCache, current: Container[Segment]
    ) -> None:
        """Read for `owner`.

        A lost file is damage only while its segment is in `current`: another thread may remove segments.
        """
        self._disk = disk
        self._owner = owner
        self._cache = cache
        self._current = current

    def load(self, path: Path, after: int) -> Segment:
        """Read the heads of a segment's blocks, as far as the file is undamaged.

        Raises:
            DamagedError: The header, or the first block, has other bytes than were written.
        """
        header = change_codec.header(self._owner, after)
        segment = Segment(path, after, header[-MARKER_BYTES:], len(header))
        file = self._disk.open(path, write=False)
        try:
            if file.read(0, len(header)) != header:
                raise DamagedError("the header of the segment has other bytes than were written")
            _read_heads(file, segment, file.size())
        except DamagedError:
            if not segment.heads:
                raise
        finally:
            file.close()
        return segment

    def write_rest(
        self,
        segment: Segment,
        after: int,
        first: Sequence[Change],
        shard: int,
        following: Sequence[BlockHead],
    ) -> Segment:
        """Write the changes of a segment after a sequence number to a file of their own, and sync it.

        Args:
            segment: The segment.
            after: The sequence number.
            first: The changes after it in the same block.
            shard: The shard of that block.
            following: The blocks after it.

        Raises:
            DamagedError: A block is damaged.
            OSError: The disk refused the file, or the segment cannot be read.
        """
        header = change_codec.header(self._owner, after)
        path = segment.path.with_name(file_name(self._owner.table, after))
        rest = Segment(path, after, header[-MARKER_BYTES:], len(header))
        blocks = [change_codec.block(first, shard, rest.marker)] if first else []
        file = self._disk.open(segment.path, write=False)
        try:
            for head in following:
                data = file.read(head.at, head.size)
                blocks.append(change_codec.moved_block(data, segment.marker, rest.marker))
        finally:
            file.close()
        for block in blocks:
            rest.heads.append(change_codec.read_head(block, rest.size))
            rest.size += len(block)
        create_file(self._disk, path, b"".join([header, *blocks]), replaces=True).close()
        return rest

    def last_of(self, segment: Segment) -> int:
        """Return the sequence number of a segment's last change."""
        if not segment.heads:
            return segment.after
        return self.read(segment, segment.heads[-1])[-1].sequence_number

    def read(self, segment: Segment, head: BlockHead) -> list[Change]:
        """Return the changes of a block, read from the file."""
        return read_block(self._disk, segment, head, self._owner.table)

    def changes(self, segment: Segment, head: BlockHead) -> list[Change]:
        """Return the changes of a block, from the cache if it has them.

        Raises:
            SegmentDamagedError: The segment no longer has the bytes that were written.
            SegmentRemovedError: The segment was removed.
            OSError: The file cannot be read now.
        """
        try:
            changes = self._cache.get(self._disk, segment, head, self._owner.table)
        except DamagedError as error:
            raise SegmentDamagedError(segment, f"at byte {head.at}: {error}") from error
        except OSError as error:
            raise self._error_of(segment, error) from error
        segment.unverified.discard(head.at)
        return changes

    def verify(self, segment: Segment) -> None:
        """Read a segment to its end and compare all checksums.

        Raises:
            SegmentDamagedError: The segment has other bytes than were written.
            SegmentRemovedError: The segment was removed.
            OSError: The file cannot be read now.
        """
        size = segment.size
        try:
            data = read_all(self._disk, segment.path, size)
            if len(data) < size:
                raise DamagedError("the file is cut short")
            change_codec.verify(data, self._owner, segment.after)
        except DamagedError as error:
            raise SegmentDamagedError(segment, str(error)) from error
        except OSError as error:
            raise self._error_of(segment, error) from error

    def _error_of(self, segment: Segment, error: OSError) -> Exception:
        """Return the error for a file that cannot be read."""
        if error.errno not in _LOST:
            return error
        if segment in self._current:
            return SegmentDamagedError(segment, str(error))
        return SegmentRemovedError(str(error))


def read_block(disk: Filesystem, segment: Segment, head: BlockHead, table: int) -> list[Change]:
    """Read and decode one block of a segment.

    Raises:
        DamagedError: The block has other bytes than were written.
    """
    file = disk.open(segment.path, write=False)
    try:
        data = file.read(head.at, head.size)
    finally:
        file.close()
    return change_codec.read_block(data, segment.marker, table)


def _read_heads(file: File, segment: Segment, until: int) -> None:
    """Append the heads of the blocks that follow the known ones."""
    while segment.size < until:
        # The marker before a block proves that the previous block ended there.
        data = file.read(segment.size - MARKER_BYTES, MARKER_BYTES + HEAD_BYTES)
        if data[:MARKER_BYTES] != segment.marker:
            raise DamagedError("a block does not end where its head says")
        block = change_codec.read_head(data[MARKER_BYTES:], segment.size)
        if block.at + block.size > until:
            return
        if not _continues(segment, block):
            raise DamagedError("a block does not continue the one before")
        segment.heads.append(block)
        segment.unverified.add(block.at)
        segment.size += block.size


def _continues(segment: Segment, block: BlockHead) -> bool:
    """Return whether a block's sequence number, time and shard follow those of the previous block."""
    if not segment.heads:
        return block.sequence_number > segment.after
    before = segment.heads[-1]
    is_later = before.sequence_number < block.sequence_number and before.time <= block.time
    return is_later and (before.stream != block.stream or before.shard <= block.shard)


def file_name(table: int, after: int) -> str:
    """Return the file name of the segment of a table that begins after a sequence number."""
    return f"{table}-{after:027d}.avro"


def segments_of(disk: Filesystem, folder: Path, table: int) -> list[tuple[int, Path]]:
    """Return the segment files of a table, oldest first, each with its exclusive lower bound."""
    matches = [match for match in map(_is_segment, disk.names(folder)) if match and int(match[1]) == table]
    return sorted((int(match[2]), folder / match[0]) for match in matches)


def remove_others(disk: Filesystem, folder: Path, tables: Container[int]) -> None:
    """Remove the segment files of all tables except `tables`, and unfinished files."""
    for name in disk.names(folder):
        match = _is_segment(name)
        if name.endswith(UNFINISHED) if match is None else int(match[1]) not in tables:
            disk.remove(folder / name)
