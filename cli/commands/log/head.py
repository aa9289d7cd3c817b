"""`foldb log head`: print position, log time and chain of each partition."""

from typing import Annotated

import typer

from ...lib.log_heads import heads
from ...lib.log_location import source_of
from ...lib.options import SourceArgument
from ...lib.output import counted
from ...lib.progress import progress
from ...lib.session import Session


def head(
    session: Session,
    source: SourceArgument = None,
    every: Annotated[
        int | None,
        typer.Option(
            "--every",
            metavar="N",
            min=1,
            help="Also print the chain after every N records. It locates a later difference to N records.",
        ),
    ] = None,
) -> None:
    """Print position, log time and chain of each partition. A chain is a hash of all records up to there.

    Save the output on another machine: `foldb verify --against FILE` proves later that the log still begins with this
    history. The chain continues from the newest snapshot in the folder; --every reads the whole log.

    Example: foldb log head ./data > heads.jsonl
    """
    found = source_of(session, source)
    log = found.open()
    total = sum(log.end(partition) - log.begin(partition) for partition in range(log.partitions))
    with progress(session.settings, session.output.stderr, "log", total) as advance:
        rows = (
            row for partition in range(log.partitions) for row in heads(log, found, partition, every, advance)
        )
        count = session.output.rows(rows)
    session.output.say(f"{counted(count, 'head')} of the log {log.log_id.hex()}")
