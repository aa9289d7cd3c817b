"""`foldb scan`: print every item of a table or index."""

from typing import Annotated

import typer

from ..lib.options import Placeholders, ReadOptions, TableArgument, name_as_of
from ..lib.progress import progress
from ..lib.read_requests import ParallelScan, Reading, read_request
from ..lib.session import Session
from .query import show


def scan(
    session: Session,
    table: TableArgument,
    segments: Annotated[
        int | None,
        typer.Option(min=1, max=64, help="Read the whole table in N segments in parallel, like --all."),
    ] = None,
    *,
    options: ReadOptions,
    placeholders: Placeholders,
) -> None:
    """Example: foldb scan ProductCatalog --where "Price < 150 AND ProductCategory = 'Bike'" """
    table = name_as_of(table, options.as_of)
    shape = session.shape(table)
    lifted = placeholders.lifted()
    body = read_request(table, options, lifted, is_typed=session.settings.typed) | lifted.body()
    reads_all = options.index is None and (options.everything or segments)
    bar_total = shape.description["ItemCount"] if reads_all else None
    with progress(session.settings, session.output.stderr, table, bar_total) as advance:
        if segments is None:
            reading = Reading(
                session.client, "Scan", body, options.limit, options.everything, advance=advance
            )
        else:
            reading = ParallelScan(session.client, "Scan", body, advance=advance, segments=segments)
        show(session, reading, shape, options)
