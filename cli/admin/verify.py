"""`foldb verify`: is the history whole, and does it still make the tables that are served?"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ...log.commands import Digest, Record
from ...log.local.disk import SystemDisk
from ...log.local.reader import LogReader
from ...materializer.fold.dump import digest
from ...materializer.fold.state import PartitionState
from ...materializer.refold import fold_record
from ...materializer.snapshots import Snapshots
from ..failures import CommandError, ExitCode
from ..history import PARTITION, open_log
from ..output import counted
from ..progress import Advance, progress
from ..session import Session, existing


def verify(
    ctx: typer.Context,
    path: Annotated[
        Path | None, typer.Argument(metavar="[PATH]", help="The database folder, if not that of --db.")
    ] = None,
) -> None:
    """Read the whole log, check its chain of hashes, refold it from zero and compare digests.

    Compared are the digest of a running server, those that the log itself records, and every snapshot with the
    state at its position. Exit code 9 and the position, if anything is not what it was. Reads only.

    Example: foldb verify --db ./data
    """
    session: Session = ctx.obj
    expected = _live_digest(session) if path is None else {}
    folder = session.folder if path is None else existing(path)
    log = open_log(folder)
    end = log.end(PARTITION)
    snapshots, unusable = _snapshots(session, folder, log)
    with progress(session.settings, session.output.stderr, "verify", 2 * end) as advance:
        recorded = _recorded(log, advance)
        state = PartitionState()
        for record in log.read(PARTITION):
            fold_record(state, record)
            _compare(state, record, recorded.get(record.offset, ()), "the log records")
            _compare(state, record, expected.get(record.offset, ()), "the server has")
            _compare(state, record, snapshots.get(record.offset, ()), "the snapshot has")
            advance(1)
    compared = sum(len(digests) for digests in recorded.values()) + len(snapshots)
    for offset in expected:
        if offset < state.next_offset:
            compared += 1
        else:
            session.output.warn(
                f"the server is at @{offset}, the log can be read to @{state.next_offset - 1} only"
            )
    session.output.row(
        {
            "log_id": log.log_id.hex(),
            "position": str(state.next_offset - 1),
            "digest": digest(state),
            "compared": compared,
            "differences": 0,
        }
    )
    session.output.say(f"{counted(end, 'record')} · {counted(compared, 'digest')} compared · no difference")
    if unusable:
        raise CommandError(
            f"the log is whole, but not its snapshots: {'; '.join(unusable)}. Delete them: a start passes over them, "
            "and `foldb snapshot make` makes another.",
            ExitCode.INTEGRITY,
        )


def _snapshots(session: Session, folder: Path, log: LogReader) -> tuple[dict[int, list[str]], list[str]]:
    """The digests of the snapshots that a start would believe, by their offset, and what is wrong with the others."""
    snapshots, end = Snapshots(folder, SystemDisk()), log.end(PARTITION)
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


def _live_digest(session: Session) -> dict[int, list[str]]:
    """What the running server has, by the offset at which it had it."""
    if session.server is None:
        return {}
    answer = session.server.admin("Digest")
    return {int(answer["Position"].rpartition(":")[2]): [answer["Digest"]]}


def _recorded(log: LogReader, advance: Advance) -> dict[int, list[str]]:
    """Read everything once: this alone finds a flipped byte, a missing block, a swapped segment.

    Returns:
        Digests to compare with, by the offset of the entry after which the state had them.
    """
    found: dict[int, list[str]] = {}
    for record in log.read(PARTITION):
        for command in record.entry.commands:
            if isinstance(command, Digest):
                found.setdefault(command.offset, []).append(command.digest)
        advance(1)
    return _worth_comparing(found)


def _worth_comparing(found: dict[int, list[str]]) -> dict[int, list[str]]:
    """The last digests, and of the others so few that comparing takes no longer than refolding.

    A digest goes through the whole state, so each must be followed by as much log as there was before it.
    """
    kept, due, last = {}, 0, max(found, default=0)
    for offset in sorted(found):
        if offset >= due or offset == last:
            kept[offset], due = found[offset], 2 * offset
    return kept


def _compare(state: PartitionState, record: Record, digests: Sequence[str], whose: str) -> None:
    """Hold the state against digests that somebody else came to at the same position."""
    if not digests:
        return
    ours = digest(state)
    for other in digests:
        if other != ours:
            raise CommandError(
                f"position {record.offset}: {whose} the digest {other[:16]}..., the log folds to {ours[:16]}...",
                ExitCode.INTEGRITY,
            )
