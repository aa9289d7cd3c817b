"""`foldb count`: count the items of a table, of an index, or of one partition key."""

from dataclasses import replace
from typing import Annotated

import typer

from ...model.lazy_dataclass import dataclass
from ..lib.options import (
    AsOf,
    Consistent,
    IndexOption,
    Placeholders,
    ReadOptions,
    SortOption,
    TableArgument,
    Texts,
    name_as_of,
)
from ..lib.output import whole_or_half
from ..lib.read_requests import Reading, key_condition, read_request
from ..lib.session import Session

Where = Annotated[
    str | None, typer.Option("--where", metavar="CONDITION", help="Count only items for which this is true.")
]


@dataclass(frozen=True, slots=True)
class CountOptions:
    """The items that are counted."""

    index: IndexOption = None
    where: Where = None
    consistent: Consistent = False


def count(
    session: Session,
    table: TableArgument,
    partition: Annotated[
        Texts,
        typer.Argument(metavar="[PK]...", show_default=False, help="Count the items of one partition key."),
    ] = None,
    sorts: SortOption = None,
    as_of: AsOf = None,
    *,
    counted: CountOptions,
    placeholders: Placeholders,
) -> None:
    """The command reads all pages, with a Query if a partition key is given and else a Scan, and prints their units.

    `count` are the items that --where selects, and `scanned` those that were read for it.

    Example: foldb count ProductCatalog --where 'Price > 100'
    """
    name = name_as_of(table, as_of)
    index = counted.index
    options = ReadOptions(index=index, where=counted.where, consistent=counted.consistent)
    lifted = placeholders.lifted()
    body = read_request(name, replace(options, select="count"), lifted, is_typed=False)
    if partition or sorts:
        body["KeyConditionExpression"] = key_condition(
            session.shape(name), index, partition or [], sorts, lifted
        )
    operation = "Query" if partition or sorts else "Scan"
    reading = Reading(session.client, operation, body | lifted.body(), everything=True)
    for _ in reading.answers():
        pass
    figures = {"count": reading.count, "scanned": reading.scanned, "rcu": whole_or_half(reading.units)}
    session.output.row({"table": table} | ({} if index is None else {"index": index}) | figures)
    session.read_footer(reading.count, reading.units)
