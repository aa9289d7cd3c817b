"""`foldb log copy`: move a log from a folder to Kafka, or back."""

from typing import Annotated

import typer

from ....log.copy import copy as copy_log
from ....log.copy import first_entries
from ...lib.errors import CommandError, ExitCode
from ...lib.log_history import end_of
from ...lib.log_location import open_log, opened_to_write
from ...lib.options import SOURCE
from ...lib.output import counted
from ...lib.progress import progress
from ...lib.session import Session

_TARGET = "A database folder, or kafka://HOST:PORT/NAMESPACE: new, empty, or an earlier copy."


def copy(
    session: Session,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help=f"{SOURCE}.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help=_TARGET)],
) -> None:
    """Copy a log. Entries, positions, log time, sequence numbers and digests stay the same.

    Run an interrupted copy again to continue it; a later copy appends the new records. To move a database, copy while
    it is served, stop its servers, copy once more, and serve the target. Do not serve the source after that: it would
    be another history with the same name. `foldb verify` of both shows whether they agree. For a backup of a folder
    use `foldb log backup`.

    Example: foldb log copy ./data kafka://localhost:9092/shop
    """
    log = open_log(session, source)
    if log.begin(0):
        raise CommandError(
            f"{source} was trimmed, and a copy needs the whole history. Copy the folder with `foldb log backup`, or "
            "copy the archive of the trim.",
            ExitCode.USAGE,
        )
    total = sum(map(log.end, range(log.partitions)))
    try:
        with (
            opened_to_write(target, first_entries(log)) as (written, deliveries),
            progress(session.settings, session.output.stderr, "copy", total) as advance,
        ):
            copied = copy_log(log, written, deliveries, advance)
            end = end_of(written, log.partitions)
    except KeyboardInterrupt as error:
        raise CommandError(
            "interrupted; run the same command again to continue", ExitCode.INTERRUPTED
        ) from error
    session.output.row({"log_id": log.log_id.hex(), "target": target, "copied": copied, "position": end})
    session.output.say(f"{counted(copied, 'record')} copied · {target} is as of @{end}")
