"""`foldb rebuild`: make a table or an index from the log again, in place."""

from typing import Annotated

import typer

from ..lib.completion import complete_indexes
from ..lib.errors import ExitCode
from ..lib.options import TableArgument
from ..lib.output import counted
from ..lib.progress import progress
from ..lib.session import Session


def rebuild(
    session: Session,
    table: TableArgument,
    index: Annotated[
        str | None,
        typer.Option(
            "--index",
            metavar="NAME",
            help="Rebuild this index, not the table.",
            autocompletion=complete_indexes,
        ),
    ] = None,
) -> None:
    """The server continues to serve requests. With --index only the index is compared and replaced. If there was a
    difference the exit code is 1. `foldb restore` copies a past state.

    Example: foldb rebuild Orders
    """
    name = table if index is None else f"{table}.{index}"
    request = {"TableName": table} | ({} if index is None else {"IndexName": index})
    answer = session.client.admin("Rebuild", request)
    with progress(session.settings, session.output.stderr, name, answer["End"]) as advance:
        folded = 0
        while answer["Status"] == "RUNNING":
            advance(answer["Folded"] - folded)
            folded = answer["Folded"]
            answer = session.client.admin("Rebuild", {"TableName": table, "Id": answer["Id"]})
    named = {"table": table} | ({} if index is None else {"index": index})
    position, items, same = answer["Position"], answer["Items"], answer["Same"]
    session.output.row(named | {"position": position, "items": items, "same": same})
    if not same:
        nodes = sorted({f" on node {each['Node']}" for each in answer.get("Differing", ()) if "Node" in each})
        where = " and".join(nodes)
        session.output.warn(f"{name} differed from its log{where} and was replaced, as of @{position}")
        raise typer.Exit(ExitCode.DIFFERENT)
    session.output.say(f"{name}: rebuilt to @{position} · {counted(items, 'item')} · no difference")
