"""`foldb log skip`: an operator's decision that something in the log is void."""

import os
from typing import Annotated

import typer

from ....log.commands import Context, Entry, Genesis, Position, Record, Skip
from ....log.copy import first_entries
from ....log.log import Appended
from ....materializer.fold.fold_record import Void
from ....materializer.fold.state import PartitionState
from ....materializer.refold import FoldError, refold_log
from ....model.errors import LogError
from ...lib.errors import CommandError, ExitCode
from ...lib.log_history import read_position
from ...lib.log_location import Readable, open_log, opened_to_write
from ...lib.progress import progress
from ...lib.session import Session

_ORIGIN_BYTES = 16


def skip(
    ctx: typer.Context,
    position: Annotated[
        str, typer.Argument(help="Where the fold stopped: 10482.3, or 10482 for all that stands there.")
    ],
    path: Annotated[
        str | None,
        typer.Argument(
            metavar="[PATH]", help="The database folder, or kafka://HOST:PORT/NAMESPACE, if not that of --db."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also where the fold does not stop: what was folded is undone.")
    ] = False,
) -> None:
    """Declare void what stands at a position, so that a log at which the fold stopped can be served again.

    It cannot be taken back: every node passes over it from then on, and every refold. The record stays in the log. The
    log is folded up to there first. A folder must not be served meanwhile; nodes that share a log may run.

    Example: foldb log skip 10482.3 ./data
    """
    session: Session = ctx.obj
    place = str(session.folder) if path is None else path
    log = open_log(place)
    void = read_position(position, log.partitions)
    kinds = _kinds(log, void)
    if not force:
        _check(session, log, void)
    at = void.text(log.partitions)
    session.confirm(f"Declare void what stands at @{at} ({', '.join(kinds)}), for good?")
    decision = Skip(void.offset, void.index, Context(""))
    offset = _append(place, log, void.partition, Entry(os.urandom(_ORIGIN_BYTES), 0, [decision]))
    session.output.row(
        {"position": Position(void.partition, offset, 0).text(log.partitions), "void": at, "commands": kinds}
    )


def _check(session: Session, log: Readable, void: Position) -> None:
    """Refuse what nothing would be won by. Other partitions may have heard of what was folded, and acted on it."""
    at = void.text(log.partitions)
    stop = _stop(session, log, void.partition)
    if stop != void.offset:
        place = "" if stop is None else Position(void.partition, stop).text(log.partitions)
        where = "folds to its end" if stop is None else f"stops at @{place}"
        raise CommandError(
            f"the log {where}: @{at} is not in its way. To declare it void all the same, say --force.",
            ExitCode.USAGE,
        )
    if void.index is not None and _stop(session, log, void.partition, (void.offset, void.index)) == stop:
        raise CommandError(
            f"it is not @{at} at which the fold stops, but another command of @{void.offset}: name that one, or all",
            ExitCode.USAGE,
        )


def _stop(session: Session, log: Readable, partition: int, *void: Void) -> int | None:
    """The offset at which the fold stops; None if it comes to the end."""
    with progress(session.settings, session.output.stderr, "fold", None) as advance:
        folded = 0

        def told(commands: int) -> None:
            nonlocal folded
            advance(commands - folded)
            folded = commands

        try:
            refold_log(PartitionState(), log, partition, told, void=frozenset(void))
        except FoldError as error:
            return error.position.offset
    return None


def _kinds(log: Readable, void: Position) -> list[str]:
    """What is to be void, by the names of commands."""
    record = _record(log, void)
    commands = record.entry.commands
    if void.index is not None:
        commands = commands[void.index : void.index + 1]
    if not commands:
        raise CommandError(
            f"at @{void.offset} stand {len(record.entry.commands)} commands, and none is number {void.index}",
            ExitCode.NOT_FOUND,
        )
    if any(type(command) is Genesis for command in commands):
        raise CommandError("a log cannot do without its beginning", ExitCode.USAGE)
    return [type(command).__name__ for command in commands]


def _record(log: Readable, void: Position) -> Record:
    if void.offset >= log.end(void.partition):
        raise CommandError(f"there is nothing at @{void.offset}: the log ends before it", ExitCode.NOT_FOUND)
    return next(log.read(void.partition, void.offset))


def _append(place: str, log: Readable, partition: int, entry: Entry) -> int:
    """Where the entry stands, once it is durable."""
    results: list[Appended | LogError] = []
    with opened_to_write(place, first_entries(log)) as (written, deliveries):
        written.append(partition, entry, results.append)
        while not results:
            deliveries.get()()
    [result] = results
    if isinstance(result, LogError):
        raise result
    return result.offset
