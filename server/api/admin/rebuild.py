"""Rebuild: a table, or one index of it, made anew from the log, in its place; `rebuilding.py` does it.

{"TableName"}                 begins, and answers as the last line does
{"TableName", "IndexName"}    the same for one index
{"TableName", "Id"}           asks how far it is; the last answer has the comparison
"""

from typing import Any

from ....materializer.fold.state import Table
from ....model.errors import ResourceNotFoundError, ValidationError
from ....model.slots import data_partitions
from ...node import Node
from ...partitions.rebuild_job import RebuildJob
from ..reply import Reply


def rebuild(node: Node, body: dict[str, Any], reply: Reply) -> None:
    """Begin a rebuild, or tell of the one under way."""
    name, index, number = body.get("TableName"), body.get("IndexName"), body.get("Id")
    if not isinstance(name, str) or not isinstance(index, str | None) or not isinstance(number, int | None):
        raise ValidationError("Rebuild takes a TableName, an IndexName, and the Id that an answer gave")
    job = node.rebuilding
    if number is None:
        if job is not None and not job.finished:
            raise ValidationError(f"The table {job.name} is being rebuilt: one at a time")
        table = node.table_in_any_status(name)
        _check(table, index)
        number = 1 if job is None else job.number + 1
        wanted, hosted = data_partitions(node.partitions.count), node.partitions.hosted
        if not all(partition in hosted for partition in wanted):
            raise ValidationError(
                "A table is rebuilt by a node that has all of it: other nodes own parts of this one"
            )
        parts = [hosted[partition] for partition in wanted]
        job = RebuildJob(parts, node.log, node.loop, table.definition, number, index)
        node.rebuilding = job
        job.go_on()
    elif job is None or job.number != number or job.name != name:
        raise ValidationError(f"No rebuild {number} of the table {name} is known")
    job.tell(reply)


def _check(table: Table, index: str | None) -> None:
    if index is not None and index not in table.indexes:
        raise ResourceNotFoundError(f"The table {table.definition.name} has no index {index}")
