"""Read the segments of a folder in order.

    segment 0 ──► segment 4711 ──► segment 9002            named for the first record of each
              chain            chain

A trimmed log begins with a foundation (foundation.py) and a later segment. Every byte that a read returns is checked: a
record against the chain of hashes, a segment's end against the head of the next segment.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Final, NamedTuple

from ...model.durations import time_text
from ...model.errors import CorruptionError, FoldbError, ForeignLogError, HorizonError
from ...model.lazy_dataclass import dataclass
from ..codec import decode_entry
from ..commands import Genesis, Position, Record
from . import segment
from .filesystem import File, Filesystem, read_all
from .foundation import Foundation, newest, newest_sequence, opened_bases
from .segment import Chain, DamageError, Frame, Header

HEADER_BYTES = 1 << 18
# Bytes of a segment in one read: about five milliseconds.
PIECE_BYTES: Final = 2 << 20
# Reads note their position at this distance, so that a later read passes over half a millisecond of blocks.
_NOTED_BYTES: Final = 256 << 10
_MOST_NOTED: Final = 256


@dataclass(frozen=True, slots=True, order=True)
class Limit:
    """The end of a read: byte `position` of the segment that begins with record `sequence`."""

    sequence: int
    position: int


class ReadPosition(NamedTuple):
    """A position of an earlier read: byte `at` of a segment, with the `chain` of all records before it."""

    header: Header
    at: int
    chain: Chain


@dataclass(frozen=True, slots=True)
class Part:
    """The records of a folder up to a limit, with the chain at their end.

    `behind` is the number of intact records after the limit, left out because they may be unacknowledged.
    """

    history: "History"
    limit: Limit
    chain: Chain
    behind: int = 0

    @property
    def headers(self) -> list[Header]:
        """The headers of its segments, in order."""
        return [header for header in self.history.headers if header.chain.sequence <= self.limit.sequence]


class History:
    """The segments of one folder, and the foundation before them; None if the folder has the whole history."""

    def __init__(self, disk: Filesystem, folder: Path) -> None:
        self._disk = disk
        self.folder = folder
        self.headers: list[Header] = []
        self.foundation: Foundation | None = None
        self._noted: list[ReadPosition] = []  # in the order of the log
        self._held: tuple[Header, bytes] | None = None

    @property
    def last(self) -> Header:
        """The header of the newest segment."""
        return self.headers[-1]

    def load(self, until: int | None = None) -> None:
        """Load the headers of new segments, or only of those that begin before record `until`.

        A trim by the writer may remove segments and replace the foundation at any time.

        Raises:
            CorruptionError, ForeignLogError, NewerVersionError: A segment is damaged, belongs to another log, or was
                written by a later release; or both copies of the foundation are damaged.
        """
        self._load_foundation()
        while True:
            try:
                self._load_segments(until)
            except FileNotFoundError:
                if not self._load_foundation():
                    raise
            else:
                if not self._load_foundation():
                    break
        foundation = self.foundation
        if foundation is not None and self.headers and not foundation.continues_in(self.headers[0]):
            raise self.damaged(
                text_of(self.headers[0], 0, self.headers[0].chain),
                f"the segment does not continue the log's foundation at record {foundation.sequence}",
            )

    def _load_foundation(self) -> bool:
        """Load the newest foundation, and forget the segments before it. Return whether it is another than before."""
        sequence = newest_sequence(self._disk, self.folder)
        if sequence is None or (self.foundation is not None and self.foundation.sequence == sequence):
            return False
        foundation = newest(self._disk, self.folder)
        assert foundation is not None, "a name in the folder has its number"
        self.begin_with(foundation)
        return True

    def begin_with(self, foundation: Foundation) -> None:
        """Forget the segments before a foundation."""
        self.headers = [each for each in self.headers if each.chain.sequence >= foundation.sequence]
        self.foundation = foundation

    def _load_segments(self, until: int | None) -> None:
        begin = 0 if self.foundation is None else self.foundation.sequence
        known = {header.chain.sequence for header in self.headers}
        for sequence in segments_in(self._disk, self.folder):
            if sequence >= begin and sequence not in known and (until is None or sequence < until):
                self.add(self.head(sequence))

    def begin(self, partition: int) -> int:
        """Return the offset of the partition's first record; 0 if the log has its whole history."""
        return 0 if self.foundation is None else self.foundation.chain.ends[partition]

    @property
    def horizon_ms(self) -> int | None:
        """The log time of the history horizon; None if the log has its whole history."""
        return None if self.foundation is None else self.foundation.time_ms

    def bases(self, partition: int) -> Iterator[tuple[str, File]]:
        """Yield each copy of the partition's base, with its name; none if the log has its whole history."""
        return opened_bases(self._disk, self.folder, self.foundation, partition)

    def before_horizon(self, partition: int, offset: int) -> HorizonError:
        """Return the error for a record that a trim removed."""
        foundation = self.foundation
        assert foundation is not None, "the log has its whole history"
        partitions = len(foundation.genesis)
        asked, first = Position(partition, offset), Position(partition, self.begin(partition))
        archive = "" if foundation.archive is None else f"; the archive {foundation.archive} has them"
        return HorizonError(
            f"@{asked.text(partitions)} is before the history horizon @{first.text(partitions)} "
            f"({time_text(foundation.time_ms)}): `foldb log trim` removed the records before it{archive}"
        )

    def add(self, header: Header) -> None:
        """Add a segment that is newer than all others, or that replaces the newest, which has no records yet."""
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
        """Use these bytes for all reads of a segment, because a writer may be appending to its file."""
        self._held = (header, data)

    def damaged(self, position: str, reason: str, *, behind_mark: bool = False) -> CorruptionError:
        """Return the error for this folder; see `damaged`."""
        return damaged(self.folder, position, reason, behind_mark=behind_mark)

    def path(self, header: Header) -> Path:
        """Return the path of a segment."""
        return self.folder / segment.name(header.chain.sequence)

    def size(self, header: Header) -> int:
        """Return the number of bytes of a segment."""
        file = self.open(header)
        try:
            return file.size()
        finally:
            file.close()

    def genesis(self) -> list[Genesis]:
        """Return each partition's first command, from the foundation or from the first records of the log."""
        if self.foundation is not None:
            return list(self.foundation.genesis)
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
                raise self.damaged(text_of(first, at, chain), "the log does not begin with Genesis")
            if command.log_id != first.log_id:
                raise ForeignLogError(
                    f"{self.path(first)}: the segment belongs to the log {first.log_id.hex()}, its Genesis to "
                    f"{command.log_id.hex()}. Restore the folder from a backup."
                )
            found.append(command)
            at = frame.end
        return found

    def check_older(self) -> None:
        """Check every segment but the last, and that each leads to the next.

        Raises:
            CorruptionError: A segment is damaged, or the next does not continue it.
        """
        for header, following in pairwise(self.headers):
            self.check(header, following)

    def check(self, header: Header, following: Header | None) -> None:
        """Check a segment to its end, and that the following one continues it, if its header is given.

        Raises:
            CorruptionError: A block is damaged, or the next segment does not continue this one.
        """
        chain = self._check_blocks(header, self.size(header))
        if following is not None:
            self.check_follows(following, chain)

    def _check_blocks(self, header: Header, end: int) -> Chain:
        """Check the blocks of a segment up to byte `end`, and return the chain there."""
        chain = header.chain.copy()
        for _ in self._blocks(header, header.size, end, chain):
            pass
        return chain

    def read(self, partition: int, start: int, limit: Limit) -> Iterator[Record]:
        """Read the partition's records from offset `start` up to `limit`.

        It begins at a position of an earlier read, if one is nearer than the start of the segment.

        Raises:
            HorizonError: A trim removed the record at `start`.
        """
        if start < self.begin(partition):
            raise self.before_horizon(partition, start)
        headers = [header for header in self.headers if header.chain.sequence <= limit.sequence]
        begins = [header.chain.ends[partition] for header in headers]
        # Segments without records of the partition begin at the same offset; the last of them may hold `start`.
        first = max(0, bisect_right(begins, start) - 1)
        index = bisect_right(self._noted, start, key=lambda each: each.chain.ends[partition])
        noted = self._noted[index - 1] if index else None
        if noted is not None and noted.header in headers:
            at = headers.index(noted.header)
            # A read that continues another one also compares the segment with the end of the one before.
            if at >= first or noted.chain.ends[partition] == start:
                return self._read(headers[at:], partition, start, limit, noted)
        return self._read(headers[first:], partition, start, limit)

    def hash_of(self, partition: int, offset: int, limit: Limit) -> bytes:
        """Return the hash of a record and all records before it. A read of the next records continues from here.

        Raises:
            HorizonError: A trim removed the record, and it is not the last removed one, whose hash is known.
        """
        if offset < self.begin(partition) and self.foundation is not None:
            if offset < self.begin(partition) - 1:
                raise self.before_horizon(partition, offset)
            return self.foundation.hashes[partition]
        headers = [header for header in self.headers if header.chain.sequence <= limit.sequence]
        begins = [header.chain.ends[partition] for header in headers]
        for header in headers[max(0, bisect_right(begins, offset) - 1) :]:
            chain = header.chain.copy()
            for piece, _, frame in self._blocks(header, header.size, self._end(header, limit), chain):
                if (frame.partition, frame.offset) == (partition, offset):
                    self._note(ReadPosition(header, piece + frame.end, chain.copy()))
                    return chain.hash
        raise LookupError(f"the log has no record {partition}:{offset}")

    def _read(
        self,
        headers: list[Header],
        partition: int,
        start: int,
        limit: Limit,
        noted: ReadPosition | None = None,
    ) -> Iterator[Record]:
        for header, following in zip_longest(headers, headers[1:]):
            at, chain = (
                (header.size, header.chain.copy()) if noted is None else (noted.at, noted.chain.copy())
            )
            noted = None
            end = self._end(header, limit)
            try:
                for piece, data, frame in self._blocks(header, at, end, chain, partition):
                    if piece + frame.end - at >= _NOTED_BYTES:
                        at = piece + frame.end
                        self._note(ReadPosition(header, at, chain.copy()))
                    if frame.partition == partition and frame.offset >= start:
                        yield self.record(header, data, frame, piece)
                if following is not None:
                    self.check_follows(following, chain)
            except CorruptionError:
                self._check_blocks(header, end)  # the damage may be in a record before, of another partition
                raise
            self._note(ReadPosition(header, end, chain.copy()))

    def _note(self, position: ReadPosition) -> None:
        index = bisect_left(self._noted, position.chain.sequence, key=lambda each: each.chain.sequence)
        is_known = any(
            each.chain.sequence == position.chain.sequence for each in self._noted[index : index + 1]
        )
        self._noted[index : index + is_known] = [position]
        if len(self._noted) > _MOST_NOTED:
            del self._noted[0]

    def _end(self, header: Header, limit: Limit) -> int:
        return limit.position if header.chain.sequence == limit.sequence else self.size(header)

    def _blocks(
        self, header: Header, at: int, end: int, chain: Chain, partition: int | None = None
    ) -> Iterator[tuple[int, bytes, Frame]]:
        """Yield the blocks of a segment from byte `at` to byte `end`: a piece's position, its bytes, a block's frame.

        With a partition, the records of others are not hashed.
        The file is read in pieces: an entire segment takes 80 ms, and a rebuild reads on the loop that serves requests.
        """
        if self._held is not None and self._held[0] == header:
            held = self._held[1]
            while at < end:
                frame = self.block(header, held, at, chain, partition)
                at = frame.end
                yield 0, held, frame
            return
        file = self.open(header)
        try:
            if self._parse(file.read(0, header.size), header.chain.sequence) != header:
                raise self.damaged(text_of(header, 0), "the segment's header has changed")
            size = PIECE_BYTES
            while at < end:
                size = min(size, end - at)
                data = file.read(at, size)
                if len(data) < size:
                    early = end - at - len(data)
                    raise self.damaged(
                        text_of(header, at + len(data)), f"the segment ends here, {early} bytes early"
                    )
                parsed = 0
                try:
                    while parsed < size:
                        frame = segment.read_block(data, parsed, header.marker, chain, partition)
                        parsed = frame.end
                        yield at, data, frame
                except DamageError as damage:
                    if at + size == end:
                        raise self.damaged(text_of(header, at + damage.at, chain), damage.reason) from damage
                # The last block of a piece is usually incomplete: the next piece begins with it.
                # A piece that holds no complete block is read again with twice its size.
                at, size = at + parsed, PIECE_BYTES if parsed else 2 * size
        finally:
            file.close()

    def open(self, header: Header) -> File:
        """Open a segment for reading.

        Raises:
            HorizonError: A trim has removed the segment since the read began.
        """
        try:
            return self._disk.open(self.path(header), write=False)
        except FileNotFoundError:
            self._load_foundation()
            if self.foundation is None or header.chain.sequence >= self.foundation.sequence:
                raise
            partition = max(range(len(header.chain.ends)), key=header.chain.ends.__getitem__)
            raise self.before_horizon(partition, header.chain.ends[partition]) from None

    def check_follows(self, header: Header, chain: Chain) -> None:
        """Refuse a segment that does not begin where `chain` ends."""
        if chain != header.chain:
            raise self.damaged(
                text_of(header, 0, header.chain), "the segment does not continue the one before"
            )

    def data(self, header: Header, size: int | None = None) -> bytes:
        """Return a segment's first `size` bytes, or all of it, after checking its header."""
        if self._held is not None and self._held[0] == header:
            return self._held[1][:size]
        file = self.open(header)
        try:
            data = file.read(0, file.size() if size is None else size)
        finally:
            file.close()
        if size is not None and len(data) < size:
            raise self.damaged(
                text_of(header, len(data)), f"the segment ends here, {size - len(data)} bytes early"
            )
        if self._parse(data, header.chain.sequence) != header:
            raise self.damaged(text_of(header, 0), "the segment's header has changed")
        return data

    def block(
        self, header: Header, data: bytes, at: int, chain: Chain, partition: int | None = None
    ) -> Frame:
        """Return the block at `at`, which must be intact. With a partition, the records of others are not hashed."""
        try:
            return segment.read_block(data, at, header.marker, chain, partition)
        except DamageError as damage:
            raise self.damaged(text_of(header, damage.at, chain), damage.reason) from damage

    def record(self, header: Header, data: bytes, frame: Frame, begin: int = 0) -> Record:
        """Decode the record in a block of `data`, which begins at byte `begin` of the segment."""
        try:
            entry = decode_entry(frame.entry(data), header.fingerprint)
        except ValueError as error:
            raise self.damaged(text_of(header, begin + frame.start), str(error)) from error
        return Record(frame.partition, frame.offset, frame.time, entry)

    def head(self, sequence: int) -> Header:
        """Return the header of the segment that begins with record `sequence`.

        Raises:
            CorruptionError, NewerVersionError: The header is damaged, or a later version wrote it.
        """
        return self._parse(read_all(self._disk, self.folder / segment.name(sequence), HEADER_BYTES), sequence)

    def _parse(self, data: bytes, sequence: int) -> Header:
        try:
            header = segment.read_header(data)
        except DamageError as damage:
            raise self.damaged(f"{segment.name(sequence)} at byte {damage.at}", damage.reason) from damage
        if header.chain.sequence != sequence:
            raise self.damaged(
                f"{segment.name(sequence)} at byte 0",
                f"the segment begins with record {header.chain.sequence}",
            )
        return header


def segments_in(disk: Filesystem, folder: Path) -> list[int]:
    """Return the sequences of the first records of the folder's segments."""
    sequences = (segment.sequence_in(name) for name in disk.names(folder))
    return sorted(sequence for sequence in sequences if sequence is not None)


def text_of(header: Header, at: int, chain: Chain | None = None) -> str:
    """Return the text by which errors name byte `at` of a segment."""
    text = f"{segment.name(header.chain.sequence)} at byte {at}"
    return f"{text} (record {chain.sequence} of the log)" if chain else text


def damaged(folder: Path, position: str, reason: str, *, behind_mark: bool = False) -> CorruptionError:
    """Return the error for a damaged log, with the next step.

    Args:
        folder: The log's folder.
        position: The segment and byte, in the form of `text_of`.
        reason: The damage at the position.
        behind_mark: The segments end before the segment or byte that the log's file `mark` names.
    """
    salvage = f"`foldb log salvage {folder} NEWFOLDER`"
    if behind_mark:
        step = (
            "If this is a copy that was made while the log was written, it is inconsistent: make copies with "
            f"`foldb log backup`, and copy the intact part of this one with {salvage}."
        )
    else:
        step = f"Restore a backup with `foldb log restore`, or copy the intact part with {salvage}."
    return CorruptionError(position, reason, step)


class FolderLog:
    """The members that the writer and a reader of a folder share: the facts that the folder's history has."""

    _history: History
    _genesis: list[Genesis]

    @property
    def log_id(self) -> bytes:
        return self._genesis[0].log_id

    @property
    def partitions(self) -> int:
        return len(self._genesis)

    def genesis(self, partition: int) -> Genesis:
        return self._genesis[partition]

    def begin(self, partition: int) -> int:
        return self._history.begin(partition)

    def bases(self, partition: int) -> Iterator[tuple[str, File]]:
        return self._history.bases(partition)

    @property
    def horizon_ms(self) -> int | None:
        return self._history.horizon_ms

    @property
    def foundation(self) -> Foundation | None:
        """The head of the log's foundation; None if the log has its whole history."""
        return self._history.foundation


def damage_in(disk: Filesystem, folder: Path) -> Iterator[FoldbError | OSError]:
    """Check every segment but the last, by itself and against its successor, and yield the errors.

    A writer may be active. One damaged segment does not end the check, so that a report names all damage.
    """
    history = History(disk, folder)
    try:
        foundation = newest(disk, folder)
    except FoldbError as error:
        yield error
        return
    begin = 0 if foundation is None else foundation.sequence
    sequences = [each for each in segments_in(disk, folder) if each >= begin]
    if sequences[:1] != [begin]:
        yield CorruptionError(segment.name(begin), "the log's first segment is missing")
    headers: list[Header | None] = []
    for sequence in sequences:
        headers.append(None)
        try:
            headers[-1] = history.head(sequence)
        except (FoldbError, OSError) as error:
            yield error
    for header, following in pairwise(headers):
        if header is not None:
            try:
                history.check(header, following)
            except (FoldbError, OSError) as error:
                yield error
