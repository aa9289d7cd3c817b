"""`foldb stream tail`: print changes."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Annotated, Final

import typer

from ....model.lazy_dataclass import dataclass
from ...lib.change_format import coloured, line_of, shown
from ...lib.change_sources import Row, reading_of
from ...lib.durations import now
from ...lib.errors import CommandError, ExitCode
from ...lib.filter_options import FROM, FilterOptions, TableOptions
from ...lib.output import counted, visible
from ...lib.session import Session
from ...lib.settings import Format
from ...lib.start_position import Start, read_start

_COLUMNS: Final = ("time", "op", "table", "keys", "old", "new", "number")


@dataclass(frozen=True, slots=True)
class RangeOptions:
    """The range of changes that is printed."""

    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for new changes until Ctrl-C.")] = False
    begin: Annotated[str | None, FROM] = None
    count: Annotated[int | None, typer.Option("-c", "--count", min=1, help="Stop after N changes.")] = None
    end: Annotated[bool, typer.Option("-e", "--end", help="Stop at the end. This is the default.")] = False

    def start(self) -> Start:
        return read_start(self.begin or ("end" if self.follow else "horizon"), now)


def tail(
    session: Session,
    tables: TableOptions,
    range_: RangeOptions,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="TEXT",
            help="Print a line with these fields for each change. See the list above.",
        ),
    ] = None,
    *,
    filter_: FilterOptions,
) -> None:
    """Print the changes of tables: a line of JSON for each in a pipe, a coloured line on a terminal.

    Without a table: of a server, all tables with a stream or a trigger; of a folder without a server, all tables in
    the log, deleted ones too. Without --from: new changes with -f, else all that the feed keeps.

    Fields of --format: %T time, %ms time in milliseconds, %op event, %t table, %k key, %K key as JSON, %old and %new
    the item before and after, %old.NAME and %new.NAME one attribute, %n sequence number, %p position, %tx transaction,
    %who principal, %src source, %req request id, %d depth of triggers, %j all as JSON, and %%.

    Example: foldb stream tail --table Orders -f --from -1h --when "NEW.Total > 100" --format '%T %op %k %new.Total'
    """
    if range_.end and range_.follow:
        raise CommandError("-e stops at the end and -f continues: give one of them", ExitCode.USAGE)
    is_one_document = session.settings.format in (Format.JSON, Format.YAML, Format.CSV, Format.TABLE)
    if range_.follow and range_.count is None and format_ is None and is_one_document:
        raise CommandError(
            f"-f needs -o jsonl or raw: {session.settings.format} is one document, which -f never completes",
            ExitCode.USAGE,
        )
    line = None if format_ is None else line_of(format_)
    reading = reading_of(session, tables.names, range_.start(), filter_.settings())
    changes = islice(reading.rows(follow=range_.follow), range_.count)
    rows = (shown(row, typed=session.settings.typed) for row in changes)
    written = _write(session, rows, line)
    session.output.say(f"{counted(written, 'change')} · {reading.where}")


def _write(session: Session, rows: Iterator[Row], line: Callable[[Row], str] | None) -> int:
    """Write each row when it arrives, or all rows as one document. Return their number."""
    output = session.output
    if line is None and not output.draws:
        return output.rows(rows, first=_COLUMNS)
    written = 0
    for written, row in enumerate(rows, start=1):  # noqa: B007  # returned below
        if line is None:
            output.line(coloured(row))
        else:
            output.line(visible(line(row)) if output.draws else line(row))
    return written
