"""CapacityPartitions: the maps of a table and its global indexes, which every node has.

{"TableName"}    ──►  {"Partitions": [{"IndexName": null, "Id", "Low", "High", "Parent", "Reason", "BornMs"}, ...]}
"""

from typing import Any

from ....model.capacity_partitions import Boundary
from ....model.errors import ValidationError
from ....model.partition_splits import parts_of
from ....model.throughput import partition_map
from ...auth.rights import Right
from ...database import Database
from ..operation import admin_operation
from ..reply import Caller


@admin_operation("CapacityPartitions", Right.READ)
async def capacity_partitions(database: Database, body: dict[str, Any], _: Caller) -> dict[str, Any]:
    """List the partitions of the table and of each global index, in the order of their keys."""
    name = body.get("TableName")
    if not isinstance(name, str):
        raise ValidationError("TableName must be the name of a table")
    definition = database.table_in_any_status(name).definition
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


def _written(boundary: Boundary) -> dict[str, str]:
    """Return a boundary with its hash in 16 digits; the one above all keys has none."""
    return boundary.to_json() if boundary.hash < 1 << 64 else {"hash": "end"}
