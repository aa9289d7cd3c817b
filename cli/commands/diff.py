"""`foldb diff`: print the items that differ between two states of a table, or of two tables."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from ...model.cuts import SEPARATOR, split_name
from ..lib.differences import Pages, difference_row, difference_text
from ..lib.errors import CommandError, ExitCode
from ..lib.options import check_cut
from ..lib.output import counted
from ..lib.session import Session

_USAGE = "write `foldb diff TABLE CUT [CUT]`, or `foldb diff TABLE@CUT OTHER@CUT`"


def diff(
    session: Session,
    words: Annotated[
        list[str],
        typer.Argument(metavar="TABLE CUT [CUT]", help="A table and two cuts, or two tables as TABLE@CUT."),
    ],
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Print at most N items.")] = None,
) -> None:
    """A cut is a position (10482.3), a time (2026-11-20T12:00Z) or an age (-1h). Without a second cut it is now.

    Example: foldb diff Orders -1h
    """
    body = _request(words)
    pages = Pages(session.client, "TableDifferences", body)
    is_typed = session.settings.typed
    entries = pages.entries("Differences", limit)
    count = 0
    if session.output.draws:
        for count, entry in enumerate(entries, start=1):  # noqa: B007  the count is that of the footer
            session.output.line(difference_text(entry, is_typed=is_typed))
    else:
        count = session.output.rows(
            (difference_row(entry, is_typed=is_typed) for entry in entries), first=("kind", "key")
        )
    more = " · more: --limit" if "Next" in pages.answer else ""
    session.output.say(
        f"{counted(count, 'difference')} · from {pages.answer['From']} to {pages.answer['To']}{more}"
    )


def _request(words: Sequence[str]) -> dict[str, Any]:
    """Return the request of a command line.

    Raises:
        CommandError: The words are neither a table and its cuts nor two tables.
    """
    for word in words:
        if word.startswith("--"):
            raise CommandError(f"no such option: {word}. See `foldb diff --help`.", ExitCode.USAGE)
    if SEPARATOR in words[0]:
        if len(words) != 2:
            raise CommandError(_USAGE, ExitCode.USAGE)
        (table, since), (other, until) = map(split_name, words)
        body = {"TableName": table, "From": check_cut(since or ""), "OtherTable": other}
        return body if until is None else body | {"To": check_cut(until)}
    if len(words) not in (2, 3):
        raise CommandError(_USAGE, ExitCode.USAGE)
    table, since, *rest = words
    body = {"TableName": table, "From": check_cut(since)}
    return body | {"To": check_cut(rest[0])} if rest else body
