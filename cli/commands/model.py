"""`foldb model`: the kinds of items in a table, by the patterns of their keys."""

from typing import Annotated

import typer

from ...model.limits import limits_named
from ...model.values import item_size
from ..lib.item_kinds import ItemKinds, in_words
from ..lib.key_arguments import KeyArguments
from ..lib.options import AsOf, TableArgument, name_as_of
from ..lib.progress import progress
from ..lib.read_requests import Reading
from ..lib.session import Session

_COLUMNS = ("kind", "items", "share", "bytes", "average", "collections")


def model(
    session: Session,
    table: TableArgument,
    separator: Annotated[
        str, typer.Option("--separator", metavar="TEXT", help="The text between the parts of a key.")
    ] = "#",
    by: Annotated[
        str | None,
        typer.Option("--by", metavar="NAME", help="Name the kinds by this attribute, such as `type`."),
    ] = None,
    sample: Annotated[
        int, typer.Option("--sample", min=1, help="Read the first N items in the order of a scan.")
    ] = 10_000,
    everything: Annotated[
        bool, typer.Option("--all", help="Read all items, with the table in memory.")
    ] = False,
    as_of: AsOf = None,
) -> None:
    """A table may hold several kinds of items, whose keys begin with a word: USER#ada, ORDER#2026-11-23.

    Each kind has its items, bytes and item collections, its attributes with their types and the share of items that
    have them, and the indexes that hold its items, with the patterns of their keys there. The order of a scan is that
    of hashes, so the first items are a random sample of partition keys.

    Example: foldb model Music
    """
    name = name_as_of(table, as_of)
    shape = session.shape(name)
    limits = limits_named(session.limits)
    kinds = ItemKinds(_keys(shape), separator, by)
    body = {"TableName": name, "ReturnConsumedCapacity": "TOTAL"}
    reading = Reading(session.client, "Scan", body, None if everything else sample, everything=everything)
    total = shape.description["ItemCount"]
    with progress(session.settings, session.output.stderr, table, total if everything else None) as advance:
        for item in reading.items():
            kinds.add(item, item_size(item, limits))
            advance(1)
    rows = kinds.rows(shape.key_names()[0])
    session.output.rows(map(in_words, rows) if session.output.draws else rows, first=_COLUMNS)
    rest = f"of {total:,}; more: --all, or --sample N" if reading.last is not None else ""
    session.read_footer(reading.count, reading.units, more=rest)


def _keys(shape: KeyArguments) -> dict[str, dict[str, str]]:
    """Return the key attributes and their types, of the table under "" and of each index under its name."""
    types = {
        each["AttributeName"]: each["AttributeType"] for each in shape.description["AttributeDefinitions"]
    }
    names = {"": shape.key_names()} | {
        index["IndexName"]: shape.key_names(index["IndexName"]) for index in shape.indexes
    }
    return {index: {name: types[name] for name in each} for index, each in names.items()}
