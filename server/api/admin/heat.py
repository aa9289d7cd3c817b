"""Heat: the traffic of tables and global indexes by key range and time, and their heaviest keys, over all nodes.

{"TableName"?, "BucketMs"?, "Buckets"?, "Limit"?}  ──►  {"Time", "HalfLifeMs", "BucketMs", "Parts", "Unreachable"}

A part is a table, or an index of it: {"TableName", "IndexName"?, "Provisioned", "CapacityPartitions", "Splits",
"Reads", "Writes", "Throttles"}. A layer is {"Total", "Error", "Keys": [{"Key", "Count", "Slot"}], "Buckets": [{"Time",
"Rows"}]}. Counts are units, and of throttles the refused requests.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from ....materializer.fold.state import Table
from ....model import service
from ....model.errors import ValidationError
from ....model.key_schema import KeySchema
from ....model.keys import slot
from ....model.tables import IndexDefinition, TableDefinition
from ....model.throughput import partition_map
from ...auth.rights import EVERYTHING, Right
from ...cluster.link import PeerAddress, address_text
from ...node import Node
from ...throttling.meters import Access, rates_of
from ...usage.cluster_heat import heat_of_nodes
from ...usage.heat import OWN
from ...usage.sketch import BUCKETS_MS, COLUMNS, HALF_LIFE_MS, Layer, LayerSketch, Sketch
from ..operation import admin_operation
from ..reply import Caller

_KEYS: Final = 10
_KEYS_MAX: Final = 1000

Part: TypeAlias = TableDefinition | IndexDefinition


@admin_operation("Heat", lambda body: [("foldb:Heat", Right.READ, str(body.get("TableName", EVERYTHING)))])
async def heat(node: Node, body: dict[str, Any], _: Caller) -> dict[str, Any]:
    """Merge the sketches of all nodes, of one table or of all that are measured."""
    bucket_ms = body.get("BucketMs", BUCKETS_MS[0])
    buckets = _integer(body, "Buckets", COLUMNS, COLUMNS)
    limit = _integer(body, "Limit", _KEYS, _KEYS_MAX)
    if bucket_ms not in BUCKETS_MS:
        raise ValidationError(f"BucketMs must be one of {', '.join(map(str, BUCKETS_MS))}")
    node.heat.settle(node.usage)
    definitions = [table.definition for table in _tables(node, body)]
    table_ids = [definition.id for definition in definitions]
    if node.cluster is None:
        found = [[node.heat.encode(table_id) for table_id in table_ids]]
        unreachable = list[PeerAddress]()
    else:
        found, unreachable = await heat_of_nodes(node.cluster, table_ids)
    now_ms = node.clock()
    since = now_ms // bucket_ms - buckets
    parts = []
    for nth, definition in enumerate(definitions):
        for name, part in _parts(definition).items():
            encoded = [tables[nth][name] for tables in found if name in tables[nth]]
            if encoded:
                sketch = Sketch(part.id, node.clock)
                for each in encoded:
                    sketch.merge(each)
                layers = {
                    layer.value: _layer(layer, each, part.key, (bucket_ms, since, limit))
                    for layer, each in sketch.layers.items()
                }
                parts.append(_described(node, definition, part) | layers)
    return {
        "Time": now_ms,
        "HalfLifeMs": HALF_LIFE_MS,
        "BucketMs": bucket_ms,
        "Parts": parts,
        "Unreachable": [address_text(each) for each in unreachable],
    }


def _integer(body: Mapping[str, Any], member: str, default: int, maximum: int) -> int:
    value = body.get(member, default)
    if not isinstance(value, int) or not 1 <= value <= maximum:
        raise ValidationError(f"{member} must be an integer from 1 to {maximum}")
    return value


def _tables(node: Node, body: dict[str, Any]) -> list[Table]:
    """Return the table of the request, or all tables that are measured.

    Raises:
        ResourceNotFoundError: The table does not exist.
        ValidationError: The table is not measured.
    """
    if "TableName" not in body:
        names = sorted(node.state.names.items())
        return [node.state.tables[table_id] for _, table_id in names if table_id in node.heat.tables]
    service.validate("DescribeTable", {"TableName": body["TableName"]})
    table = node.table_in_any_status(body["TableName"])
    if table.definition.id not in node.heat.tables:
        raise ValidationError(
            f"The heat of {table.definition.name} is not measured: enable Contributor Insights for the table or an "
            "index of it, or start the server with --heat"
        )
    return [table]


def _parts(definition: TableDefinition) -> dict[str, Part]:
    """Return the table and its global indexes, by the name of the index."""
    parts: dict[str, Part] = {OWN: definition}
    parts |= {index.name: index for index in definition.gsis}
    return parts


def _described(node: Node, definition: TableDefinition, part: Part) -> dict[str, Any]:
    reads, writes = (rates_of(definition, part, access, node.state.limits) for access in Access)
    described: dict[str, Any] = {"TableName": definition.name}
    if isinstance(part, IndexDefinition):
        described["IndexName"] = part.name
    is_provisioned = reads.provisioned is not None and writes.provisioned is not None
    described["Provisioned"] = (
        {"Reads": part.throughput.read, "Writes": part.throughput.write} if is_provisioned else None
    )
    present = partition_map(definition, part)
    described["CapacityPartitions"] = [{"Slot": slot(each.low.hash)} for each in present.partitions]
    described["Splits"] = [
        {"Slot": slot(each.boundary.hash), "Time": each.time_ms, "Reason": each.reason}
        for each in present.splits
    ]
    return described


def _layer(
    layer: Layer, sketch: LayerSketch, schema: KeySchema, shown: tuple[int, int, int]
) -> dict[str, Any]:
    """Return a layer: the newest time buckets and the heaviest keys."""
    bucket_ms, since, limit = shown
    is_halved = layer is not Layer.THROTTLES
    [grid] = [each for each in sketch.grids if each.bucket_ms == bucket_ms]
    partition_key = KeySchema(schema.partition)
    return {
        "Total": _count(sketch.keys.total, is_halved),
        "Error": _count(sketch.keys.error, is_halved),
        "Keys": [
            {
                "Key": partition_key.decode(pk, b""),
                "Count": _count(count, is_halved),
                "Slot": sketch.slot_of(pk),
            }
            for pk, count in sketch.keys.heaviest(limit)
        ],
        "Buckets": [
            {"Time": bucket * bucket_ms, "Rows": [_count(each, is_halved) for each in column]}
            for bucket, column in sorted(grid.cells.items())
            if bucket > since
        ],
    }


def _count(value: int, is_halved: bool) -> int | float:
    """Return units for half units, without a fraction if there is none."""
    if not is_halved:
        return value
    return value / 2 if value % 2 else value // 2
