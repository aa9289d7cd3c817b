"""`foldb snapshot`: states in files, so that a start need not fold the whole log."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ...log.commands import Position
from ...log.local import LocalLog
from ...log.local.filesystem import SystemFilesystem
from ...materializer.snapshot import Head
from ...materializer.snapshots import KEPT, MadeSnapshot, SnapshotReport, Snapshots
from ..lib.errors import CommandError, ExitCode
from ..lib.log_history import end_of
from ..lib.log_location import Readable, open_log
from ..lib.output import counted, time_text
from ..lib.progress import Advance, progress
from ..lib.session import Session, existing

app = typer.Typer(
    no_args_is_help=True, help="Make and list snapshots, from which a database starts without its whole log."
)

Folder = Annotated[
    Path | None, typer.Argument(metavar="[PATH]", help="The database folder, if not that of --db.")
]

WHOLE = "whole"
_COLUMNS = ("position", "time", "items", "bytes", "digest", "state")


@app.command()
def make(
    ctx: typer.Context,
    path: Folder = None,
    keep: Annotated[int, typer.Option(min=1, help="How many snapshots to keep, the newest ones.")] = KEPT,
) -> None:
    """Fold what the log has since the newest snapshot, and write the next.

    Works beside a running server, which does not stop for it, and without one. The log stays as it is: snapshots
    only save time, and may be deleted.

    Example: foldb snapshot make --db ./data
    """
    session: Session = ctx.obj
    folder = session.folder if path is None else existing(path)
    # Held: a folder that is renamed while this works gets the snapshot, and no other folder does.
    disk = SystemFilesystem().hold(folder)
    log = LocalLog.open_reader(folder, disk)
    with progress(session.settings, session.output.stderr, "fold", None) as advance:
        for partition in range(log.partitions):
            snapshots = Snapshots(folder, disk, partition, log.partitions)
            made = _make(snapshots, log, keep, advance, folder)
            session.output.row(_made(made, log.partitions))
            what = "a new snapshot" if made.is_new else "nothing has happened since the snapshot"
            place = _place(made.head, log.partitions)
            session.output.say(f"{what} @{place} · {counted(made.head.items, 'item')}")


def _make(snapshots: Snapshots, log: Readable, keep: int, advance: Advance, folder: Path) -> MadeSnapshot:
    done = 0

    def folded(commands: int) -> None:
        nonlocal done
        advance(commands - done)
        done = commands

    try:
        return snapshots.make(log, keep=keep, progress=folded)
    except OSError as error:
        raise CommandError(
            f"no snapshot could be made in {folder}: {error.strerror}. The older ones are as they were, "
            "and nothing of the database depends on it.",
            ExitCode.UNREACHABLE,
        ) from error


@app.command(name="list")
def list_(ctx: typer.Context, path: Folder = None) -> None:
    """List the snapshots, the newest first, and read each to its end: is it whole, and is it of this log?

    A start passes over those that are not.

    Example: foldb snapshot list --db ./data
    """
    session: Session = ctx.obj
    folder = session.folder if path is None else existing(path)
    log = open_log(folder)
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
        "position": _place(made.head, partitions),
        "time": time_text(made.head.time_ms),
        "items": made.head.items,
        "bytes": made.bytes,
        "digest": made.digest,
        "new": made.is_new,
    }


def _row(snapshot: SnapshotReport, partition: int, partitions: int) -> dict[str, Any]:
    head = snapshot.head
    said = {} if head is None else {"time": time_text(head.time_ms), "items": head.items}
    return {
        "position": Position(partition, snapshot.offset).text(partitions),
        **said,
        "bytes": snapshot.bytes,
        "digest": snapshot.digest,
        "state": snapshot.fault or WHOLE,
    }


def _place(head: Head, partitions: int) -> str:
    return Position(head.partition, head.offset).text(partitions)
