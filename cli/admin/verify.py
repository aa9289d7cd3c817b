"""`foldb verify`: is the history whole, and does it still make the tables that are served?"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ...log.commands import Digest, Position
from ...log.local.disk import SystemDisk
from ...materializer.fold.dump import digest
from ...materializer.fold.record import Void, voids
from ...materializer.fold.state import PartitionState
from ...materializer.refold import fold_record
from ...materializer.snapshots import Snapshots
from ..failures import CommandError, ExitCode
from ..logs.places import KAFKA, Readable, log_of
from ..output import counted
from ..progress import Advance, progress
from ..session import Session


def verify(
    ctx: typer.Context,
    path: Annotated[
        str | None,
        typer.Argument(
            metavar="[PATH]", help="The database folder, or kafka://HOST:PORT/NAMESPACE, if not that of --db."
        ),
    ] = None,
) -> None:
    """Read the whole log, check its chain of hashes, refold it from zero and compare digests.

    Compared are the digest of a running server, those that the log itself records, and every snapshot with the
    state at its position. Exit code 9 and the position, if anything is not what it was. Reads only.

    Example: foldb verify --db ./data
    """
    session: Session = ctx.obj
    expected = _live_digests(session) if path is None else {}
    log = log_of(session, path)
    folder = None if path is not None and path.startswith(KAFKA) else Path(path or session.folder)
    ends = [log.end(partition) for partition in range(log.partitions)]
    unusable: list[str] = []
    compared = 0
    digests = []
    with progress(session.settings, session.output.stderr, "verify", 2 * sum(ends)) as advance:
        for partition in range(log.partitions):
            live = expected.get(partition, {})
            snapshots, faults = _snapshots(session, folder, log, partition)
            state, met = _refold(log, partition, live, snapshots, advance)
            compared += met + len(snapshots)
            compared += _met(session, state, live, log.partitions)
            unusable += faults
            digests.append((_place(state, log.partitions), digest(state)))
    for place, made in digests:
        session.output.row(
            {
                "log_id": log.log_id.hex(),
                "position": place,
                "digest": made,
                "compared": compared,
                "differences": 0,
            }
        )
    session.output.say(
        f"{counted(sum(ends), 'record')} · {counted(compared, 'digest')} compared · no difference"
    )
    if unusable:
        raise CommandError(
            f"the log is whole, but not its snapshots: {'; '.join(unusable)}. Delete them: a start passes over them, "
            "and `foldb snapshot make` makes another.",
            ExitCode.INTEGRITY,
        )


def _refold(
    log: Readable,
    partition: int,
    live: dict[int, list[str]],
    snapshots: dict[int, list[str]],
    advance: Advance,
) -> tuple[PartitionState, int]:
    """One partition folded from zero and compared on the way; its state, and how many digests the log records."""
    recorded, void = _recorded(log, partition, advance)
    state = PartitionState()
    for record in log.read(partition):
        fold_record(state, record, void)
        _compare(state, recorded.get(record.offset, ()), "the log records", log.partitions)
        _compare(state, live.get(record.offset, ()), "the server has", log.partitions)
        _compare(state, snapshots.get(record.offset, ()), "the snapshot has", log.partitions)
        advance(1)
    return state, sum(map(len, recorded.values()))


def _met(session: Session, state: PartitionState, live: dict[int, list[str]], partitions: int) -> int:
    """How many of the server's digests the log reaches; of the others the operator is told."""
    met = [offset for offset in live if offset < state.next_offset]
    for offset in live.keys() - set(met):
        session.output.warn(
            f"the server is at @{offset}, the log can be read to @{_place(state, partitions)} only"
        )
    return len(met)


def _place(state: PartitionState, partitions: int) -> str:
    assert state.genesis is not None, "every log begins with Genesis"
    return Position(state.genesis.partition, state.next_offset - 1).text(partitions)


def _snapshots(
    session: Session, folder: Path | None, log: Readable, partition: int
) -> tuple[dict[int, list[str]], list[str]]:
    """The digests of the snapshots that a start would believe, by their offset, and what is wrong with the others."""
    if folder is None:
        return {}, []
    snapshots, end = Snapshots(folder, SystemDisk(), partition, log.partitions), log.end(partition)
    digests: dict[int, list[str]] = {}
    unusable = []
    for offset in snapshots.offsets():
        snapshot = snapshots.examine(offset, log)
        if offset >= end:
            session.output.warn(f"there is a snapshot @{offset}, the log can be read to @{end - 1} only")
        elif snapshot.fault is None and snapshot.digest is not None:
            digests[offset] = [snapshot.digest]
        else:
            unusable.append(f"{snapshots.path(offset)}: {snapshot.fault}")
    return digests, unusable


def _live_digests(session: Session) -> dict[int, dict[int, list[str]]]:
    """What the running server has: of each partition, by the offset at which it had it."""
    if session.server is None:
        return {}
    answer = session.server.admin("Digest")
    found: dict[int, dict[int, list[str]]] = {}
    for one in answer.get("Digests", [answer]):
        partition, _, offset = one["Position"].rpartition(":")
        found[int(partition or 0)] = {int(offset): [one["Digest"]]}
    return found


def _recorded(
    log: Readable, partition: int, advance: Advance
) -> tuple[dict[int, list[str]], frozenset[Void]]:
    """Read everything once: this alone finds a flipped byte, a missing block, a swapped segment.

    Returns:
        Digests to compare with, by the offset of the entry after which the state had them; and what is void.
    """
    found: dict[int, list[str]] = {}
    void: set[Void] = set()
    for record in log.read(partition):
        for command in record.entry.commands:
            if isinstance(command, Digest):
                found.setdefault(command.offset, []).append(command.digest)
        for one in voids((record,)):
            void.add(one)
            # Who recorded these had folded what has been void since.
            found = {offset: digests for offset, digests in found.items() if offset < one[0]}
        advance(1)
    return _worth_comparing(found), frozenset(void)


def _worth_comparing(found: dict[int, list[str]]) -> dict[int, list[str]]:
    """The last digests, and of the others so few that comparing takes no longer than refolding.

    A digest goes through the whole state, so each must be followed by as much log as there was before it.
    """
    kept, due, last = {}, 0, max(found, default=0)
    for offset in sorted(found):
        if offset >= due or offset == last:
            kept[offset], due = found[offset], 2 * offset
    return kept


def _compare(state: PartitionState, digests: Sequence[str], whose: str, partitions: int) -> None:
    """Hold the state against digests that somebody else came to at the same position."""
    if not digests:
        return
    ours = digest(state)
    for other in digests:
        if other != ours:
            raise CommandError(
                f"position {_place(state, partitions)}: {whose} the digest {other[:16]}..., "
                f"the log folds to {ours[:16]}...",
                ExitCode.INTEGRITY,
            )
