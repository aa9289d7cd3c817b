"""`foldb snapshot`: take and list snapshots, which save a start the fold of the whole log."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ...log.commands import Position
from ...log.local import LocalLog
from ...log.local.filesystem import SystemFilesystem
from ...materializer.snapshot import SnapshotHead
from ...materializer.snapshots import KEPT, MadeSnapshot, SnapshotReport, Snapshots
from ..lib.command_group import CommandGroup
from ..lib.errors import CommandError, ExitCode
from ..lib.log_history import end_of
from ..lib.log_location import SourceLog, source_of
from ..lib.options import SourceArgument
from ..lib.output import counted, time_text
from ..lib.progress import Advance, progress
from ..lib.session import Session

app = CommandGroup()

INTACT = "intact"
_COLUMNS = ("position", "time", "items", "bytes", "digest", "state")


@app.command()
def make(
    session: Session,
    source: SourceArgument = None,
    keep: Annotated[
        int, typer.Option(min=1, help="Keep the newest N snapshots and delete the others.")
    ] = KEPT,
) -> None:
    """Fold the log after the newest snapshot, and write the next snapshot.

    A server may run at the same time, and is not slowed. The log does not change: snapshots only save time, and may
    be deleted.

    Example: foldb snapshot make --db ./data
    """
    found = source_of(session, source)
    folder = found.snapshots_folder()
    # An open descriptor: if the folder is renamed during the fold, the snapshot still goes into this folder.
    disk = SystemFilesystem().hold(folder)
    log = found.open() if found.is_shared else LocalLog.open_reader(folder, disk)
    with progress(session.settings, session.output.stderr, "fold", None) as advance:
        for partition in range(log.partitions):
            snapshots = Snapshots(folder, disk, partition, log.partitions)
            made = _make(snapshots, log, keep, advance, folder)
            session.output.row(_made(made, log.partitions))
            result = "a new snapshot" if made.is_new else "the log has not grown since the snapshot"
            position = _position(made.head, log.partitions)
            session.output.say(f"{result} @{position} · {counted(made.head.items, 'item')}")


def _make(snapshots: Snapshots, log: SourceLog, keep: int, advance: Advance, folder: Path) -> MadeSnapshot:
    done = 0

    def folded(commands: int) -> None:
        nonlocal done
        advance(commands - done)
        done = commands

    try:
        return snapshots.make(log, keep=keep, progress=folded)
    except OSError as error:
        raise CommandError(
            f"cannot take a snapshot in {folder}: {error.strerror}. Older snapshots and the log are unchanged.",
            ExitCode.UNREACHABLE,
        ) from error


@app.command(name="list")
def list_(session: Session, source: SourceArgument = None) -> None:
    """List the snapshots, the newest first. Check that each is intact and belongs to this log.

    A start ignores the others.

    Example: foldb snapshot list --db ./data
    """
    found = source_of(session, source)
    folder, log = found.snapshots_folder(), found.open()
    rows = (
        _row(snapshots.examine(offset, log), partition, log.partitions)
        for partition in range(log.partitions)
        for snapshots in (Snapshots(folder, SystemFilesystem(), partition, log.partitions),)
        for offset in snapshots.offsets()
    )
    count = session.output.rows(rows, first=_COLUMNS)
    session.output.say(f"{counted(count, 'snapshot')} · the log ends at @{end_of(log, log.partitions)}")


def _made(made: MadeSnapshot, partitions: int) -> dict[str, Any]:
    return {
        "position": _position(made.head, partitions),
        "time": time_text(made.head.time_ms),
        "items": made.head.items,
        "bytes": made.bytes,
        "digest": made.digest,
        "new": made.is_new,
    }


def _row(snapshot: SnapshotReport, partition: int, partitions: int) -> dict[str, Any]:
    head = snapshot.head
    contents = {} if head is None else {"time": time_text(head.time_ms), "items": head.items}
    return {
        "position": Position(partition, snapshot.offset).text(partitions),
        **contents,
        "bytes": snapshot.bytes,
        "digest": snapshot.digest,
        "state": snapshot.fault or INTACT,
    }


def _position(head: SnapshotHead, partitions: int) -> str:
    return Position(head.partition, head.offset).text(partitions)
