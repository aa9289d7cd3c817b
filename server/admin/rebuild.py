"""Rebuild: a table made anew from the log, in its place; `rebuilding.py` does it.

{"TableName"}            begins, and answers as the next line does
{"TableName", "Id"}      asks how far it is; the last answer has the comparison
"""

from typing import Any

from ...model.errors import ValidationError
from ..node import Node
from ..rebuilding import RebuildJob
from ..reply import Reply


def rebuild(node: Node, body: dict[str, Any], reply: Reply) -> None:
    """Begin a rebuild, or tell of the one under way."""
    name, number = body.get("TableName"), body.get("Id")
    if not isinstance(name, str) or not isinstance(number, int | None):
        raise ValidationError("Rebuild takes a TableName, and the Id that an answer gave")
    job = node.rebuilding
    if number is None:
        if job is not None and not job.finished:
            raise ValidationError(f"The table {job.name} is being rebuilt: one at a time")
        node.table_in_any_status(name)
        job = RebuildJob(node.worker, node.log, node.loop, name, 1 if job is None else job.number + 1)
        node.rebuilding = job
        job.go_on()
    elif job is None or job.number != number or job.name != name:
        raise ValidationError(f"No rebuild {number} of the table {name} is known")
    job.tell(reply)
