"""Prepares a trim: chooses the segments, writes the foundation that replaces them, and has another process verify it.

    cut ──► the last segment boundary at or before it ──► nothing needs the records before it
        ──► archive ──► foundation, in two copies ──► verified by another process ──► LocalLog.trim

Nothing is removed here except snapshots before the horizon, which a start no longer needs. log/FORMAT.md has the order
of all steps, and the files after a crash at each of them.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from ..log.chain import Chain
from ..log.commands import Position, Record
from ..log.local.backup import back_up
from ..log.local.filesystem import File, Filesystem
from ..log.local.foundation import (
    FOLDERS,
    BaseFile,
    Foundation,
    base_name,
    copy_file,
    fault_of,
    make_folder,
    remove_unused,
    write_unnamed_head,
)
from ..log.local.history import Limit, Part
from ..log.local.reader import LogReader
from ..log.local.segment import Header
from ..log.local.writer import LOCK_NAME
from ..model.durations import time_text
from ..model.errors import CorruptionError, FoldbError, LogLockedError
from ..model.lazy_dataclass import dataclass
from ..model.sequence_numbers import position_of
from ..model.tables import name_of
from .fold.dump import digest
from .fold.fold_record import Void
from .fold.state import PartitionState
from .foundation import initial_chain, initial_state
from .refold import refold, refold_log
from .snapshot import SnapshotHead, UnusableError, load_state, read_head, write_snapshot
from .snapshots import Snapshots
from .trim_job import DAY_MS, TrimCut, TrimJob

Voids: TypeAlias = list[frozenset[Void]]
"""The void commands of each partition, of the whole log."""

Progress: TypeAlias = Callable[[int], None]
"""Receives the number of records that were folded since the last call."""


class TrimRefusedError(FoldbError):
    """The records before the cut are needed. The text names the subscription, stream or setting that needs them."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A cut that a trim must not pass, and the sentence that says why."""

    cut: TrimCut
    reason: str


def prepare(
    disk: Filesystem,
    job: TrimJob,
    verify: Callable[[Foundation, Voids], None],
    progress: Progress = lambda _: None,
) -> Foundation | None:
    """Write a foundation and have it verified; return it, or None if no segment ends at or before the cut.

    Args:
        disk: The disk of the folder.
        job: The trim.
        verify: Calls `verify_foundation` in another process.
        progress: Receives the progress of the folds.

    Raises:
        TrimRefusedError: Something needs the records before the cut.
        LogLockedError: Another process prepares a trim.
        FoldbError, OSError: The log cannot be read or folded, or the disk refused a file.
    """
    log = LogReader(job.folder, disk)
    choice = _choose(disk, job, log)
    candidates, part, voids = choice.candidates, choice.part, choice.voids
    if not candidates:
        return None
    latest_ms = _latest_time(job, choice.bounds)
    with _locked(disk, job.folder), _removed_on_failure(disk, job.folder, log.foundation):
        while candidates:
            header = candidates.pop()
            foundation = _write(disk, job, log, header, voids, progress)
            # Messages between partitions may raise log time above the time of every record.
            if latest_ms is None or foundation.time_ms <= latest_ms:
                break
        else:
            _remove_unnamed(disk, job.folder, log.foundation)
            return None
        if job.archive is not None:
            _archive(disk, part, header, job.archive)
        verify(foundation, voids)
        for partition in range(log.partitions):
            snapshots = Snapshots(job.folder, disk, partition, log.partitions)
            snapshots.remove_before(foundation.chain.ends[partition] - 1)
        return foundation


def plan(disk: Filesystem, job: TrimJob) -> tuple[Header, int] | None:
    """Return the first segment that a trim would keep, and the number of segments before it; write nothing.

    Raises:
        TrimRefusedError: Something needs the records before the cut.
        FoldbError, OSError: The log cannot be read or folded.
    """
    choice = _choose(disk, job, LogReader(job.folder, disk))
    if not choice.candidates:
        return None
    header = choice.candidates[-1]
    return header, choice.part.headers.index(header)


@dataclass(frozen=True, slots=True)
class _Choice:
    """The segments at whose beginning the horizon may be, the last one preferred."""

    part: Part
    candidates: list[Header]
    bounds: list[Bound]
    voids: Voids


def _choose(disk: Filesystem, job: TrimJob, log: LogReader) -> _Choice:
    part = log.part()
    candidates = [header for header in part.headers[1:] if job.cut.allows(header)]
    if not candidates:
        return _Choice(part, [], [], [])
    ends = [_end_state(disk, job.folder, log, partition) for partition in range(log.partitions)]
    bounds = [bound for state in ends for bound in bounds_of(state, job.retention_ms)]
    voids = [frozenset(state.voided) for state in ends]
    if not job.is_lenient:
        _refuse_to_pass(bounds, candidates[-1])
    kept = [each for each in candidates if all(bound.cut.allows(each) for bound in bounds)]
    return _Choice(part, kept, bounds, voids)


def bounds_of(state: PartitionState, retention_ms: int) -> list[Bound]:
    """Return the cuts that a trim must not pass because of the state at the end of the log.

    Args:
        state: The state of one partition.
        retention_ms: How long the change feed keeps changes; 0 for no limit.
    """
    bounds = []
    kept_ms = state.log_time - retention_ms if retention_ms else 0
    kept = {period.name for each in state.periods.values() for period in each if not period.is_over(kept_ms)}
    if kept:
        reason = (
            f"streams and subscriptions of {', '.join(sorted(kept))} keep changes since {time_text(kept_ms)}"
        )
        bounds.append(Bound(TrimCut(time_ms=kept_ms), reason))
    bounds += _bounds_of_restores(state)
    for subscription in state.subscriptions.values():
        offsets = {
            partition: position_of(number)[0] for partition, number in subscription.checkpoints.items()
        }
        positions = ", ".join(
            f"@{Position(partition, offset).text(state.partitions)}"
            for partition, offset in sorted(offsets.items())
        )
        reason = f"the checkpoint of the subscription {subscription.name} is {positions or 'not written yet'}"
        time_ms = None if offsets else _begin_ms(subscription.settings.get("Start"), subscription.created_ms)
        bounds.append(Bound(TrimCut(time_ms, offsets), reason))
    return bounds


def _bounds_of_restores(state: PartitionState) -> Iterator[Bound]:
    """Yield the cuts from which tables are exported, and are, or may be, restored."""
    for backup in state.backups.values():
        reason = f"the backup {backup.name} of {backup.definition.name} has the items of {time_text(backup.cut_ms)}"
        yield Bound(TrimCut(time_ms=backup.cut_ms), reason)
    for job in state.jobs.values():
        if job.is_running and job.cut_ms is not None:
            first_ms = job.cut_ms if job.since_ms is None else job.since_ms
            reason = (
                f"the export {job.id} of {name_of(job.table_arn)} reads the items of {time_text(first_ms)}"
            )
            yield Bound(TrimCut(time_ms=first_ms), reason)
    for table in state.tables.values():
        name, recovery, restore = table.definition.name, table.definition.recovery, table.definition.restore
        if recovery is not None:
            earliest_ms = max(recovery.enabled_ms, state.log_time - recovery.days * DAY_MS)
            reason = (
                f"{name} can be restored to any time since {time_text(earliest_ms)} (point-in-time recovery)"
            )
            yield Bound(TrimCut(time_ms=earliest_ms), reason)
        if restore is not None and restore.in_progress and not restore.is_import:
            reason = f"{name} is being restored from the items of {time_text(restore.cut_ms)}"
            yield Bound(TrimCut(time_ms=restore.cut_ms), reason)


def verify_foundation(
    disk: Filesystem, folder: Path, foundation: Foundation, voids: Voids, progress: Progress = lambda _: None
) -> None:
    """Read both copies back, refold the log from the foundation before, and compare.

    Raises:
        CorruptionError: A copy has other bytes than were written, or another state than the log.
        FoldbError, OSError: The log cannot be read or folded.
    """
    log = LogReader(folder, disk)
    for copy in FOLDERS:
        fault = fault_of(disk, folder, copy, foundation, is_named=False)
        if fault is not None:
            raise CorruptionError(fault.partition(":")[0], f"the new foundation is damaged: {fault}")
    for partition, end in enumerate(foundation.chain.ends):
        state, chain = _folded_to(log, partition, end, voids[partition], progress)
        name = base_name(foundation.sequence, partition)
        file = disk.open(folder / FOLDERS[0] / name, write=False)
        try:
            base = read_head(file)
            expected = digest(state)
            del state
            found = load_state(base)
            is_same = base.digest == expected == digest(found) and found.next_offset == end
            is_same &= base.head.chain == chain.value
        except UnusableError as error:
            raise CorruptionError(name, f"the new foundation cannot be loaded: {error}") from error
        finally:
            file.close()
        if not is_same:
            raise CorruptionError(name, "the new foundation has another state than a refold of the log")


def _end_state(disk: Filesystem, folder: Path, log: LogReader, partition: int) -> PartitionState:
    """Return the state of a partition at the end of the log."""
    state = Snapshots(folder, disk, partition, log.partitions).load_newest(log).state
    refold_log(state, log, partition)
    return state


def _refuse_to_pass(bounds: Collection[Bound], header: Header) -> None:
    for bound in bounds:
        if not bound.cut.allows(header):
            raise TrimRefusedError(
                f"records before {time_text(header.chain.time)} are needed: {bound.reason}. Nothing was removed. "
                "Give an earlier cut."
            )


def _latest_time(job: TrimJob, bounds: Collection[Bound]) -> int | None:
    cuts = (job.cut, *(bound.cut for bound in bounds))
    return min((cut.time_ms for cut in cuts if cut.time_ms is not None), default=None)


def _begin_ms(start: Mapping[str, object] | None, created_ms: int) -> int:
    """Return the log time from which a subscription without a checkpoint reads changes."""
    return created_ms if start is None or start.get("At") in ("NOW", "HORIZON") else 0


def _write(
    disk: Filesystem, job: TrimJob, log: LogReader, header: Header, voids: Voids, progress: Progress
) -> Foundation:
    """Write the bases and the heads of both copies. The heads get no name yet."""
    folder, sequence = job.folder, header.chain.sequence
    _remove_unnamed(disk, folder, log.foundation)
    bases, hashes, log_times = [], [], []
    for partition, end in enumerate(header.chain.ends):
        state, chain = _folded_to(log, partition, end, voids[partition], progress)
        name = base_name(sequence, partition)
        hashes.append(log.hash_of(partition, end - 1))
        log_times.append(state.log_time)
        with _created(disk, folder / FOLDERS[0] / name) as file:
            write_snapshot(file, SnapshotHead.of(state, hashes[-1], chain.value), state)
        bases.append(_copied(disk, folder, name))
    foundation = Foundation(
        log_id=log.log_id,
        chain=header.chain.copy(),
        genesis=tuple(log.genesis(partition) for partition in range(log.partitions)),
        hashes=tuple(hashes),
        log_times=tuple(log_times),
        bases=tuple(bases),
        archive=None if job.archive is None else str(job.archive.absolute()),
    )
    write_unnamed_head(disk, folder, foundation)
    return foundation


def _copied(disk: Filesystem, folder: Path, name: str) -> BaseFile:
    """Write the second copy of a base from the first."""
    first, second = (folder / copy / name for copy in FOLDERS)
    return copy_file(disk, first, second)


def _folded_to(
    log: LogReader, partition: int, end: int, void: frozenset[Void], progress: Progress
) -> tuple[PartitionState, Chain]:
    """Return the state and the chain of a partition before offset `end`, from the present beginning of the log on."""
    state, chain = initial_state(log, partition), initial_chain(log, partition)

    def records() -> Iterator[Record]:
        for record in log.read(partition, state.next_offset):
            if record.offset >= end:
                return
            chain.extend(record)
            yield record
            progress(1)

    if state.next_offset < end:
        refold(state, records(), void=void)
    return state, chain


def _archive(disk: Filesystem, part: Part, header: Header, archive: Path) -> None:
    """Copy the segments before a header to the archive, or extend the archive by them."""
    last = part.headers[part.headers.index(header) - 1]
    removed = replace(
        part, limit=Limit(last.chain.sequence, part.history.size(last)), chain=header.chain.copy()
    )
    back_up(disk, removed, archive)


@contextmanager
def _locked(disk: Filesystem, folder: Path) -> Iterator[None]:
    """Exclude another process that prepares a trim, which may have outlived its server."""
    for copy in FOLDERS:
        make_folder(disk, folder / copy)
    try:
        lock = disk.lock(folder / FOLDERS[0] / LOCK_NAME, b"")
    except BlockingIOError:
        raise LogLockedError(f"another process is preparing a trim of {folder}: wait for it") from None
    try:
        yield
    finally:
        lock.close()


@contextmanager
def _removed_on_failure(disk: Filesystem, folder: Path, current: Foundation | None) -> Iterator[None]:
    """Remove the files of a trim that failed: after a full disk they would take the room of the log."""
    try:
        yield
    except (FoldbError, OSError):
        with suppress(OSError):
            _remove_unnamed(disk, folder, current)
        raise


def _remove_unnamed(disk: Filesystem, folder: Path, current: Foundation | None) -> None:
    """Remove the files of all foundations except the one in force."""
    for copy in FOLDERS:
        remove_unused(disk, folder / copy, None if current is None else current.sequence)


@contextmanager
def _created(disk: Filesystem, path: Path) -> Iterator[File]:
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        yield file
    finally:
        file.close()
