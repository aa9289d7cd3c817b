"""Output: data goes to stdout, and messages about it go to stderr.

The default format is a table on a terminal and JSON Lines in a pipe; -o selects another. The members of json and jsonl
do not change within a major version. `raw` is tab-separated values without names, for loops in a shell. yaml has the
members of json; each further value of a command is a document of its own.
"""

import csv
import io
import itertools
import sys
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from typer import echo

from ...model.durations import time_text as time_text  # for the other modules of the command line
from ...model.values import Item
from .settings import Color, Format, SessionSettings
from .values import number_text, plain_item, write_json

# Rich takes as long to import as most commands run, so it is imported only to draw.
if TYPE_CHECKING:
    from .terminal import Terminal

Row: TypeAlias = Mapping[str, Any]  # JSON values, and Decimals


class Output:
    """The output of one command, in the format of the settings."""

    def __init__(self, settings: SessionSettings) -> None:
        self._settings = settings
        self._is_terminal = sys.stdout is not None and sys.stdout.isatty()
        is_terminal = settings.color is Color.ALWAYS or self._is_terminal
        self._format = settings.format or (Format.TABLE if is_terminal else Format.JSONL)
        self.draws = is_terminal and settings.format is None
        """Whether the output is a terminal and -o is not given. Lines may then have colours."""
        self._header: list[str] = []  # the header of the CSV
        self._has_document = False  # of YAML
        if self._format is Format.YAML:
            from .yaml_format import write_yaml  # fails without its library, before the command writes

            self._write_yaml = write_yaml

    @cached_property
    def stderr(self) -> "Terminal":
        """Return the console that draws progress."""
        return _console(self._settings.color, stderr=True)

    @cached_property
    def _stdout(self) -> "Terminal":
        return _console(self._settings.color, stderr=False)

    def items(self, items: Iterable[Item], *, first: Sequence[str] = ()) -> int:
        """Write items, plain or --typed, and return their number. `first` are the first columns."""
        if self._settings.typed:
            return self.rows(items, first=first)
        return self.rows((plain_item(item) for item in items), first=first)

    def item(self, item: Item) -> None:
        self.row(item if self._settings.typed else plain_item(item))

    def rows(self, rows: Iterable[Row], *, first: Sequence[str] = ()) -> int:
        """Write rows, which may have different members, and return their number.

        JSON Lines and raw lines are written one by one, other formats at the end. A CSV without rows has a header of
        the columns in `first`.
        """
        match self._format:
            case Format.JSONL:
                return self._lines(write_json(row) for row in rows)
            case Format.RAW:
                return self._lines("\t".join(map(cell, row.values())) for row in rows)
        complete = list(rows)
        self._begin()
        match self._format:
            case Format.JSON:
                echo(write_json(complete, indent=True))
            case Format.YAML:
                self._yaml(complete)
            case Format.CSV:
                names = columns(complete, first)
                echo(_csv(complete, names, has_header=names != self._header), nl=False)
                self._header = names
            case Format.TABLE:
                self._table(complete, columns(complete, first))
        return len(complete)

    def row(self, row: Row) -> None:
        """Write a single row: one line for each member as a table, an object and not a list as JSON."""
        match self._format:
            case Format.JSON:
                self._begin()
                echo(write_json(row, indent=True))
            case Format.YAML:
                self._begin()
                self._yaml(row)
            case Format.TABLE:
                self._begin()
                self._block(row)
            case _:
                self.rows([row])

    def plan(self, change: Row) -> None:
        """Write the change that a command would make, for --dry-run."""
        self.row(change)
        self.say("dry run: nothing was changed")

    def line(self, text: str) -> None:
        """Write a line of data. Its colours are removed if stdout is not a terminal."""
        self._begin()
        colours = {Color.ALWAYS: True, Color.NEVER: False}.get(self._settings.color)
        echo(text, color=colours)

    def clear(self) -> None:
        """Clear the terminal, before data that replaces the previous data."""
        echo("\x1b[H\x1b[2J", nl=False)

    def say(self, text: str) -> None:
        """Write a message to stderr, unless -q is given."""
        if not self._settings.quiet:
            echo(text, err=True)

    def warn(self, text: str) -> None:
        """Write a warning to stderr, also with -q."""
        echo(text, err=True)

    def _begin(self) -> None:
        """Erase the progress bar before data is written to the same terminal."""
        if self._is_terminal and "stderr" in self.__dict__:  # the console exists, so a bar may
            self.stderr.clear_bar()

    def _lines(self, lines: Iterable[str]) -> int:
        count = 0
        for line in lines:
            self._begin()
            echo(line)
            count += 1
        return count

    def _yaml(self, value: Any) -> None:
        if self._has_document:
            echo("---")
        echo(self._write_yaml(value), nl=False)
        self._has_document = True

    def _table(self, rows: Sequence[Row], names: Sequence[str]) -> None:
        """Draw one line for each row if the terminal is wide enough, else one block."""
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


# The least width of a column that wraps its text.
_READABLE_WIDTH = 16


def _width(name: str, rows: Sequence[Row]) -> int:
    return max(len(name), *(min(_READABLE_WIDTH, len(cell(row[name]))) for row in rows if name in row), 0)


def columns(rows: Sequence[Row], first: Sequence[str]) -> list[str]:
    """Return the names of all members: `first`, and the others in the order of their appearance."""
    return list(dict.fromkeys(itertools.chain(first, *rows)))


# Control codes, without the harmless tab and line feed.
_CONTROLS = {code: f"\\u{code:04x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in (9, 10)}


def visible(text: str) -> str:
    """Escape the control codes of a terminal, because other users write items."""
    return text.translate(_CONTROLS)


def cell(value: Any) -> str:
    """Return a value as text: strings without quotes, numbers with all digits, others as JSON."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if _is_number(value):
        return number_text(value) if isinstance(value, Decimal) else str(value)
    return write_json(value)


def whole_or_half(units: Decimal | int) -> Decimal | int:
    """Return capacity units as an integer if they have no half."""
    return int(units) if units == int(units) else units


def units_text(units: Decimal | int) -> str:
    """Return capacity units without a zero fraction. They are multiples of a half.

    >>> units_text(Decimal("1.0")), units_text(Decimal("1000.5"))
    ('1', '1,000.5')
    """
    return f"{int(units):,}" if units == int(units) else f"{units:,.1f}"


def counted(count: int, noun: str) -> str:
    """Return a count and a noun, in the plural if needed.

    >>> counted(1, "item"), counted(1200, "item")
    ('1 item', '1,200 items')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


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
