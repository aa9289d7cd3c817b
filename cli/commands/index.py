"""`foldb index`: the indexes of tables."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from ..lib.command_group import CommandGroup
from ..lib.output import Row
from ..lib.session import Session
from ..lib.table_status import names

app = CommandGroup()

_COLUMNS = ("table", "index", "kind", "status", "key", "projection", "items", "bytes")
_ROLES = ("HASH", "RANGE")


@app.command()
def status(
    session: Session,
    table: Annotated[
        str | None, typer.Argument(metavar="[TABLE]", show_default="all tables", help="The table.")
    ] = None,
) -> None:
    """Print the state, the key, the entries and the bytes of each index.

    `filled` is how much of the table a new global index has read, in percent of the key space. The index cannot be read
    before it is ACTIVE.

    Example: foldb index status Music
    """
    tables = names(session) if table is None else [table]
    session.output.rows((row for name in tables for row in _rows(session, name)), first=_COLUMNS)


def _rows(session: Session, table: str) -> Iterator[Row]:
    shape = session.shape(table)
    filled: dict[str, int] = {}
    if any(index.get("Backfilling") for index in shape.indexes):
        filled = session.client.admin("IndexProgress", {"TableName": table})["FilledPercent"]
    for index in shape.indexes:
        row: dict[str, Any] = {
            "table": table,
            "index": index["IndexName"],
            "kind": "global" if "IndexStatus" in index else "local",
            "status": index.get("IndexStatus", shape.description["TableStatus"]),
            "key": _key(shape.description, index),
            "projection": index["Projection"]["ProjectionType"],
            "items": index["ItemCount"],
            "bytes": index["IndexSizeBytes"],
        }
        yield row | ({"filled": filled[index["IndexName"]]} if index["IndexName"] in filled else {})


def _key(description: dict[str, Any], index: dict[str, Any]) -> str:
    """Return the key of an index in the short notation: `Country:S+City:S,Year:N`."""
    types = {each["AttributeName"]: each["AttributeType"] for each in description["AttributeDefinitions"]}
    parts = (
        "+".join(
            f"{each['AttributeName']}:{types[each['AttributeName']]}"
            for each in index["KeySchema"]
            if each["KeyType"] == role
        )
        for role in _ROLES
    )
    return ",".join(part for part in parts if part)
