"""Completion of names in a shell, from the server: tables, indexes, triggers and cuts.

    foldb scan Mu<TAB> ──► complete_tables(ctx, "Mu") ──► ListTables, within a second ──► Music

A shell waits for the answer, so a request has a time limit, and a failure completes nothing and prints nothing: the
command itself reports it. A folder without a running server is not opened, because that would lock it.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

import typer

# The modules of the client are imported while a word is completed only.
if TYPE_CHECKING:
    from .client import Client

_TIMEOUT_S: Final = 1.0
_BACKUPS: Final = 20

_AGES: Final = (("-5m", "five minutes ago"), ("-1h", "an hour ago"), ("-1d", "a day ago"))


def complete_tables(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of tables, from the first page of ListTables."""
    return _matching(_ask(ctx, lambda client: client.call("ListTables", {})["TableNames"]), incomplete)


def complete_global_indexes(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the global indexes of the command's table."""
    return _matching(_ask(ctx, lambda client: _indexes(client, ctx, "GlobalSecondaryIndexes")), incomplete)


def complete_indexes(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the indexes of the command's table."""
    kinds = ("GlobalSecondaryIndexes", "LocalSecondaryIndexes")
    return _matching(_ask(ctx, lambda client: _indexes(client, ctx, *kinds)), incomplete)


def complete_triggers(ctx: typer.Context, incomplete: str) -> list[str]:
    def names(client: "Client") -> list[str]:
        return [each["Name"] for each in client.admin("ListSubscriptions")["Subscriptions"]]

    return _matching(_ask(ctx, names), incomplete)


def complete_backups(ctx: typer.Context, incomplete: str) -> list[str]:
    return _matching(_ask(ctx, lambda client: [each["BackupName"] for each in _backups(client)]), incomplete)


def complete_cuts(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return ages, the present position, the horizon, and the times of backups, each with a description."""
    found = [*_AGES, *_ask(ctx, lambda client: list(_cuts(client)))]
    return [(cut, text) for cut, text in found if cut.startswith(incomplete)]


def _cuts(client: "Client") -> Iterator[tuple[str, str]]:
    from ...model.durations import time_text

    status = client.admin("Status")
    yield status["Position"], f"now ({time_text(status['LogTime'])})"
    if status["Horizon"] is not None:
        yield status["Horizon"], "the history horizon"
    for each in _backups(client)[-_BACKUPS:]:
        time = time_text(int(each["BackupCreationDateTime"] * 1000))
        yield time, f"the backup {each['BackupName']} of {each['TableName']}"


def _backups(client: "Client") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.call("ListBackups", {})["BackupSummaries"]
    return found


def _indexes(client: "Client", ctx: typer.Context, *kinds: str) -> list[str]:
    """Return the indexes of the table that the words before name."""
    # At `query Music --index <TAB>` the parser stops at the option without a value: the arguments are in ctx.args.
    words = (ctx.params.get("table"), ctx.params.get("name"), *ctx.args)
    table = next((word for word in words if isinstance(word, str) and not word.startswith("-")), None)
    if table is None:
        return []
    description = client.call("DescribeTable", {"TableName": table})["Table"]
    return [index["IndexName"] for kind in kinds for index in description.get(kind, ())]


def _matching(names: list[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _ask(ctx: typer.Context, read: Callable[["Client"], list[Any]]) -> list[Any]:
    """Return the answer of the server that the flags name. [] if it has no answer within the time limit."""
    answers: list[list[Any]] = []

    def work() -> None:
        from .errors import CommandError
        from .session import Session
        from .settings import GlobalOptions

        given = ctx.find_root().params
        options = {each.name: given[each.name] for each in fields(GlobalOptions) if each.name in given}
        try:
            with closing(Session(GlobalOptions(**options).settings())) as session:
                if session.url is not None:
                    with closing(session.client.copy(_TIMEOUT_S)) as client:
                        answers.append(read(client))
        except (CommandError, OSError):
            return  # the command itself will report it

    # A daemon, because the server may send its answer slowly.
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(_TIMEOUT_S)
    return answers[0] if answers else []
