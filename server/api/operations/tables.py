"""CreateTable, UpdateTable, DeleteTable, DescribeTable and ListTables: tables with their indexes and settings.

A table begins empty. The log keeps the history of a deleted one. The counts of a description are exact and current by
default.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

import orjson

from ....model.errors import ResourceInUseError, ResourceNotFoundError
from ....model.table_requests import check_update
from ....model.tables import name_of
from ...auth.rights import EVERYTHING, Demand, Right
from ...database import Database
from .. import table_commands, table_rules
from ..operation import operation
from ..reply import Reply

# DynamoDB omits these from the description of a table that is being deleted.
_OMITTED = frozenset(
    (
        "AttributeDefinitions",
        "CreationDateTime",
        "GlobalSecondaryIndexes",
        "KeySchema",
        "LocalSecondaryIndexes",
    )
)


@operation("CreateTable", Right.ADMIN)
def create_table(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Refuse an existing name, and create the table."""
    name = name_of(body["TableName"])
    if name in database.state.names:
        raise ResourceInUseError(f"Table already exists: {name}")
    table_commands.create(database, body, reply)


@operation("UpdateTable", Right.ADMIN)
def update_table(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Validate the request, also if its table does not exist, and change the table."""
    try:
        table = database.table_in_any_status(body["TableName"])
    except ResourceNotFoundError:
        check_update(table_rules.admit("UpdateTable", body))
        raise
    table_commands.change(database, "UpdateTable", table, body, reply)


@operation("DeleteTable", Right.ADMIN)
def delete_table(database: Database, body: dict[str, Any], reply: Reply) -> None:
    table = database.table_in_any_status(body["TableName"])
    table_commands.change(database, "DeleteTable", table, body, reply, omit=_OMITTED)


@operation("DescribeTable", Right.READ)
def describe_table(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Describe the table, unless it is younger than the delay of the control plane.

    A clock that is behind log time cannot measure the age of a table, and delays nothing.
    """
    table = database.table_in_any_status(body["TableName"])
    definition = table.definition
    if 0 <= database.clock() - definition.created_ms < database.settings.control_plane_delay_ms:
        raise ResourceNotFoundError(f"Requested resource not found: Table: {definition.name} not found")
    table_commands.describe_to(database, reply, "Table", table, definition)


def _demands(_: dict[str, Any]) -> Iterator[Demand]:
    yield "dynamodb:ListTables", Right.READ, EVERYTHING


@operation("ListTables", _demands)
def list_tables(database: Database, body: dict[str, Any], reply: Reply) -> None:
    """Reply with the page after ExclusiveStartTableName, which may be the name of no table."""
    names = database.state.sorted_names
    start = bisect_right(names, body.get("ExclusiveStartTableName", ""))
    end = start + body.get("Limit", database.state.limits.table_names_page)
    answer: dict[str, Any] = {"TableNames": names[start:end]}
    if end < len(names):
        answer["LastEvaluatedTableName"] = names[end - 1]
    reply.ok(orjson.dumps(answer))
