"""Partition: where a key lives.

{"TableName", "Key"}    the slot and the partition of a partition key, and who acts for that partition

The key need not have a sort key: items with one partition key live together.
"""

from typing import TYPE_CHECKING, Any

import orjson

from ....model import service
from ....model.errors import ValidationError
from ....model.key_schema import KEY_MISMATCH
from ....model.keys import key_hash, slot
from ....model.slots import partition_of
from ....model.values import check_item
from ..reply import Reply

if TYPE_CHECKING:
    from ...node import Node


def partition(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Answer what follows from the table's id, the key and the number of partitions, and who leads there now."""
    service.validate("GetItem", body)
    check_item(body["Key"], node.limits)
    definition = node.table(body["TableName"]).definition
    pk = definition.key.pk(body["Key"])
    if not pk:
        raise ValidationError(KEY_MISMATCH)
    place = slot(key_hash(definition.id, pk))
    number = partition_of(place, node.partitions.count)
    answer = {
        "TableName": definition.name,
        "Slot": place,
        "Partition": number,
        "Owner": _owner(node, number),
    }
    reply.ok(orjson.dumps(answer))


def _owner(node: "Node", number: int) -> str | None:
    """The address of the node that acts for a partition; of this server where it is alone."""
    if node.cluster is None:
        host, port = node.settings.host, node.settings.port
    elif node.cluster.table is None:
        return None
    else:
        host, port = node.cluster.table.routes[number].owner
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
