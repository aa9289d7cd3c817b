"""`foldb query`: print the items with one partition key."""

import re
from typing import Annotated

import typer

from ..lib.errors import ExitCode
from ..lib.key_arguments import KeyArguments
from ..lib.options import (
    PartitionKeyWords,
    Placeholders,
    ReadOptions,
    SortOption,
    TableArgument,
    name_as_of,
)
from ..lib.read_requests import Reading, key_condition, read_request
from ..lib.session import Session


def query(
    session: Session,
    table: TableArgument,
    partition: PartitionKeyWords,
    sorts: SortOption = None,
    descending: Annotated[bool, typer.Option("--desc", help="Read in descending order.")] = False,
    *,
    options: ReadOptions,
    placeholders: Placeholders,
) -> None:
    """Example: foldb query Reply 'Amazon DynamoDB#Thread 1' --sk '>= 2026-01' --desc --limit 10"""
    table = name_as_of(table, options.as_of)
    shape = session.shape(table)
    lifted = placeholders.lifted()
    body = read_request(table, options, lifted, is_typed=session.settings.typed)
    body["KeyConditionExpression"] = key_condition(shape, options.index, partition, sorts, lifted)
    body["ScanIndexForward"] = not descending
    reading = Reading(session.client, "Query", body | lifted.body(), options.limit, options.everything)
    show(session, reading, shape, options)


def show(session: Session, reading: Reading, shape: KeyArguments, options: ReadOptions) -> None:
    """Print the items, or their count, and the footer."""
    if reading.body.get("Select") == "COUNT":
        for _ in reading.answers():
            pass
        session.output.row({"count": reading.count})
    else:
        session.output.items(reading.items(), first=_columns(shape, options))
    session.read_footer(reading.count, reading.units, more=reading.more(session.settings))
    if options.fail_empty and not reading.count:
        raise typer.Exit(ExitCode.DIFFERENT)


def _columns(shape: KeyArguments, options: ReadOptions) -> list[str]:
    """Return the first columns of a table: the selected attributes, or the keys of the index and of the table."""
    if options.select is None:
        return shape.columns(options.index)
    return list(dict.fromkeys(re.split(r"[.\[]", path.strip())[0] for path in options.select.split(",")))
