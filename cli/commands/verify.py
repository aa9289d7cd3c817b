"""`foldb verify`: check that the log is intact and folds to the state that is served."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...log.commands import Digest, Position
from ...log.local.filesystem import SystemFilesystem
from ...log.local.reader import LogReader, Tail
from ...materializer.fold.dump import digest
from ...materializer.fold.fold_record import Void, voids
from ...materializer.fold.state import PartitionState
from ...materializer.refold import fold_record
from ...materializer.snapshots import Snapshots, snapshots_of_each
from ..lib.errors import CommandError, ExitCode
from ..lib.log_location import LogSource, ReadableLog, SourceArgument, source_of
from ..lib.output import counted
from ..lib.progress import Advance, progress
from ..lib.session import Session

if TYPE_CHECKING:
    from ..lib.client import Client


def verify(
    session: Session,
    source: SourceArgument = None,
) -> None:
    """The digests are compared with those of a running server, those in the log, and those of every snapshot.

    Exit code 0 for a folder: `foldb serve` starts on its log, and the file `mark` and the chain of hashes show no
    missing acknowledged write. An unfinished write at the end, which a start moves to a side file, is reported. Exit
    code 9, with the position: the log or a snapshot is damaged, or acknowledged writes are missing.

    A log in Kafka has no chain of hashes. Give a node with --db to compare its digests too. Exit code 1: a partition
    has no digest to compare. The command changes nothing.

    Example: foldb verify --db ./data
    """
    found = source_of(session, source)
    expected = {} if found.server is None else _live_digests(found.server)
    log = found.open()
    if found.server is not None:
        _check_same_log(found.server, log)
    # Snapshots are listed before the log's end is read, so that none is newer than the end.
    folder = found.folder
    snapshots = [] if folder is None else snapshots_of_each(folder, SystemFilesystem(), log.partitions)
    offsets = [each.offsets() for each in snapshots]
    tail = log.hold() if isinstance(log, LogReader) else None
    if tail is not None and tail.missing:
        raise _missing(tail, folder)
    ends = [log.end(partition) for partition in range(log.partitions)]
    unusable: list[str] = []
    compared: list[int] = []
    digests = []
    with progress(session.settings, session.output.stderr, "verify", 2 * sum(ends)) as advance:
        for partition in range(log.partitions):
            live = expected.get(partition, {})
            usable: dict[int, list[str]] = {}
            if snapshots:
                usable, faults = _examined(snapshots[partition], offsets[partition], log, ends[partition])
                unusable += faults
            state, met = _refold(log, partition, live, usable, advance)
            compared.append(met + len(usable) + _met(session, state, live, found, log.partitions))
            digests.append((_place(state, log.partitions), digest(state)))
    for position, refolded in digests:
        session.output.row(
            {
                "log_id": log.log_id.hex(),
                "position": position,
                "digest": refolded,
                "compared": sum(compared),
                "differences": 0,
            }
        )
    _report_tail(session, tail)
    if found.is_shared and not all(compared):
        raise _not_compared(sum(ends), [partition for partition, count in enumerate(compared) if not count])
    result = "no difference" if any(compared) else "the chain of hashes is intact"
    session.output.say(
        f"{counted(sum(ends), 'record')} · {counted(sum(compared), 'digest')} compared · {result}"
    )
    if unusable:
        raise CommandError(
            f"the log is intact, but snapshots are damaged: {'; '.join(unusable)}. Delete them: a start ignores them. "
            "`foldb snapshot make` makes a new one.",
            ExitCode.INTEGRITY,
        )


def _check_same_log(server: "Client", log: ReadableLog) -> None:
    """Check that the server serves this log.

    Raises:
        CommandError: The server serves another log.
    """
    served = server.admin("Status")["LogId"]
    if served != log.log_id.hex():
        raise CommandError(
            f"{server.url} serves the log {served}, and this is {log.log_id.hex()}: name a server of this log.",
            ExitCode.USAGE,
        )


def _missing(tail: Tail, folder: Path | None) -> CommandError:
    return CommandError(
        f"{folder}: the log's last {counted(tail.missing, 'byte')} are missing. Its file `mark` shows that they were "
        "acknowledged, but not synced: a power cut loses such writes with --fsync interval or never. "
        "`foldb serve` starts without them; `foldb log restore` restores those that a backup has.",
        ExitCode.INTEGRITY,
    )


def _not_compared(records: int, partitions: list[int]) -> CommandError:
    which = ", ".join(map(str, partitions))
    return CommandError(
        f"{counted(records, 'record')} can be read and folded, but nothing was compared for partition {which}: the log "
        "has no digest of it. Give a node that serves it: `foldb verify kafka://... --db http://NODE:PORT`.",
        ExitCode.DIFFERENT,
    )


def _report_tail(session: Session, tail: Tail | None) -> None:
    if tail is None or not tail.torn:
        return
    unsure = "" if tail.is_marked else " The file `mark` does not show whether it was acknowledged."
    session.output.say(
        f"{counted(tail.torn, 'byte')} behind the last record are an unfinished write: a server is writing it, or a "
        f"crash interrupted it, and the next start moves it to a side file.{unsure}"
    )


def _refold(
    log: ReadableLog,
    partition: int,
    live: dict[int, list[str]],
    snapshots: dict[int, list[str]],
    advance: Advance,
) -> tuple[PartitionState, int]:
    """Fold a partition from zero and compare each digest at its offset.

    Returns:
        The state, and the number of digests in the log.
    """
    recorded, void = _recorded(log, partition, advance)
    state = PartitionState()
    for record in log.read(partition):
        fold_record(state, record, void)
        _compare(state, recorded.get(record.offset, ()), "the log records", log.partitions)
        _compare(state, live.get(record.offset, ()), "the server has", log.partitions)
        _compare(state, snapshots.get(record.offset, ()), "the snapshot has", log.partitions)
        advance(1)
    return state, sum(map(len, recorded.values()))


def _met(
    session: Session, state: PartitionState, live: dict[int, list[str]], source: LogSource, partitions: int
) -> int:
    """Return the number of the server's digests that were compared.

    Raises:
        CommandError: The folder's log ends before the position of the server that writes it.
    """
    met = [offset for offset in live if offset < state.next_offset]
    for offset in live.keys() - set(met):
        sentence = f"the server is at @{offset}, the log can be read to @{_place(state, partitions)} only"
        if not source.is_shared:
            raise CommandError(
                f"{sentence}: acknowledged writes are not in {source.location}. Was the folder replaced, or a file of "
                "it removed? Check this before the server stops: it may still have the files open.",
                ExitCode.INTEGRITY,
            )
        session.output.warn(sentence)
    return len(met)


def _place(state: PartitionState, partitions: int) -> str:
    assert state.genesis is not None, "every log begins with Genesis"
    return Position(state.genesis.partition, state.next_offset - 1).text(partitions)


def _examined(
    snapshots: Snapshots, offsets: Sequence[int], log: ReadableLog, end: int
) -> tuple[dict[int, list[str]], list[str]]:
    """Return the digests of the snapshots that a start would use, by offset, and the faults of the others.

    Raises:
        CommandError: A snapshot of this log includes records that the log does not hold.
    """
    digests: dict[int, list[str]] = {}
    unusable = []
    for offset in offsets:
        snapshot = snapshots.examine(offset, log)
        path = snapshots.path(offset)
        if snapshot.fault is None and snapshot.digest is not None:
            digests[offset] = [snapshot.digest]
        elif offset >= end and snapshot.head is not None and snapshot.head.log_id == log.log_id:
            raise CommandError(
                f"{path}: the snapshot was made @{offset} of this log, which ends at @{end - 1}: records are "
                "missing, or the log was replaced by an older copy. Delete the snapshot to continue with this log.",
                ExitCode.INTEGRITY,
            )
        elif path.exists():  # the scheduler may have removed it since, because newer ones exist
            unusable.append(f"{path}: {snapshot.fault}")
    return digests, unusable


def _live_digests(server: "Client") -> dict[int, dict[int, list[str]]]:
    """Return the digests of the running server by partition and by the offset of its last record."""
    answer = server.admin("Digest")
    found: dict[int, dict[int, list[str]]] = {}
    for one in answer.get("Digests", [answer]):
        partition, _, offset = one["Position"].rpartition(":")
        found[int(partition or 0)] = {int(offset): [one["Digest"]]}
    return found


def _recorded(
    log: ReadableLog, partition: int, advance: Advance
) -> tuple[dict[int, list[str]], frozenset[Void]]:
    """Read the whole partition, which finds a flipped byte, a missing block and a swapped segment.

    Returns:
        The digests to compare, by the offset of the last entry that they cover; and the void entries.
    """
    found: dict[int, list[str]] = {}
    void: set[Void] = set()
    for record in log.read(partition):
        for command in record.entry.commands:
            if isinstance(command, Digest):
                found.setdefault(command.offset, []).append(command.digest)
        for one in voids((record,)):
            void.add(one)
            # Later digests cover an entry that is void now.
            found = {offset: digests for offset, digests in found.items() if offset < one[0]}
        advance(1)
    return _worth_comparing(found), frozenset(void)


def _worth_comparing(found: dict[int, list[str]]) -> dict[int, list[str]]:
    """Return the last digest, and so few others that the comparison takes no longer than the refold.

    A digest reads the whole state, so the offset doubles from one to the next.
    """
    kept, due, last = {}, 0, max(found, default=0)
    for offset in sorted(found):
        if offset >= due or offset == last:
            kept[offset], due = found[offset], 2 * offset
    return kept


def _compare(state: PartitionState, digests: Sequence[str], source: str, partitions: int) -> None:
    """Compare the state's digest with those of another source at the same position.

    Raises:
        CommandError: A digest differs.
    """
    if not digests:
        return
    ours = digest(state)
    for other in digests:
        if other != ours:
            raise CommandError(
                f"position {_place(state, partitions)}: {source} the digest {other[:16]}..., "
                f"the log folds to {ours[:16]}...",
                ExitCode.INTEGRITY,
            )
