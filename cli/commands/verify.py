"""`foldb verify`: check that the log is intact and folds to the state that is served."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from ...log.commands import Digest, Position
from ...log.local.filesystem import SystemFilesystem
from ...log.local.foundation import faults as foundation_faults
from ...log.local.reader import LogReader, Tail
from ...materializer.fold.dump import digest, digest_of, dump_table
from ...materializer.fold.fold_record import Void, voids
from ...materializer.fold.state import PartitionState
from ...materializer.foundation import initial_chain, initial_state
from ...materializer.refold import fold_record
from ...materializer.snapshots import Snapshots, snapshots_of_each
from ...model.errors import LogError
from ..lib.errors import CommandError, ExitCode
from ..lib.log_heads import check_heads, read_heads
from ..lib.log_location import LogServer, LogSource, SourceLog, source_of
from ..lib.options import SourceArgument
from ..lib.output import counted
from ..lib.progress import Advance, progress
from ..lib.session import Session

# Differences that the error names.
_MOST: Final = 5


class Expected(NamedTuple):
    """A digest or a chain to compare with the log.

    Attributes:
        offset: The last record that it covers.
        source: Its source, as the subject of a sentence.
        digest: The digest of the state; None for a chain alone.
        tables: By name, the digests of the state's tables; None if the source has none.
        chain: The chain; None if the source has none.
        node: The address of the node, in a cluster.
    """

    offset: int
    source: str
    digest: str | None = None
    tables: dict[str, str] | None = None
    chain: str | None = None
    node: str | None = None


def verify(
    session: Session,
    source: SourceArgument = None,
    against: Annotated[
        Path | None,
        typer.Option(
            "--against",
            metavar="FILE",
            help="Also check that the log begins with the history of these heads, saved with `foldb log head`.",
        ),
    ] = None,
) -> None:
    """The digests are compared with those of a running server, those in the log, and those of every snapshot.

    In a cluster the owner and the standby of each partition are compared at the same position, and snapshots of all
    nodes by the chain of their history. A node and a table that differ are named.

    Exit code 0 for a folder: `foldb serve` starts on its log, and the file `mark` and the chain of hashes show no
    missing acknowledged write. An unfinished write at the end, which a start moves to a side file, is reported. Exit
    code 9, with the position: the log or a snapshot is damaged, a state differs, or acknowledged writes are missing.

    Records in Kafka have no hashes: with kafka://, give a node with --db to compare its digests too. Exit code 1: a
    partition has no digest to compare. The command changes nothing.

    With --against, a record before a saved head that was changed, removed or inserted since is found, also if all
    hashes in the log were computed again. A log that was trimmed since has the same heads.

    Example: foldb verify --db ./data
    """
    found = source_of(session, source)
    live = {} if found.server is None else _live(session, found.server)
    try:
        log = found.open()
    except LogError as error:
        _compare_nodes(live)
        raise CommandError(
            f"the states of the nodes are equal, but the log cannot be read: {error}", ExitCode.UNREACHABLE
        ) from error
    damaged_copies = [] if found.is_shared else foundation_faults(SystemFilesystem(), Path(found.location))
    if found.server is not None:
        _check_same_log(found.server, log)
    if against is not None:
        _compare_heads(session, log, against)
    # Snapshots are listed before the log's end is read, so that none is newer than the end.
    folder = found.folder
    snapshots = [] if folder is None else snapshots_of_each(folder, SystemFilesystem(), log.partitions)
    offsets = [each.offsets() for each in snapshots]
    tail = log.hold() if isinstance(log, LogReader) else None
    if tail is not None and tail.missing:
        raise _missing(tail, folder)
    ends = [log.end(partition) for partition in range(log.partitions)]
    unusable: list[str] = []
    refolds = []
    records = sum(end - log.begin(partition) for partition, end in enumerate(ends))
    with progress(session.settings, session.output.stderr, "verify", 2 * records) as advance:
        for partition in range(log.partitions):
            expected = list(live.get(partition, ()))
            if snapshots:
                usable, faults = _examined(snapshots[partition], offsets[partition], log, ends[partition])
                expected += usable
                unusable += faults
            refolds.append(_refold(log, partition, expected, advance))
            _check_all_met(session, refolds[-1], expected, found)
    _report(session, log, refolds, found, tail)
    if damaged_copies:
        raise CommandError(
            f"the log is intact, but a copy of its foundation is damaged: {'; '.join(damaged_copies)}. "
            "`foldb serve` writes it again from the other copy, at its next start or scrub.",
            ExitCode.INTEGRITY,
        )
    if unusable:
        raise CommandError(
            f"the log is intact, but snapshots are damaged: {'; '.join(unusable)}. Delete them: a start ignores them. "
            "`foldb snapshot make` makes a new one.",
            ExitCode.INTEGRITY,
        )


def _report(
    session: Session, log: SourceLog, refolds: list["Refolded"], source: LogSource, tail: Tail | None
) -> None:
    """Print the result.

    Raises:
        CommandError: A state, a snapshot or the log differs, or nothing was compared.
    """
    differences = [difference for each in refolds for difference in each.differences]
    if differences:
        raise _differ(differences)
    records, compared = (
        sum(each.chain.next_offset for each in refolds),
        sum(each.compared for each in refolds),
    )
    for each in refolds:
        session.output.row(
            {
                "log_id": log.log_id.hex(),
                "position": each.place,
                "digest": each.digest,
                "chain": each.chain.value.hex(),
                "compared": compared,
                "differences": 0,
            }
        )
    _report_tail(session, tail)
    if source.is_shared and not all(each.compared for each in refolds):
        raise _not_compared(records, [nth for nth, each in enumerate(refolds) if not each.compared])
    result = "no difference" if compared else "the chain of hashes is intact"
    session.output.say(f"{counted(records, 'record')} · {counted(compared, 'digest')} compared · {result}")


def _compare_heads(session: Session, log: SourceLog, path: Path) -> None:
    """Compare the log with saved heads, before it is folded: a changed log may not fold.

    Raises:
        CommandError: The log has another history.
    """
    saved = read_heads(path, log)
    total = sum(max(0, max(chains) + 1 - log.begin(partition)) for partition, chains in saved.items())
    with progress(session.settings, session.output.stderr, "heads", total) as advance:
        compared = check_heads(log, saved, path, advance)
    session.output.say(f"{counted(compared, 'head')} of {path} compared: the log begins with this history")


def _check_same_log(server: LogServer, log: SourceLog) -> None:
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


class Refolded:
    """The refold of a partition.

    Attributes:
        state: The state; an empty one when the refold is over, because states of all partitions may not fit in memory.
        chain: The chain up to there.
        digest: The digest of the last state.
        compared: The number of digests that were compared.
        differences: Sentences about those that differ, with the tables.
    """

    def __init__(self, log: SourceLog, partition: int) -> None:
        self.state = initial_state(log, partition)
        self.chain = initial_chain(log, partition)
        self.digest = ""
        self.compared = 0
        self.differences: list[tuple[str, list[str]]] = []
        self._partition = partition
        self._partitions = log.partitions

    def finish(self) -> None:
        """Keep the digest of the state, and free it."""
        self.digest = digest(self.state)
        self.state = PartitionState()

    @property
    def place(self) -> str:
        """The text of the last folded position."""
        return Position(self._partition, self.chain.next_offset - 1).text(self._partitions)

    def compare(self, expected: Sequence[Expected]) -> None:
        """Compare the state and the chain with those of other sources at the same position."""
        ours = digest(self.state) if any(each.digest is not None for each in expected) else ""
        for each in expected:
            start = f"position {self.place}: {each.source}"
            if each.chain is not None and each.chain != self.chain.value.hex():
                self.differences.append((f"{start} the chain {each.chain}, the log has another history", []))
            if each.digest is None:
                continue
            self.compared += 1
            if each.digest != ours:
                tables = None if each.tables is None else self._differing(each.tables)
                sentence = f"{start} the digest {each.digest[:16]}..., the log folds to {ours[:16]}..."
                self.differences.append((sentence + _where(tables), tables or []))

    def _differing(self, theirs: dict[str, str]) -> list[str]:
        tables = self.state.tables.values()
        ours = {table.definition.name: digest_of(dump_table(table)) for table in tables}
        return _unequal(ours, theirs)


def _refold(log: SourceLog, partition: int, expected: Sequence[Expected], advance: Advance) -> Refolded:
    """Fold a partition from its beginning, and compare each digest at its offset."""
    recorded, void = _recorded(log, partition, advance)
    by_offset: dict[int, list[Expected]] = {}
    for each in (*recorded, *expected):
        by_offset.setdefault(each.offset, []).append(each)
    refolded = Refolded(log, partition)
    before = refolded.chain.next_offset - 1
    if before in by_offset:
        refolded.compare(by_offset[before])  # the base of a trimmed log
    for record in log.read(partition, before + 1):
        fold_record(refolded.state, record, void)
        refolded.chain.extend(record)
        if record.offset in by_offset:
            refolded.compare(by_offset[record.offset])
        advance(1)
    refolded.finish()
    return refolded


def _check_all_met(
    session: Session, refolded: Refolded, expected: Sequence[Expected], source: LogSource
) -> None:
    """Check that the log reaches the positions of the servers.

    Raises:
        CommandError: The folder's log ends before the position of the server that writes it.
    """
    for each in expected:
        if each.offset < refolded.chain.next_offset:
            continue
        sentence = f"the server is at @{each.offset}, the log can be read to @{refolded.place} only"
        if not source.is_shared:
            raise CommandError(
                f"{sentence}: acknowledged writes are not in {source.location}. Was the folder replaced, or a file of "
                "it removed? Check this before the server stops: it may still have the files open.",
                ExitCode.INTEGRITY,
            )
        session.output.warn(sentence)


def _differ(differences: Sequence[tuple[str, list[str]]]) -> CommandError:
    """Return the error for differences and their tables."""
    tables = sorted({table for _, tables in differences for table in tables})
    sentence = "; ".join(each for each, _ in differences[:_MOST])
    more = f"; and {len(differences) - _MOST} more" if len(differences) > _MOST else ""
    step = "".join(f" `foldb rebuild {table}` makes it from the log again." for table in tables[:1])
    return CommandError(f"{sentence}{more}.{step}" if step else f"{sentence}{more}", ExitCode.INTEGRITY)


def _where(tables: list[str] | None) -> str:
    """Return the end of a sentence about a state that differs in these tables."""
    if tables is None:
        return ""
    if not tables:
        return ": no table differs, but another part of the state"
    return (
        f": the table {tables[0]} differs" if len(tables) == 1 else f": the tables {', '.join(tables)} differ"
    )


def _unequal(ours: dict[str, str], theirs: dict[str, str]) -> list[str]:
    return sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))


def _compare_nodes(live: dict[int, list[Expected]]) -> None:
    """Compare the states of nodes with each other, without the log.

    Raises:
        CommandError: Two of them differ. Only the log shows which of them is wrong.
    """
    differences = []
    for expected in live.values():
        first, *others = [each for each in expected if each.digest is not None]
        for each in others:
            if each.digest != first.digest:
                tables = _unequal(first.tables or {}, each.tables or {})
                sentence = f"node {each.node} and node {first.node} have different states{_where(tables)}"
                differences.append((sentence, tables))
    if differences:
        raise _differ(differences)


def _examined(
    snapshots: Snapshots, offsets: Sequence[int], log: SourceLog, end: int
) -> tuple[list[Expected], list[str]]:
    """Return the digests and chains of the snapshots that a start would use, and the faults of the others.

    Raises:
        CommandError: A snapshot of this log includes records that the log does not hold.
    """
    usable: list[Expected] = []
    unusable = []
    for offset in offsets:
        snapshot = snapshots.examine(offset, log)
        path = snapshots.path(offset)
        if snapshot.fault is None and snapshot.head is not None:
            chain = None if snapshot.head.chain is None else snapshot.head.chain.hex()
            usable.append(Expected(offset, "the snapshot has", snapshot.digest, chain=chain))
        elif offset >= end and snapshot.head is not None and snapshot.head.log_id == log.log_id:
            raise CommandError(
                f"{path}: the snapshot was made @{offset} of this log, which ends at @{end - 1}: records are "
                "missing, or the log was replaced by an older copy. Delete the snapshot to continue with this log.",
                ExitCode.INTEGRITY,
            )
        elif path.exists():  # the scheduler may have removed it since, because newer ones exist
            unusable.append(f"{path}: {snapshot.fault}")
    return usable, unusable


def _live(session: Session, server: LogServer) -> dict[int, list[Expected]]:
    """Return the digests of the running server by partition; those of all nodes if it is in a cluster."""
    status = server.admin("Status")
    if status.get("Log") is None:
        answers = [server.admin("Digest")]
    else:  # one partition in a request, because a large state takes seconds
        partitions = [each["Partition"] for each in server.admin("Cluster")["Partitions"]]
        answers = [server.admin("Digest", {"Partition": partition}) for partition in partitions]
    found: dict[int, list[Expected]] = {}
    for answer in answers:
        for each in answer.get("Digests", [answer]):
            partition, _, offset = each["Position"].rpartition(":")
            expected = found.setdefault(int(partition or 0), [])
            node = each.get("Node")
            subject = "the server" if node is None else f"node {node}"
            expected.append(
                Expected(int(offset), f"{subject} has", each["Digest"], each.get("Tables"), node=node)
            )
            expected += [
                Expected(at, f"the snapshot of {subject} has", chain=chain)
                for at, chain in each.get("Snapshots", ())
            ]
        for error in answer.get("Errors", ()):
            session.output.warn(
                f"partition {error['Partition']} on node {error['Node']} was not compared: {error['Error']}"
            )
    return found


def _recorded(log: SourceLog, partition: int, advance: Advance) -> tuple[list[Expected], frozenset[Void]]:
    """Read the whole partition, which finds a flipped byte, a missing block and a swapped segment.

    Returns:
        The digests to compare, and the void entries.
    """
    found: dict[int, list[str]] = {}
    void: set[Void] = set()
    begin = log.begin(partition)
    for record in log.read(partition, begin):
        for command in record.entry.commands:
            if isinstance(command, Digest) and command.offset >= begin - 1:
                found.setdefault(command.offset, []).append(command.digest)
        for one in voids((record,)):
            void.add(one)
            # Later digests cover an entry that is void now.
            found = {offset: digests for offset, digests in found.items() if offset < one[0]}
        advance(1)
    recorded = [
        Expected(offset, "the log records", digest)
        for offset, digests in _worth_comparing(found).items()
        for digest in digests
    ]
    return recorded, frozenset(void)


def _worth_comparing(found: dict[int, list[str]]) -> dict[int, list[str]]:
    """Return the last digest, and so few others that the comparison takes no longer than the refold.

    A digest reads the whole state, so the offset doubles from one to the next.
    """
    kept, due, last = {}, 0, max(found, default=0)
    for offset in sorted(found):
        if offset >= due or offset == last:
            kept[offset], due = found[offset], 2 * offset
    return kept
