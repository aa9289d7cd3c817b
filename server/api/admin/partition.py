"""Partition: the slot, the partition, the owner and the capacity partition of a key.

{"TableName", "Key"}    ──►  {"TableName", "Slot", "Partition", "Owner": "host:port" or null, "CapacityPartition"}

The sort key may be left out: items with the same partition key are in the same partition. Without it the capacity
partition is that of the first of them.
"""

from typing import Any

from ....model import service
from ....model.errors import ValidationError
from ....model.key_schema import KEY_MISMATCH
from ....model.keys import key_hash, slot
from ....model.slots import partition_of
from ....model.throughput import partition_map
from ....model.values import check_item
from ...auth.rights import Right
from ...cluster.link import address_text
from ...node import Node
from ..operation import admin_operation
from ..reply import Caller


@admin_operation("Partition", Right.ADMIN)
async def partition(node: Node, body: dict[str, Any], _: Caller) -> dict[str, Any]:
    """Compute the slot and the partition from the table id, the key and the number of partitions."""
    service.validate("GetItem", body)
    check_item(body["Key"], node.state.limits)
    definition = node.state.usable_table(body["TableName"]).definition
    pk = definition.key.pk(body["Key"])
    if not pk:
        raise ValidationError(KEY_MISMATCH)
    hash_ = key_hash(definition.id, pk)
    key_slot = slot(hash_)
    partition_id = partition_of(key_slot, node.partitions.count)
    return {
        "TableName": definition.name,
        "Slot": key_slot,
        "Partition": partition_id,
        "Owner": _owner(node, partition_id),
        "CapacityPartition": partition_map(definition, definition)
        .of(hash_, pk, definition.key.sk(body["Key"]) or b"")
        .id,
    }


def _owner(node: Node, partition_id: int) -> str | None:
    """Return the address of the partition's owner: without a cluster, of this server; None before an assignment."""
    if node.cluster is None:
        return address_text((node.settings.host, node.settings.port))
    if node.cluster.table is None:
        return None
    return address_text(node.cluster.table.routes[partition_id].owner)
