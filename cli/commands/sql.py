"""`foldb sql`: execute PartiQL statements."""

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer

from ...expressions.partiql import Select, column_label, parse
from ...expressions.partiql.tokens import NAME, tokenize
from ...model.cuts import SEPARATOR
from ...model.errors import ValidationError
from ...model.lazy_dataclass import dataclass
from ...model.limits import MODERN
from ...model.values import Item, Value
from ..lib.errors import CommandError, ExitCode
from ..lib.options import AsOf, Consistent, Texts
from ..lib.session import Session, consumed
from ..lib.values import read_json, typed

_HISTORY = Path(".foldb_history")  # in the home folder
_HISTORY_LENGTH = 1000
# A literal, a comment, the start of an open comment, or one character.
_PIECE = re.compile(r"""'[^']*'|"[^"]*"|--[^\n]*|/\*.*?\*/|/\*|.""", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Options:
    parameters: list[Value]
    limit: int | None
    consistent: bool
    as_of: str | None


def sql(
    session: Session,
    statement: Annotated[
        str | None,
        typer.Argument(metavar="[STATEMENT]", help="A statement; without it they are read from stdin."),
    ] = None,
    parameter: Annotated[
        Texts,
        typer.Option(
            "--parameter",
            "-p",
            metavar="VALUE",
            help="Set the value of the next `?`. Repeat the flag for more.",
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Read at most N items.")] = None,
    consistent: Consistent = False,
    as_of: AsOf = None,
) -> None:
    """A SELECT prints all its items, or `--limit` of them. A parameter is JSON; other text is a string.

    Without a statement, statements are read from stdin, each up to its `;`. A terminal gets a prompt: Ctrl-D ends it.

    Example: foldb sql "SELECT * FROM Music WHERE Artist = ?" -p Kyuss
    """
    is_typed = session.settings.typed
    parameters = [_parameter(text, is_typed=is_typed) for text in parameter or ()]
    options = _Options(parameters, limit, consistent, as_of)
    if statement is not None:
        _execute(session, statement, options)
        return
    is_prompt = sys.stdin is not None and sys.stdin.isatty()
    for text in _typed_statements() if is_prompt else _statements(sys.stdin or ()):
        try:
            _execute(session, text, options)
        except CommandError as error:
            if not is_prompt:
                raise
            session.output.warn(f"foldb: {error.sentence}")


def _parameter(text: str, *, is_typed: bool) -> Value:
    try:
        value = read_json(text, "--parameter")
    except CommandError:
        return {"S": text}
    if is_typed and isinstance(value, dict):
        return value
    return typed(value)


def _execute(session: Session, text: str, options: _Options) -> None:
    select = _select(text)
    if options.as_of is not None:
        text = _at_cut(text, options.as_of, is_select=select is not None)
    body: dict[str, Any] = {"Statement": text, "ReturnConsumedCapacity": "TOTAL"}
    if options.parameters:
        body["Parameters"] = options.parameters
    if options.consistent:
        body["ConsistentRead"] = True
    pages = _Pages(session, body, options.limit)
    session.output.items(pages.items(), first=_columns(session, select, options))
    if select is None:
        session.write_footer(1, pages.units, "statement")
    else:
        session.read_footer(pages.count, pages.units, more="more: a higher --limit" if pages.has_more else "")


def _select(text: str) -> Select | None:
    """Return a SELECT; None for other statements, and for a text that the server will refuse."""
    with suppress(ValidationError):
        kind = parse(text, MODERN).kind
        return kind if isinstance(kind, Select) else None
    return None


def _columns(session: Session, select: Select | None, options: _Options) -> list[str]:
    """Return the first columns of the output: those of the statement, or the keys of its table."""
    if select is None:
        return []
    if select.columns:
        return [column_label(column) for column in select.columns]
    table = select.table if options.as_of is None else f"{select.table}{SEPARATOR}{options.as_of}"
    with suppress(CommandError):  # the statement fails for the same reason, with its own error
        return session.shape(table).columns(select.index)
    return []


def _at_cut(text: str, cut: str, *, is_select: bool) -> str:
    """Return a SELECT with the cut behind the name of its table.

    Raises:
        CommandError: The statement is no SELECT.
    """
    if not is_select:
        raise CommandError("--as-of reads the past: use it with a SELECT", ExitCode.USAGE)
    tokens = tokenize(text)
    start = next(nth for nth, token in enumerate(tokens) if token.kind == NAME and token.word == "FROM") + 1
    table = tokens[start]
    lines = text.split("\n")
    line, column = lines[table.line - 1], table.column - 1
    lines[table.line - 1] = f'{line[:column]}"{table.text}{SEPARATOR}{cut}"{line[column + table.size :]}'
    return "\n".join(lines)


@dataclass(slots=True)
class _Pages:
    """The pages of a statement, and their totals."""

    session: Session
    body: dict[str, Any]
    limit: int | None
    count: int = 0
    units: Decimal = Decimal(0)
    has_more: bool = False

    def items(self) -> Iterator[Item]:
        """Yield the items, page by page. The totals are complete at the end."""
        while True:
            if self.limit is not None:
                self.body["Limit"] = self.limit - self.count
            answer = self.session.client.call("ExecuteStatement", self.body)
            self.units += consumed(answer)
            self.count += len(answer["Items"])
            yield from answer["Items"]
            token = answer.get("NextToken")
            if token is None:
                return
            if self.count == self.limit:
                self.has_more = True
                return
            self.body["NextToken"] = token


# Several statements


def _statements(lines: Iterable[str | None]) -> Iterator[str]:
    """Yield each statement of lines, without its semicolon. None in place of a line drops the unfinished statement."""
    text = ""
    for line in lines:
        text = "" if line is None else text + line
        while (end := _end(text)) is not None:
            if _has_token(text[:end]):
                yield text[:end]
            text = text[end + 1 :]
    if _has_token(text):
        yield text


def _has_token(text: str) -> bool:
    """Return whether a text has more than spaces and comments."""
    try:
        return len(tokenize(text)) > 1
    except ValidationError:
        return True


def _end(text: str) -> int | None:
    """Return the index of the first semicolon outside of literals and comments; None if there is none yet."""
    for match in _PIECE.finditer(text):
        if match[0] == ";":
            return match.start()
        if match[0] in ("'", '"', "/*"):
            return None  # the literal or the comment ends in a later line
    return None


def _typed_statements() -> Iterator[str]:
    """Yield the statements that are typed at a prompt, with line editing and a history."""
    import readline  # loading it changes how the terminal reads lines

    history = Path.home() / _HISTORY
    with suppress(OSError):
        readline.read_history_file(history)
    readline.set_history_length(_HISTORY_LENGTH)
    try:
        yield from _statements(_typed_lines())
    finally:
        with suppress(OSError):
            readline.write_history_file(history)
            history.chmod(0o600)


def _typed_lines() -> Iterator[str | None]:
    """Yield the lines of the prompt; None after a Ctrl-C, which drops the statement that is being typed."""
    while True:
        try:
            line = input("foldb> ")
        except KeyboardInterrupt:
            typer.echo("^C")
            yield None
        except EOFError:
            typer.echo()
            return
        else:
            yield f"{line}\n"
