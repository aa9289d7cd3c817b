"""`foldb snapshot`: states in files, so that a start need not fold the whole log."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ...log.local.disk import SystemDisk
from ...materializer.snapshots import KEPT, Examined, Made, Snapshots
from ..failures import CommandError, ExitCode
from ..history import PARTITION, open_log
from ..output import counted, time_text
from ..progress import progress
from ..session import Session, existing

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
    log = open_log(folder)
    with progress(session.settings, session.output.stderr, "fold", None) as advance:
        done = 0

        def folded(commands: int) -> None:
            nonlocal done
            advance(commands - done)
            done = commands

        try:
            made = Snapshots(folder, SystemDisk()).make(log, keep=keep, progress=folded)
        except OSError as error:
            raise CommandError(
                f"no snapshot could be made in {folder}: {error.strerror}. The older ones are as they were, "
                "and nothing of the database depends on it.",
                ExitCode.UNREACHABLE,
            ) from error
    session.output.row(_made(made))
    what = "a new snapshot" if made.is_new else "nothing has happened since the snapshot"
    session.output.say(f"{what} @{made.head.offset} · {counted(made.head.items, 'item')}")


@app.command(name="list")
def list_(ctx: typer.Context, path: Folder = None) -> None:
    """List the snapshots, the newest first, and read each to its end: is it whole, and is it of this log?

    A start passes over those that are not.

    Example: foldb snapshot list --db ./data
    """
    session: Session = ctx.obj
    folder = session.folder if path is None else existing(path)
    log = open_log(folder)
    snapshots = Snapshots(folder, SystemDisk())
    rows = (_row(snapshots.examine(offset, log)) for offset in snapshots.offsets())
    count = session.output.rows(rows, first=_COLUMNS)
    session.output.say(f"{counted(count, 'snapshot')} · the log ends at @{log.end(PARTITION) - 1}")


def _made(made: Made) -> dict[str, Any]:
    return {
        "position": str(made.head.offset),
        "time": time_text(made.head.time_ms),
        "items": made.head.items,
        "bytes": made.bytes,
        "digest": made.digest,
        "new": made.is_new,
    }


def _row(snapshot: Examined) -> dict[str, Any]:
    head = snapshot.head
    said = {} if head is None else {"time": time_text(head.time_ms), "items": head.items}
    return {
        "position": str(snapshot.offset),
        **said,
        "bytes": snapshot.bytes,
        "digest": snapshot.digest,
        "state": snapshot.fault or WHOLE,
    }
