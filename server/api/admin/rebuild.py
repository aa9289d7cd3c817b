"""Rebuild: a table, or one of its indexes, refolded from the log and installed in place of the live one.

{"TableName"}                 start a rebuild, and return its progress
{"TableName", "IndexName"}    the same for one index
{"TableName", "Id"}           return the progress; the last answer holds the comparison
"""

from typing import Any

from ....model.errors import ResourceNotFoundError, ValidationError
from ...auth.rights import Right
from ...node import Node
from ..operation import admin_operation
from ..reply import Reply


@admin_operation("Rebuild", Right.ADMIN)
def rebuild(node: Node, body: dict[str, Any], reply: Reply) -> None:
    """Start a rebuild, or reply with the progress of the running one."""
    name, index, job_id = body.get("TableName"), body.get("IndexName"), body.get("Id")
    if not isinstance(name, str) or not isinstance(index, str | None) or not isinstance(job_id, int | None):
        raise ValidationError("Rebuild takes a TableName, an IndexName, and the Id that an answer gave")
    job = node.rebuilds.job
    if job_id is None:
        if job is not None and not job.finished:
            raise ValidationError(f"The table {job.name} is being rebuilt: one at a time")
        table = node.table_in_any_status(name)
        if index is not None and index not in table.indexes:
            raise ResourceNotFoundError(f"The table {table.definition.name} has no index {index}")
        job = node.rebuilds.start(table.definition, index)
    elif job is None or job.job_id != job_id or job.name != name:
        raise ValidationError(f"No rebuild {job_id} of the table {name} is known")
    job.answer_later(reply)
