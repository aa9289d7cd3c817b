"""CapacityPartitions: the maps of a table and its global indexes, which every node has, now or at a cut.

{"TableName", "AsOf"?}    ──►  {"Partitions": [{"IndexName": null, "Id", "Low", "High", "Parent", "Reason", "BornMs"}]}

A map is part of the definition of its table, so the map at a cut is that of the definition at the cut.
"""

from collections.abc import Iterator
from typing import Any

from ....model.capacity_partitions import Boundary
from ....model.errors import ValidationError
from ....model.partition_splits import parts_of
from ....model.tables import TableDefinition, name_of
from ....model.throughput import partition_map
from ...auth.rights import Demand, Past, Right
from ...database import Database
from ..operation import admin_operation
from ..reply import Caller
from ..restores import present_time
from .history import resolve_cut


def _demands(body: dict[str, Any]) -> Iterator[Demand]:
    name = str(body.get("TableName"))
    if "AsOf" in body:
        yield "foldb:ReadHistory", Past.READ, name
    else:
        yield "foldb:CapacityPartitions", Right.READ, name


@admin_operation("CapacityPartitions", _demands)
async def capacity_partitions(database: Database, body: dict[str, Any], _: Caller) -> dict[str, Any]:
    """List the partitions of the table and of each global index, in the order of their keys."""
    definition = await _definition(database, body)
    return {
        "Partitions": [
            {
                "IndexName": None if part is definition else part.name,
                "Id": each.id,
                "Low": _written(each.low),
                "High": _written(each.high),
                "Parent": each.parent,
                "Reason": each.reason,
                "BornMs": each.born_ms,
            }
            for part in parts_of(definition)
            for each in partition_map(definition, part).partitions
        ]
    }


async def _definition(database: Database, body: dict[str, Any]) -> TableDefinition:
    """Return the definition of the table, at the cut of the request if it has one.

    Raises:
        ValidationError: TableName is not a string, or AsOf is not a cut of this log.
        ResourceNotFoundError: The table does not exist, or did not at the cut.
    """
    name, as_of = body.get("TableName"), body.get("AsOf")
    if not isinstance(name, str):
        raise ValidationError("TableName must be the name of a table")
    if as_of is None:
        return database.table_in_any_status(name).definition
    if not isinstance(as_of, str):
        raise ValidationError("AsOf must be a cut: a position, a time or an age, such as -1h")
    name = name_of(name)
    cut = await resolve_cut(database, as_of, [name], await present_time(database))
    return cut.table(name)


def _written(boundary: Boundary) -> dict[str, str]:
    """Return a boundary with its hash in 16 digits; the one above all keys has none."""
    return boundary.to_json() if boundary.hash < 1 << 64 else {"hash": "end"}
