"""Where words go: data on stdout and nothing else, everything said about it on stderr.

On a terminal data is a table, in a pipe JSON Lines; -o decides otherwise. The shape of json and
jsonl does not change within a major version. `raw` is values alone, tab-separated, for loops in
a shell.
"""

import csv
import io
import itertools
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from typer import echo

from ...model.values import Item
from .settings import Color, Format, Settings
from .values import number_text, plain_item, write_json

# Rich takes as long to load as most commands run, so it is loaded where something is drawn.
if TYPE_CHECKING:
    from .terminal import Terminal

Row: TypeAlias = Mapping[str, Any]  # what JSON can say, and Decimals


class Output:
    """Writes the data of one command in the format of the settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._is_terminal = sys.stdout is not None and sys.stdout.isatty()
        is_terminal = settings.color is Color.ALWAYS or self._is_terminal
        self._format = settings.format or (Format.TABLE if is_terminal else Format.JSONL)
        self.draws = is_terminal and settings.format is None
        """Whether nobody chose how data is written, and a person reads it: then lines may have colours."""
        self._header: list[str] = []  # of the CSV so far

    @cached_property
    def stderr(self) -> "Terminal":
        """Where progress is drawn."""
        return _console(self._settings.color, stderr=True)

    @cached_property
    def _stdout(self) -> "Terminal":
        return _console(self._settings.color, stderr=False)

    def items(self, items: Iterable[Item], *, first: Sequence[str] = ()) -> int:
        """Write items, plain or --typed, and return how many; `first` names columns to begin with."""
        if self._settings.typed:
            return self.rows(items, first=first)
        return self.rows((plain_item(item) for item in items), first=first)

    def item(self, item: Item) -> None:
        """Write one item."""
        self.row(item if self._settings.typed else plain_item(item))

    def rows(self, rows: Iterable[Row], *, first: Sequence[str] = ()) -> int:
        """Write rows that may have different members; JSON Lines as they come, the rest at the end.

        A CSV without rows has a header of the columns in `first`.
        """
        match self._format:
            case Format.JSONL:
                return self._lines(write_json(row) for row in rows)
            case Format.RAW:
                return self._lines("\t".join(map(cell, row.values())) for row in rows)
        everything = list(rows)
        self._begin()
        match self._format:
            case Format.JSON:
                echo(write_json(everything, indent=True))
            case Format.CSV:
                names = columns(everything, first)
                echo(_csv(everything, names, has_header=names != self._header), nl=False)
                self._header = names
            case Format.TABLE:
                self._table(everything, columns(everything, first))
        return len(everything)

    def row(self, row: Row) -> None:
        """Write one thing: in a table one line a member, in JSON an object and not a list."""
        match self._format:
            case Format.JSON:
                self._begin()
                echo(write_json(row, indent=True))
            case Format.TABLE:
                self._begin()
                self._block(row)
            case _:
                self.rows([row])

    def line(self, text: str) -> None:
        """Write a line of data as it is; its colours go where there is no terminal to show them."""
        self._begin()
        colours = {Color.ALWAYS: True, Color.NEVER: False}.get(self._settings.color)
        echo(text, color=colours)

    def say(self, text: str) -> None:
        """Tell the user something about the data; -q silences it."""
        if not self._settings.quiet:
            echo(text, err=True)

    def warn(self, text: str) -> None:
        """Tell the user what must be heard, also with -q."""
        echo(text, err=True)

    def _begin(self) -> None:
        """Erase a progress bar before data is written to the terminal that it is drawn on."""
        if self._is_terminal and "stderr" in self.__dict__:  # else nothing was ever drawn
            self.stderr.clear_bar()

    def _lines(self, lines: Iterable[str]) -> int:
        count = 0
        for line in lines:
            self._begin()
            echo(line)
            count += 1
        return count

    def _table(self, rows: Sequence[Row], names: Sequence[str]) -> None:
        """A line a row where that can be read, else a block a row."""
        widths = [_width(name, rows) for name in names]
        if sum(widths) + 2 * len(widths) > self._stdout.width:
            for row in rows:
                self._block({name: row[name] for name in names if name in row})
            return
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for name in names:
            numeric = all(_is_number(row[name]) for row in rows if name in row)
            table.add_column(Text(visible(name)), justify="right" if numeric else "left", overflow="fold")
        for row in rows:
            table.add_row(*(Text(visible(cell(row[name])) if name in row else "") for name in names))
        if rows:
            self._stdout.print(table)

    def _block(self, row: Row) -> None:
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        for name, value in row.items():
            table.add_row(Text(visible(name), style="bold"), Text(visible(cell(value)), overflow="fold"))
        self._stdout.print(table)
        self._stdout.print()


# A column narrower than its text wraps; below this it cannot be read.
_READABLE = 16


def _width(name: str, rows: Sequence[Row]) -> int:
    return max(len(name), *(min(_READABLE, len(cell(row[name]))) for row in rows if name in row), 0)


def columns(rows: Sequence[Row], first: Sequence[str]) -> list[str]:
    """The names of all members, `first` in front, the others as they appear."""
    return list(dict.fromkeys(itertools.chain(first, *rows)))


# Codes that a terminal obeys and does not show; a tab and a line feed are harmless.
_CONTROLS = {code: f"\\u{code:04x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in (9, 10)}


def visible(text: str) -> str:
    """Escape the codes that a terminal would obey: other users write items."""
    return text.translate(_CONTROLS)


def cell(value: Any) -> str:
    """One value as text: strings without quotes, numbers with all digits, the rest as JSON."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if _is_number(value):
        return number_text(value) if isinstance(value, Decimal) else str(value)
    return write_json(value)


def units_text(units: Decimal | int) -> str:
    """Capacity units without a needless fraction; they are multiples of a half.

    >>> units_text(Decimal("1.0")), units_text(Decimal("1000.5"))
    ('1', '1,000.5')
    """
    return f"{int(units):,}" if units == int(units) else f"{units:,.1f}"


def counted(number: int, thing: str) -> str:
    """
    >>> counted(1, "item"), counted(1200, "item")
    ('1 item', '1,200 items')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def time_text(time_ms: int) -> str:
    """Log time as an ISO date.

    >>> time_text(1_700_000_000_123)
    '2023-11-14T22:13:20.123Z'
    """
    return (
        datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def _console(color: Color, *, stderr: bool) -> "Terminal":
    from .terminal import Terminal

    match color:
        case Color.ALWAYS:
            return Terminal(stderr=stderr, force_terminal=True, highlight=False)
        case Color.NEVER:
            return Terminal(stderr=stderr, no_color=True, highlight=False)
    return Terminal(stderr=stderr, highlight=False)


def _is_number(value: Any) -> bool:
    return not isinstance(value, (bool, str, list, dict)) and value is not None


def _csv(rows: Sequence[Row], names: Sequence[str], *, has_header: bool) -> str:
    text = io.StringIO()
    if not names:
        return ""  # the csv module would write an empty line
    writer = csv.writer(text, lineterminator="\n")
    if has_header:
        writer.writerow(names)
    writer.writerows([cell(row[name]) if name in row else "" for name in names] for row in rows)
    return text.getvalue()
