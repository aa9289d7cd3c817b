"""`foldb log`: the history of a database, command by command."""

import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any

import typer

from ...log.commands import Record
from ...log.local.reader import LogReader
from ..history import PARTITION, Story, Told, open_log, read_position
from ..output import Output
from ..progress import progress
from ..session import Session, existing

app = typer.Typer(
    no_args_is_help=True, help="Read the log of a database folder, also while a server writes it."
)

Folder = Annotated[
    Path | None, typer.Argument(metavar="[PATH]", help="The database folder, if not that of --db.")
]
OnlyTable = Annotated[
    str | None, typer.Option("--table", metavar="TABLE", help="Only commands about this table.")
]

_COLUMNS = ("position", "time", "command", "table", "key", "outcome", "units")
_FOLLOW_EVERY_S = 0.2


@app.command()
def cat(
    ctx: typer.Context,
    path: Folder = None,
    first: Annotated[str | None, typer.Option("--from", metavar="POSITION", help="Begin here.")] = None,
    last: Annotated[str | None, typer.Option("--to", metavar="POSITION", help="End here.")] = None,
    table: OnlyTable = None,
) -> None:
    """Print every command with its outcome: old and new image, sequence number, units, refusals too.

    Example: foldb log cat ./data --table Goods -o json
    """
    session: Session = ctx.obj
    log = _log(session, path)
    story = Story(typed=session.settings.typed)
    end = log.end(PARTITION)
    records: Iterable[Record] = log.read(PARTITION)
    if last is not None:
        limit = read_position(last)
        records = takewhile(lambda record: record.offset <= limit.offset, records)
    begin = read_position(first) if first is not None else None
    with progress(session.settings, session.output.stderr, "log", end) as advance:
        told = _wanted(story.tell(_counted(records, advance)), table)
        if begin is not None:
            told = (
                row
                for row in told
                if read_position(row["position"]) >= (PARTITION, begin.offset, begin.index or 0)
            )
        if last is not None and limit.index is not None:
            told = (row for row in told if read_position(row["position"]) <= limit)
        count = session.output.rows(told, first=_COLUMNS)
    session.output.say(f"{count:,} commands · the log ends at @{end - 1}")


@app.command()
def tail(
    ctx: typer.Context,
    path: Folder = None,
    count: Annotated[int, typer.Option("-n", min=0, help="How many commands.")] = 10,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on as the log grows; Ctrl-C ends it.")
    ] = False,
    table: OnlyTable = None,
) -> None:
    """Print the last commands with their outcomes.

    Example: foldb log tail ./data -n 5 -f
    """
    session: Session = ctx.obj
    log = _log(session, path)
    story = Story(typed=session.settings.typed)
    with progress(session.settings, session.output.stderr, "log", log.end(PARTITION)) as advance:
        last = deque(_wanted(story.tell(_counted(log.read(PARTITION), advance)), table), maxlen=count)
    session.output.rows(last, first=_COLUMNS)
    if follow:
        _follow(session.output, log, story, table)


@app.command()
def stats(ctx: typer.Context, path: Folder = None) -> None:
    """Print how long the log is, what it holds, and how often each command was applied or refused.

    Example: foldb log stats ./data
    """
    session: Session = ctx.obj
    log = _log(session, path)
    story = Story()
    end = log.end(PARTITION)
    kinds: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    first = last = None
    with progress(session.settings, session.output.stderr, "log", end) as advance:
        for row in story.tell(_counted(log.read(PARTITION), advance)):
            kinds[row["command"]] += 1
            outcomes[row["outcome"]] += 1
            first, last = first or row["time"], row["time"]
    session.output.row(
        {
            "log_id": log.log_id.hex(),
            "segments": log.statistics().segments,
            "bytes": log.statistics().bytes,
            "entries": end,
            "commands": sum(kinds.values()),
            "first": first,
            "last": last,
            "kinds": dict(kinds),
            "outcomes": dict(outcomes),
            "tables": {table.definition.name: table.items.count for table in story.state.tables.values()},
        }
    )


def _log(session: Session, path: Path | None) -> LogReader:
    return open_log(session.folder if path is None else existing(path))


def _counted(records: Iterable[Record], advance: Any) -> Iterator[Record]:
    for record in records:
        yield record
        advance(1)


def _wanted(told: Iterator[Told], table: str | None) -> Iterator[Told]:
    if table is None:
        return told
    return (row for row in told if table in (row.get("table"), row.get("request", {}).get("TableName")))


def _follow(output: Output, log: LogReader, story: Story, table: str | None) -> None:
    while True:
        if log.end(PARTITION) > story.state.next_offset:
            output.rows(
                _wanted(story.tell(log.read(PARTITION, story.state.next_offset)), table), first=_COLUMNS
            )
        else:
            time.sleep(_FOLLOW_EVERY_S)
