"""`foldb query`: print the items with one partition key."""

import re
from typing import Annotated

import typer

from ..lib.errors import ExitCode
from ..lib.key_arguments import KeyArguments
from ..lib.literals import Lifted
from ..lib.options import (
    All,
    Consistent,
    FailEmpty,
    IndexOption,
    LimitOption,
    NamesOption,
    Select,
    StartOption,
    TableArgument,
    ValuesOption,
    Where,
)
from ..lib.read_requests import Reading, key_condition, read_request
from ..lib.session import Session


def query(
    ctx: typer.Context,
    table: TableArgument,
    partition: Annotated[list[str], typer.Argument(metavar="PK...", help="The value of the partition key.")],
    sort: Annotated[
        str | None,
        typer.Option(
            "--sk",
            metavar="'>= X'",
            help="Read only these sort keys: =, <, <=, >, >=, begins_with X, between X and Y.",
        ),
    ] = None,
    index: IndexOption = None,
    where: Where = None,
    select: Select = None,
    values: ValuesOption = None,
    names: NamesOption = None,
    descending: Annotated[bool, typer.Option("--desc", help="Read in descending order.")] = False,
    consistent: Consistent = False,
    limit: LimitOption = None,
    everything: All = False,
    start: StartOption = None,
    fail_empty: FailEmpty = False,
) -> None:
    """Example: foldb query Reply 'Amazon DynamoDB#Thread 1' --sk '>= 2026-01' --desc --limit 10"""
    session: Session = ctx.obj
    shape = session.shape(table)
    lifted = Lifted(names or [], values or [])
    body = read_request(
        table,
        lifted,
        index=index,
        where=where,
        select=select,
        consistent=consistent,
        start=start,
        is_typed=session.settings.typed,
    )
    body["KeyConditionExpression"] = key_condition(shape, index, partition, sort, lifted)
    body["ScanIndexForward"] = not descending
    reading = Reading(session.client, "Query", body | lifted.body(), limit, everything)
    show(session, reading, columns(shape, index, select), fail_empty)


def columns(shape: KeyArguments, index: str | None, select: str | None) -> list[str]:
    """Return the first columns of a table: the selected attributes, or the keys of the index and of the table."""
    if select is None:
        return shape.columns(index)
    return list(dict.fromkeys(re.split(r"[.\[]", path.strip())[0] for path in select.split(",")))


def show(session: Session, reading: Reading, first: list[str], fail_empty: bool) -> None:
    """Print the items, or their count, and the footer."""
    if reading.body.get("Select") == "COUNT":
        for _ in reading.answers():
            pass
        session.output.row({"count": reading.count})
    else:
        session.output.items(reading.items(), first=first)
    session.read_footer(reading.count, reading.units, more=reading.more(session.settings))
    if fail_empty and not reading.count:
        raise typer.Exit(ExitCode.DIFFERENT)
