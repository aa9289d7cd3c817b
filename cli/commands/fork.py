"""`foldb fork`: copy a table as it is or was."""

from typing import Annotated

import typer

from ..lib.options import AsOf, TableArgument
from ..lib.output import counted
from ..lib.session import Session
from ..lib.table_status import until_settled

_A_DAY_MS = 24 * 60 * 60 * 1000

NewTable = Annotated[str, typer.Argument(metavar="NEW", help="The name of the new table.")]


def fork(
    session: Session,
    table: TableArgument,
    new: NewTable,
    as_of: AsOf = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until all items are copied.")] = True,
) -> None:
    """The new table has the keys, indexes, capacity and encryption of the table, and no stream, time to live, tags and
    deletion protection. The server copies the items. `foldb table describe NEW` prints the lineage as RestoreSummary.

    Example: foldb fork Music MusicTest --as-of -1h
    """
    copy(session, "Fork", table, new, as_of, wait=wait)


def copy(
    session: Session, operation: str, table: str, new: str, as_of: str | None, *, wait: bool = True
) -> None:
    """Copy the items of a table at a cut into a new table, and print the result."""
    body = {"TableName": table, "TargetTableName": new} | ({} if as_of is None else {"AsOf": as_of})
    description = session.client.admin(operation, body)["TableDescription"]
    if wait:
        report(session, new, {} if as_of is None else {"as_of": as_of})
    else:
        session.output.say(f"{new}: {description['TableStatus']}")


def report(session: Session, new: str, origin: dict[str, str]) -> None:
    """Wait until a restored table has all items, and print their number, their source and its `origin`."""
    until_settled(session, new, _A_DAY_MS)
    description = session.shape(new).description
    source = description["RestoreSummary"]["SourceTableArn"].rpartition("/")[2]
    items = description["ItemCount"]
    session.output.row({"table": new, "from": source, **origin, "items": items})
    session.output.say(f"{new}: {counted(items, 'item')} of {source}")
