"""`foldb log copy`: a history moved to another place, from a folder to Kafka or back."""

from typing import Annotated

import typer

from ....log.copy import copy as copy_log
from ....log.copy import first_entries
from ...lib.errors import CommandError, ExitCode
from ...lib.log_history import end_of
from ...lib.log_location import open_log, opened_to_write
from ...lib.output import counted
from ...lib.progress import progress
from ...lib.session import Session

_PLACE = "A database folder, or kafka://HOST:PORT/NAMESPACE"


def copy(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help=f"{_PLACE}.")],
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help=f"{_PLACE}: nothing yet, or an earlier copy.")
    ],
) -> None:
    """Copy a log: entries, positions, log time and sequence numbers go on as they are, and so do digests.

    An interrupted copy goes on when it is run again, and a later one brings what came since. So copy while the
    source is served, stop its servers, copy once more, and serve the target. From then on the source must not be
    served any more: it would be another history with the same name. `foldb verify` on both says whether they agree.
    For a backup of a folder use `foldb log backup`.

    Example: foldb log copy ./data kafka://localhost:9092/shop
    """
    session: Session = ctx.obj
    log = open_log(source)
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
            "interrupted; the same command goes on where this one was", ExitCode.INTERRUPTED
        ) from error
    session.output.row({"log_id": log.log_id.hex(), "target": target, "copied": copied, "position": end})
    session.output.say(f"{counted(copied, 'record')} copied · {target} is as of @{end}")
