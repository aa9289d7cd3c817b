"""Rebuild: a table, or one of its indexes, refolded from the log and installed in place of the live one.

{"TableName"}                 start a rebuild, and return its progress
{"TableName", "IndexName"}    the same for one index
{"TableName", "Id"}           return the progress; the last answer holds the comparison

In a cluster all nodes that fold a part of the table rebuild it, and the node that was asked adds up their progress.
"""

from typing import Any

from ....log.commands import Position
from ....model.errors import ValidationError
from ...auth.rights import Right
from ...node import Node
from ...routing import joined
from ..operation import admin_operation
from ..reply import Caller


@admin_operation("Rebuild", Right.ADMIN)
async def rebuild(node: Node, body: dict[str, Any], _: Caller) -> dict[str, Any]:
    """Start a rebuild, or return the progress of the running one."""
    name, index, job_id = body.get("TableName"), body.get("IndexName"), body.get("Id")
    if not isinstance(name, str) or not isinstance(index, str | None) or not isinstance(job_id, int | None):
        raise ValidationError("Rebuild takes a TableName, an IndexName, and the Id that an answer gave")
    if node.cluster_rebuilds is None:
        answer = await node.rebuild(body)
    elif job_id is None:
        answer = await node.cluster_rebuilds.start(name, index)
    else:
        answer = await node.cluster_rebuilds.progress(name, job_id)
    return answer if answer["Status"] == "RUNNING" else _result(answer, node.partitions.count)


def _result(answer: dict[str, Any], count: int) -> dict[str, Any]:
    """Return the answer of a rebuild that is done: position, items and comparison of the whole table."""
    parts = answer.pop("Parts")
    position = joined(Position(part["Partition"], part["Offset"]) for part in parts)
    items = {part["Partition"]: part["Items"] for part in parts}
    differing = [
        {"Partition": part["Partition"]} | ({"Node": part["Node"]} if "Node" in part else {})
        for part in parts
        if not part["Same"]
    ]
    answer |= {"Position": position.text(count), "Items": sum(items.values())}
    return answer | {"Same": not differing, "Differing": differing}
