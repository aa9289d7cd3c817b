"""Copy a log byte for byte: backup, restore and salvage.

    source ──► its records up to a limit ──► checked against the chain of hashes ──► the same segments in the target

A copy has the hashes, positions, log time and digests of its source. It ends between two records of the one sequence
that all partitions share, so it never holds an effect without its cause. A segment is written under the name
`*.avro.new`, synced and renamed. An interrupted backup leaves the older, shorter log, and the next one continues there.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ...model.errors import CorruptionError, ForeignLogError, LogError, NewerVersionError
from ...model.lazy_dataclass import dataclass
from ..commands import Position
from . import recovery, segment
from .durable_position import NAME, DurablePosition, read_mark
from .filesystem import UNFINISHED, Filesystem, create_file
from .foundation import copy_foundation
from .history import History, Limit, Part, segments_in, text_of
from .segment import Chain, Header
from .torn_write import judge_end, known_end


@dataclass(frozen=True, slots=True)
class Copied:
    """The result of a copy: the `records` and `bytes` added to the target, and the `chain` at its end."""

    records: int
    bytes: int
    chain: Chain


@dataclass(frozen=True, slots=True)
class IntactPart:
    """The intact records at the beginning of a log.

    Attributes:
        part: The intact records.
        last: The position of the last one.
        damage: The error at the first byte after them; None if only zeros follow.
        bytes: The number of bytes after them.
        records: The least number of records that are missing or damaged.
    """

    part: Part
    last: Position
    damage: CorruptionError | ForeignLogError | NewerVersionError | None
    bytes: int
    records: int


def back_up(
    disk: Filesystem, part: Part, target: Path, progress: Callable[[int], None] = lambda _: None
) -> Copied:
    """Extend the target, an earlier backup or an empty folder, to the end of `part`.

    The target may begin earlier than a trimmed source, and keeps its own beginning.

    Raises:
        LogLockedError: Another process writes to the target.
        LogError: The target holds other files than a log.
        ForeignLogError: The target is not the beginning of `part`: it holds another log, or was served since.
        CorruptionError: The source or the target is damaged.
    """
    with _locked(disk, target) as disk:
        existing = _common(disk, part, target) if recovery.has_log(disk, target) else None
        if existing is not None and existing.limit >= part.limit:
            part, copied = existing, Copied(0, 0, existing.chain)
        else:
            copied = _copy(disk, part, target, existing, progress)
        _write_mark(disk, target, part.limit)
        return copied


def restore(
    disk: Filesystem, part: Part, target: Path, progress: Callable[[int], None] = lambda _: None
) -> Copied:
    """Copy `part` into a new folder, which no server accepts before the copy is complete.

    Raises:
        LogError: The target is not empty.
        CorruptionError: The source is damaged.
    """
    if _names(disk, target) - {"lost+found"}:
        raise LogError(f"{target} is not empty: name a new folder")
    with _locked(disk, target) as disk:
        _write_mark(disk, target, part.limit)
        return _copy(disk, part, target, None, progress)


@contextmanager
def _locked(disk: Filesystem, target: Path) -> Iterator[Filesystem]:
    """Hold the target's locks."""
    held, lock = recovery.lock(disk, target, b"pid %d\n" % os.getpid(), is_copy=True)
    try:
        yield held
    finally:
        lock.close()
        held.close()


def cut(part: Part, last: Position) -> Part:
    """Return the records of `part` up to and including `last`, of all partitions.

    Raises:
        LogError: `part` does not hold the record `last`.
        HorizonError: A trim removed records after `last`.
    """
    partition, offset = last.partition, last.offset
    if offset < part.history.begin(partition) - 1:
        raise part.history.before_horizon(partition, offset)
    if offset >= part.chain.ends[partition]:
        partitions = len(part.chain.ends)
        end = Position(partition, part.chain.ends[partition] - 1)
        raise LogError(
            f"there is no record @{last.text(partitions)}: the log ends at @{end.text(partitions)}"
        )
    header = max(
        (each for each in part.headers if each.chain.ends[partition] <= offset),
        key=lambda each: each.chain.sequence,
        default=part.headers[0],
    )
    data, chain, at = _bytes(part, header), header.chain.copy(), header.size
    while chain.ends[partition] <= offset:
        at = part.history.block(header, data, at, chain).end
    return replace(part, limit=Limit(header.chain.sequence, at), chain=chain)


def cut_at(part: Part, time_ms: int) -> Part:
    """Return the records of `part` up to and including a log time, of all partitions.

    Raises:
        LogError: The log begins after `time_ms`.
        HorizonError: A trim removed records after `time_ms`.
    """
    first = part.headers[0]
    if time_ms < first.chain.time:
        at = part.history.begin(0)
        raise part.history.before_horizon(0, at - 1)
    header = [each for each in part.headers if each.chain.time <= time_ms][-1]
    data, chain, at = _bytes(part, header), header.chain.copy(), header.size
    while at < len(data):
        following = chain.copy()
        frame = part.history.block(header, data, at, following)
        if frame.time > time_ms:
            break
        chain, at = following, frame.end
    if not all(chain.ends):
        raise LogError("the log begins after that time")
    return replace(part, limit=Limit(header.chain.sequence, at), chain=chain)


def intact_part(disk: Filesystem, folder: Path) -> IntactPart:
    """Read a log from its beginning up to the first byte that does not continue it, without using the file `mark`.

    Raises:
        CorruptionError, ForeignLogError, NewerVersionError: The first records of the log cannot be read.
        LogError: The folder holds no log.
    """
    history, damage = History(disk, folder), None
    try:
        history.load()
    except (CorruptionError, ForeignLogError, NewerVersionError) as error:
        damage = error
    if not history.headers:
        raise damage or LogError(f"{folder} holds no segment of a log: name another folder")
    genesis = history.genesis()
    chain, last = Chain.start(genesis[0].log_id, len(genesis)), Position(0, 0)
    limit, behind = Limit(0, 0), 0
    if history.foundation is not None:
        chain, last = history.foundation.chain.copy(), Position(0, history.begin(0) - 1)
        limit = Limit(chain.sequence, 0)
    for header in history.headers:
        try:
            history.check_follows(header, chain)
        except CorruptionError as error:
            damage = error
            break
        data, at, bad = history.data(header), header.size, None
        while at < len(data) and bad is None:
            try:
                frame = segment.read_block(data, at, header.marker, chain)
            except segment.DamageError as error:
                bad = error
            else:
                at, last = frame.end, Position(frame.partition, frame.offset)
        limit, behind = Limit(header.chain.sequence, at), len(data[at:].rstrip(b"\0"))
        if bad is not None and header is not history.last:
            damage = history.damaged(text_of(header, at, chain), bad.reason)
            break
    else:
        damage = damage or _damage_at_end(disk, history)
    part = Part(history, limit, chain)
    return IntactPart(part, last, damage, *_left_out(disk, part, behind))


def _damage_at_end(disk: Filesystem, history: History) -> CorruptionError | None:
    """Return the error of a start for the log's last segment."""
    last = history.last
    try:
        known = known_end(history, read_mark(disk, history.folder))
        judge_end(history, history.data(last), last.size, last.chain, known)
    except CorruptionError as error:
        return error
    return None


def _left_out(disk: Filesystem, part: Part, behind: int) -> tuple[int, int]:
    """Return the bytes after the intact records, and the least number of records in them, by the segments' names."""
    folder = part.history.folder
    later = [sequence for sequence in segments_in(disk, folder) if sequence > part.limit.sequence]
    for sequence in later:
        file = disk.open(folder / segment.name(sequence), write=False)
        behind += file.size()
        file.close()
    mark = read_mark(disk, folder)
    named = [*later, mark.sequence if mark else 0]
    return behind, max(0, max(named) - part.chain.sequence)


def _common(disk: Filesystem, part: Part, target: Path) -> Part:
    """Return the records of the target, after checking that the source begins with them."""
    history = History(disk, target)
    history.load()
    ours, theirs = history.headers[0].log_id, part.history.headers[0].log_id
    if ours != theirs:
        raise ForeignLogError(
            f"{target} holds the log {ours.hex()}, not the source's log {theirs.hex()}: name another folder"
        )
    last = history.last
    data = history.data(last)
    scan = judge_end(history, data, last.size, last.chain, known_end(history, read_mark(disk, target)))
    existing = Part(history, Limit(last.chain.sequence, scan.end), scan.chain)
    if scan.chain.sequence < part.headers[0].chain.sequence:
        raise LogError(
            f"{part.history.folder} was trimmed: its history begins with record {part.headers[0].chain.sequence}, "
            f"after the end of {target} with record {scan.chain.sequence}. Nothing was changed. Name a new folder."
        )
    if not _agree(part.history, existing):
        raise ForeignLogError(
            f"{target} is not an earlier state of {part.history.folder}: it was served since the last backup, or the "
            "source lost records or was replaced by an older copy. Nothing was changed. Name a new folder for the "
            "backup."
        )
    return existing


def _agree(source: History, existing: Part) -> bool:
    """Return whether a source has all records of an existing copy from its own first record on, and no others.

    After a power cut a source may show fewer records than it holds, and fewer than the copy.
    """
    begin = max(source.headers[0].chain.sequence, existing.headers[0].chain.sequence)
    ours = [each for each in source.headers if begin <= each.chain.sequence <= existing.limit.sequence]
    theirs = [each for each in existing.headers if each.chain.sequence >= begin]
    if not theirs:
        return existing.chain == source.headers[0].chain
    if ours != theirs:
        return False
    data, size = _bytes(existing, theirs[-1]), existing.limit.position
    return memoryview(data) == memoryview(source.data(theirs[-1]))[:size]


def _copy(
    disk: Filesystem, part: Part, target: Path, existing: Part | None, progress: Callable[[int], None]
) -> Copied:
    """Write the segments of `part` from the end of `existing`, the part that the target holds already."""
    for name in disk.names(target):
        if name.endswith(UNFINISHED):
            disk.remove(target / name)
    if existing is None and part.history.foundation is not None:
        copy_foundation(disk, part.history.folder, target, part.history.foundation)
    begin, chain = (Limit(0, 0), None) if existing is None else (existing.limit, existing.chain)
    records = part.headers[0].chain.sequence if chain is None else chain.sequence
    size = 0
    for header in part.headers:
        if header.chain.sequence < begin.sequence:
            continue
        data = _bytes(part, header)
        if header.chain.sequence == begin.sequence and chain is not None:
            at = start = begin.position
        else:
            part.history.check_follows(header, chain or header.chain)
            at, start = header.size, 0
            chain = header.chain.copy()
        while at < len(data):
            at = part.history.block(header, data, at, chain).end
            progress(1)
        if start < len(data):
            create_file(disk, target / segment.name(header.chain.sequence), data, replaces=True).close()
            size += len(data) - start
    return Copied(part.chain.sequence - records, size, part.chain)


def _bytes(part: Part, header: Header) -> bytes:
    """Return a segment's bytes up to the limit of `part`."""
    is_last = header.chain.sequence == part.limit.sequence
    return part.history.data(header, part.limit.position if is_last else None)


def _write_mark(disk: Filesystem, folder: Path, limit: Limit) -> None:
    mark = DurablePosition(limit.sequence, limit.position, limit.position)
    create_file(disk, folder / NAME, mark.encode(), replaces=True).close()


def _names(disk: Filesystem, folder: Path) -> set[str]:
    try:
        return set(disk.names(folder))
    except FileNotFoundError:
        return set()
    except NotADirectoryError:
        raise LogError(f"{folder} is a file: name a new folder") from None
