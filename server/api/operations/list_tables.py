"""ListTables: the names of all tables in alphabetical order, one page at a time."""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

import orjson

from ...auth.rights import EVERYTHING, Demand, Right
from ...database import Database
from ..operation import operation
from ..reply import Reply


def _demands(_: dict[str, Any]) -> Iterator[Demand]:
    yield "dynamodb:ListTables", Right.READ, EVERYTHING


@operation("ListTables", _demands)
def list_tables(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Reply with the page after ExclusiveStartTableName, which may be the name of no table."""
    names = sorted(database.state.names)
    start = bisect_right(names, body.get("ExclusiveStartTableName", ""))
    end = start + body.get("Limit", database.limits.table_names_page)
    answer: dict[str, Any] = {"TableNames": names[start:end]}
    if end < len(names):
        answer["LastEvaluatedTableName"] = names[end - 1]
    reply.ok(orjson.dumps(answer))
