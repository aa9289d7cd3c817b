"""Reading segments in their order, whoever writes them.

    segment 0 ──► segment 4711 ──► segment 9002            named for the first record of each
              chain            chain

Every byte that is read is checked: a segment's blocks against the chain, its end against the head of the next.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from ...model.errors import CorruptionError, ForeignLogError
from ..codec import decode_entry
from ..commands import Genesis, Record
from . import segment
from .filesystem import Filesystem, read_all
from .segment import Chain, DamageError, Frame, Header

HEADER_BYTES = 1 << 18
# Of a segment, read at once: about five milliseconds.
PIECE_BYTES: Final = 2 << 20


@dataclass(frozen=True, slots=True, order=True)
class Limit:
    """Where reading stops: so many bytes of the segment that begins with record `sequence`."""

    sequence: int
    position: int


class Mark(NamedTuple):
    """Where a read came to its end: at byte `at` of a segment, where `chain` includes all that precedes."""

    header: Header
    at: int
    chain: Chain


@dataclass(frozen=True, slots=True)
class Part:
    """The records of a folder up to a limit; `chain` includes them all.

    Whole records `behind` the limit are left out, because nothing proves that they were acknowledged.
    """

    history: "History"
    limit: Limit
    chain: Chain
    behind: int = 0

    @property
    def headers(self) -> list[Header]:
        """The heads of its segments, in order."""
        return [header for header in self.history.headers if header.chain.sequence <= self.limit.sequence]


class History:
    """The segments of one folder."""

    def __init__(self, disk: Filesystem, folder: Path) -> None:
        self._disk = disk
        self.folder = folder
        self.headers: list[Header] = []
        self._marks: dict[int, Mark] = {}  # by partition
        self._held: tuple[Header, bytes] | None = None

    @property
    def last(self) -> Header:
        """The newest segment's head."""
        return self.headers[-1]

    def load(self, until: int | None = None) -> None:
        """Look for segments that were not there before; only for those before record `until`, if it is given.

        Raises:
            CorruptionError, ForeignLogError, NewerVersionError: One of them is not ours to read.
        """
        known = {header.chain.sequence for header in self.headers}
        for sequence in segments_in(self._disk, self.folder):
            if sequence not in known and (until is None or sequence < until):
                self.add(self.head(sequence))

    def add(self, header: Header) -> None:
        """Take a segment that is newer than all that are known, or replaces the newest, which had no records yet."""
        if self.headers and header.log_id != self.headers[0].log_id:
            raise ForeignLogError(
                f"{self.path(header)} belongs to the log {header.log_id.hex()}, the segments before it to "
                f"{self.headers[0].log_id.hex()}. Put it back where it came from."
            )
        if self.headers and header.chain.sequence == self.last.chain.sequence:
            self.headers[-1] = header
        else:
            self.headers.append(header)

    def hold(self, header: Header, data: bytes) -> None:
        """Read these bytes from now on in place of the segment's file, to which a writer may be appending."""
        self._held = (header, data)

    def damaged(self, position: str, what: str, *, behind_mark: bool = False) -> CorruptionError:
        """The refusal of this folder; see `damaged`."""
        return damaged(self.folder, position, what, behind_mark=behind_mark)

    def path(self, header: Header) -> Path:
        """Where a segment is."""
        return self.folder / segment.name(header.chain.sequence)

    def size(self, header: Header) -> int:
        """How many bytes a segment has."""
        file = self._disk.open(self.path(header), write=False)
        try:
            return file.size()
        finally:
            file.close()

    def genesis(self) -> list[Genesis]:
        """Each partition's first command, from the first records of the log."""
        first = self.headers[0]
        if first.chain.sequence:
            raise self.damaged(segment.name(0), "the log's first segment is missing")
        data, chain = self.data(first), first.chain.copy()
        found: list[Genesis] = []
        at = first.size
        for partition in range(len(chain.ends)):
            frame = self.block(first, data, at, chain)
            command = self.record(first, data, frame).entry.commands[0]
            if not isinstance(command, Genesis) or (command.partition, frame.partition) != (
                partition,
                partition,
            ):
                raise self.damaged(place(first, at, chain), "the log does not begin with Genesis")
            if command.log_id != first.log_id:
                raise ForeignLogError(
                    f"{self.path(first)}: the log's Genesis is that of {command.log_id.hex()}"
                )
            found.append(command)
            at = frame.end
        return found

    def check_older(self) -> None:
        """Read every segment but the last, and see that each leads to the next.

        Raises:
            CorruptionError: One does not.
        """
        for header, following in pairwise(self.headers):
            self.check(header, following)

    def check(self, header: Header, following: Header | None) -> None:
        """Read a segment to its end, and see that it leads to the one that follows, if that one's head is known.

        Raises:
            CorruptionError: A block is not what was written, or the next segment continues something else.
        """
        chain = header.chain.copy()
        for _ in self._blocks(header, header.size, self.size(header), chain):
            pass
        if following is not None:
            self.check_follows(following, chain)

    def read(self, partition: int, start: int, limit: Limit) -> Iterator[Record]:
        """The partition's records from offset `start` up to `limit`.

        Who comes back for what was written since goes on where that read ended, not through the segment again.
        """
        headers = [header for header in self.headers if header.chain.sequence <= limit.sequence]
        mark = self._marks.get(partition)
        if mark is not None and mark.chain.ends[partition] == start and mark.header in headers:
            return self._read(headers[headers.index(mark.header) :], partition, start, limit, mark)
        begins = [header.chain.ends[partition] for header in headers]
        # A segment without records of the partition begins where the next one does: the last such may hold `start`.
        return self._read(headers[max(0, bisect_right(begins, start) - 1) :], partition, start, limit)

    def hash_of(self, partition: int, offset: int, limit: Limit) -> bytes:
        """The hash of a record, which includes all that precede it. A read of what follows goes on from here."""
        headers = [header for header in self.headers if header.chain.sequence <= limit.sequence]
        begins = [header.chain.ends[partition] for header in headers]
        for header in headers[max(0, bisect_right(begins, offset) - 1) :]:
            chain = header.chain.copy()
            for piece, _, frame in self._blocks(header, header.size, self._end(header, limit), chain):
                if (frame.partition, frame.offset) == (partition, offset):
                    self._marks[partition] = Mark(header, piece + frame.end, chain)
                    return chain.hash
        raise LookupError(f"the log has no record {partition}:{offset}")

    def _read(
        self, headers: list[Header], partition: int, start: int, limit: Limit, mark: Mark | None = None
    ) -> Iterator[Record]:
        chain: Chain | None = None
        for header in headers:
            if chain is not None:
                self.check_follows(header, chain)
            at, chain = (header.size, header.chain.copy()) if mark is None else (mark.at, mark.chain.copy())
            mark = None
            end = self._end(header, limit)
            for piece, data, frame in self._blocks(header, at, end, chain):
                if frame.partition == partition and frame.offset >= start:
                    yield self.record(header, data, frame, piece)
            self._marks[partition] = Mark(header, end, chain.copy())

    def _end(self, header: Header, limit: Limit) -> int:
        return limit.position if header.chain.sequence == limit.sequence else self.size(header)

    def _blocks(self, header: Header, at: int, end: int, chain: Chain) -> Iterator[tuple[int, bytes, Frame]]:
        """The blocks of a segment from byte `at` to byte `end`: where a piece begins, its bytes, a block's place in it.

        The file is read in pieces: a whole segment at once takes 80 ms, and a rebuild reads on the loop that serves.
        """
        if self._held is not None and self._held[0] == header:
            held = self._held[1]
            while at < end:
                frame = self.block(header, held, at, chain)
                at = frame.end
                yield 0, held, frame
            return
        file = self._disk.open(self.path(header), write=False)
        try:
            if self._parse(file.read(0, header.size), header.chain.sequence) != header:
                raise self.damaged(place(header, 0), "the segment's head has changed")
            size = PIECE_BYTES
            while at < end:
                size = min(size, end - at)
                data = file.read(at, size)
                if len(data) < size:
                    early = end - at - len(data)
                    raise self.damaged(
                        place(header, at + len(data)), f"the segment ends here, {early} bytes early"
                    )
                whole = 0
                try:
                    while whole < size:
                        frame = segment.read_block(data, whole, header.marker, chain)
                        whole = frame.end
                        yield at, data, frame
                except DamageError as damage:
                    if at + size == end:
                        raise self.damaged(place(header, at + damage.at, chain), damage.what) from damage
                # The last block of a piece is seldom whole: the next piece begins with it.
                # A block that is larger than a piece has one of its own.
                at, size = at + whole, PIECE_BYTES if whole else 2 * size
        finally:
            file.close()

    def check_follows(self, header: Header, chain: Chain) -> None:
        """Refuse a segment that does not begin where `chain` ends."""
        if chain != header.chain:
            raise self.damaged(place(header, 0, header.chain), "the segment does not continue the one before")

    def data(self, header: Header, size: int | None = None) -> bytes:
        """Return a segment's first `size` bytes, or all of it, with its head checked."""
        if self._held is not None and self._held[0] == header:
            return self._held[1][:size]
        data = read_all(self._disk, self.path(header), size)
        if size is not None and len(data) < size:
            raise self.damaged(
                place(header, len(data)), f"the segment ends here, {size - len(data)} bytes early"
            )
        if self._parse(data, header.chain.sequence) != header:
            raise self.damaged(place(header, 0), "the segment's head has changed")
        return data

    def block(self, header: Header, data: bytes, at: int, chain: Chain) -> Frame:
        """The block at `at`, which must be whole."""
        try:
            return segment.read_block(data, at, header.marker, chain)
        except DamageError as damage:
            raise self.damaged(place(header, damage.at, chain), damage.what) from damage

    def record(self, header: Header, data: bytes, frame: Frame, begins: int = 0) -> Record:
        """The record in a block of `data`, which begins at that byte of the segment."""
        try:
            entry = decode_entry(frame.entry(data), header.fingerprint)
        except ValueError as error:
            raise self.damaged(place(header, begins + frame.start), str(error)) from error
        return Record(frame.partition, frame.offset, frame.time, entry)

    def head(self, sequence: int) -> Header:
        """Return the head of the segment that begins with record `sequence`.

        Raises:
            CorruptionError, NewerVersionError: It is not what was written, or a later version wrote it.
        """
        return self._parse(read_all(self._disk, self.folder / segment.name(sequence), HEADER_BYTES), sequence)

    def _parse(self, data: bytes, sequence: int) -> Header:
        try:
            header = segment.read_header(data)
        except DamageError as damage:
            raise self.damaged(f"{segment.name(sequence)} at byte {damage.at}", damage.what) from damage
        if header.chain.sequence != sequence:
            raise self.damaged(
                f"{segment.name(sequence)} at byte 0",
                f"the segment is that of record {header.chain.sequence}",
            )
        return header


def segments_in(disk: Filesystem, folder: Path) -> list[int]:
    """The first records of the folder's segments."""
    sequences = (segment.sequence_in(name) for name in disk.names(folder))
    return sorted(sequence for sequence in sequences if sequence is not None)


def place(header: Header, at: int, chain: Chain | None = None) -> str:
    """How an error names a place in the log."""
    text = f"{segment.name(header.chain.sequence)} at byte {at}"
    return f"{text} (record {chain.sequence} of the log)" if chain else text


def damaged(folder: Path, position: str, what: str, *, behind_mark: bool = False) -> CorruptionError:
    """The refusal of a log in a folder, with the next step.

    Args:
        folder: Holds the log.
        position: The segment and byte, as `place` writes them.
        what: The damage there.
        behind_mark: The segments end before the segment or byte that the log's mark names.
    """
    salvage = f"`foldb log salvage {folder} NEWFOLDER`"
    if behind_mark:
        step = (
            "If this is a copy that was made while the log was written, it is inconsistent: make copies with "
            f"`foldb log backup`, and copy the whole part of this one with {salvage}."
        )
    else:
        step = f"Restore a backup with `foldb log restore`, or copy the whole part with {salvage}."
    return CorruptionError(position, what, step)
