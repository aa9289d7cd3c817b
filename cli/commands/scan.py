"""`foldb scan`: print every item of a table or index."""

from typing import Annotated

import typer

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
from ..lib.progress import progress
from ..lib.read_requests import ParallelScan, Reading, read_request
from ..lib.session import Session
from .query import columns, show


def scan(
    ctx: typer.Context,
    table: TableArgument,
    index: IndexOption = None,
    where: Where = None,
    select: Select = None,
    values: ValuesOption = None,
    names: NamesOption = None,
    consistent: Consistent = False,
    limit: LimitOption = None,
    everything: All = False,
    start: StartOption = None,
    segments: Annotated[
        int | None,
        typer.Option(min=1, max=64, help="Read the whole table in N segments in parallel, like --all."),
    ] = None,
    fail_empty: FailEmpty = False,
) -> None:
    """Example: foldb scan ProductCatalog --where "Price < 150 AND ProductCategory = 'Bike'" """
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
    body |= lifted.body()
    bar_total = shape.description["ItemCount"] if index is None and (everything or segments) else None
    with progress(session.settings, session.output.stderr, table, bar_total) as advance:
        if segments is None:
            reading = Reading(session.client, "Scan", body, limit, everything, advance=advance)
        else:
            reading = ParallelScan(session.client, "Scan", body, advance=advance, segments=segments)
        show(session, reading, columns(shape, index, select), fail_empty)
