"""ListTables: the names of the tables in alphabetical order, a page at a time."""

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

import orjson

from ..reply import Reply

if TYPE_CHECKING:
    from ...node import Node


def list_tables(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Answer the page after ExclusiveStartTableName, which need not be the name of a table."""
    names = sorted(node.state.names)
    start = bisect_right(names, body.get("ExclusiveStartTableName", ""))
    end = start + body.get("Limit", node.limits.table_names_page)
    answer: dict[str, Any] = {"TableNames": names[start:end]}
    if end < len(names):
        answer["LastEvaluatedTableName"] = names[end - 1]
    reply.ok(orjson.dumps(answer))
