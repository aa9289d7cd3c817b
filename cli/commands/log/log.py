"""`foldb log`: read the log of a database, command by command."""

import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Annotated, Any

import typer

from ....log.commands import Position, Record
from ....log.local.reader import LogReader
from ...lib.command_group import CommandGroup
from ...lib.errors import CommandError, ExitCode
from ...lib.log_history import HistoryRow, LogHistory, end_of, in_order, read_position, state_before
from ...lib.log_location import SourceLog, open_log, source_of
from ...lib.log_times import first_places, last_places
from ...lib.options import SourceArgument
from ...lib.output import Output
from ...lib.progress import progress
from ...lib.session import Session
from .backup import backup, restore, salvage
from .copy import copy
from .head import head
from .skip import skip
from .trim import trim

app = CommandGroup()
app.command()(head)
app.command()(copy)
app.command()(backup)
app.command()(restore)
app.command()(salvage)
app.command()(skip)
app.command()(trim)

OnlyTable = Annotated[
    str | None, typer.Option("--table", metavar="TABLE", help="Print only the commands of this table.")
]

_COLUMNS = ("position", "time", "command", "table", "key", "outcome", "units")
_FOLLOW_EVERY_S = 0.2


@app.command()
def cat(
    session: Session,
    source: SourceArgument = None,
    first: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="POSITION|TIME",
            show_default="the beginning of the log",
            help="Start at this position or time: 10482, -1h, an ISO 8601 time.",
        ),
    ] = None,
    last: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="POSITION|TIME",
            show_default="the end of the log",
            help="Stop after this position or time.",
        ),
    ] = None,
    table: OnlyTable = None,
) -> None:
    """Print every command with its outcome: old and new image, sequence number and units, or the refusal.

    With --from the fold starts at the newest snapshot before that position, else at the beginning of the log, which
    is the history horizon if the log was trimmed.

    Example: foldb log cat ./data --table Goods -o json
    """
    found = source_of(session, source)
    log = found.open()
    everywhere = range(log.partitions)
    begins = {} if first is None else first_places(log, first, everywhere)
    limits = {} if last is None else last_places(log, last, everywhere)
    named = [places.keys() for places in (begins, limits) if places]
    partitions = sorted(set(everywhere).intersection(*named))
    if not partitions:
        raise CommandError("--from and --to are in different partitions: give one partition", ExitCode.USAGE)
    states = {partition: state_before(log, found.folder, begin) for partition, begin in begins.items()}
    history = LogHistory(log, typed=session.settings.typed, begin=states)
    starts = {partition: history.states[partition].next_offset for partition in partitions}
    records = _up_to(limits, in_order(log, starts))
    total = sum(log.end(partition) - start for partition, start in starts.items())
    with progress(session.settings, session.output.stderr, "log", total) as advance:
        rows = _of_table(history.rows(_counted(records, advance)), table)
        rows = _between(rows, begins, limits, log.partitions)
        count = session.output.rows(rows, first=_COLUMNS)
    session.output.say(f"{count:,} commands · the log ends at @{end_of(log, log.partitions)}")


@app.command()
def tail(
    session: Session,
    source: SourceArgument = None,
    count: Annotated[int, typer.Option("-n", min=0, help="Print the last N commands.")] = 10,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for new commands until Ctrl-C.")
    ] = False,
    table: OnlyTable = None,
) -> None:
    """Print the last commands with their outcomes.

    Example: foldb log tail ./data -n 5 -f
    """
    log = open_log(session, source)
    history = LogHistory(log, typed=session.settings.typed)
    with progress(session.settings, session.output.stderr, "log", _records(log)) as advance:
        last = deque(_of_table(history.rows(_counted(_all(log), advance)), table), maxlen=count)
    session.output.rows(last, first=_COLUMNS)
    if follow:
        _follow(session.output, log, history, table)


@app.command()
def stats(session: Session, source: SourceArgument = None) -> None:
    """Print the length of the log, its tables and items, and the number of commands by kind and outcome.

    Example: foldb log stats ./data
    """
    log = open_log(session, source)
    history = LogHistory(log)
    kinds: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    first = last = None
    with progress(session.settings, session.output.stderr, "log", _records(log)) as advance:
        for row in history.rows(_counted(_all(log), advance)):
            kinds[row["command"]] += 1
            outcomes[row["outcome"]] += 1
            first, last = first or row["time"], row["time"]
    items: Counter[str] = Counter()
    for state in history.states.values():
        for each in state.tables.values():
            items[each.definition.name] += each.items.count
    session.output.row(
        {
            "log_id": log.log_id.hex(),
            **_on_disk(log),
            "partitions": log.partitions,
            "entries": sum(state.next_offset for state in history.states.values()),
            "commands": sum(kinds.values()),
            "first": first,
            "last": last,
            "kinds": dict(kinds),
            "outcomes": dict(outcomes),
            "tables": dict(items),
        }
    )


def _on_disk(log: SourceLog) -> dict[str, int]:
    if not isinstance(log, LogReader):
        return {}
    statistics = log.statistics()
    return {"segments": statistics.segments, "bytes": statistics.bytes}


def _counted(records: Iterable[Record], advance: Any) -> Iterator[Record]:
    for record in records:
        yield record
        advance(1)


def _of_table(rows: Iterator[HistoryRow], table: str | None) -> Iterator[HistoryRow]:
    if table is None:
        return rows
    return (row for row in rows if table in (row.get("table"), (row.get("request") or {}).get("TableName")))


def _follow(output: Output, log: SourceLog, history: LogHistory, table: str | None) -> None:
    while True:
        behind = {
            partition: history.states[partition].next_offset
            for partition in range(log.partitions)
            if log.end(partition) > history.states[partition].next_offset
        }
        if behind:
            output.rows(_of_table(history.rows(in_order(log, behind)), table), first=_COLUMNS)
        else:
            time.sleep(_FOLLOW_EVERY_S)


def _up_to(limits: dict[int, Position], records: Iterator[Record]) -> Iterator[Record]:
    """Yield records up to the limit of their partition, and stop when every partition has passed its limit."""
    open_ = set(limits)
    for record in records:
        limit = limits.get(record.partition)
        if limit is None or record.offset <= limit.offset:
            yield record
        else:
            open_.discard(record.partition)
            if not open_:
                return


def _between(
    rows: Iterator[HistoryRow], begins: dict[int, Position], limits: dict[int, Position], partitions: int
) -> Iterator[HistoryRow]:
    """Yield the rows between the first and the last position of their partition, both included."""
    for row in rows:
        position = read_position(row["position"], partitions)
        first, last = begins.get(position.partition), limits.get(position.partition)
        if first is not None and position < replace(first, index=first.index or 0):
            continue
        if last is None or last.index is None or position <= last:
            yield row


def _all(log: SourceLog) -> Iterator[Record]:
    return in_order(log, {partition: log.begin(partition) for partition in range(log.partitions)})


def _records(log: SourceLog) -> int:
    return sum(log.end(partition) - log.begin(partition) for partition in range(log.partitions))
