"""The operations on global tables, which answer as in an account that has none.

DynamoDB makes no global tables of version 2017.11.29 any longer: its operations find none. Those of version 2019.11.21
belong to UpdateTable, which refuses replicas, so the operations on the scaling of replicas find none either.
"""

from collections.abc import Iterator
from typing import Any, NoReturn

from ....model.errors import GlobalTableNotFoundError, ResourceNotFoundError, ValidationError
from ....model.tables import name_of
from ...auth.rights import EVERYTHING, Demand, Right
from ...database import Database
from ..operation import Operation, operation
from ..reply import Reply

_INVALID = "One or more parameter values were invalid"
_LEGACY = (
    f"{_INVALID}: DynamoDB global tables version 2017.11.29 is not supported. We recommend using "
    "DynamoDB global tables version 2019.11.21, instead of version 2017.11.29 (Legacy)."
)
_ABSENT = "Global table with name: '{}' does not exist."


@operation("CreateGlobalTable", Right.ADMIN, member="GlobalTableName")
def create_global_table(_: Database, _body: dict[str, Any], _reply: Reply) -> NoReturn:
    """Refuse the version of the request."""
    raise ValidationError(_LEGACY)


@operation("UpdateGlobalTable", Right.ADMIN, member="GlobalTableName")
def update_global_table(_: Database, body: dict[str, Any], _reply: Reply) -> NoReturn:
    """Refuse the version of a new replica, and find no table of which one could be deleted."""
    updates = body["ReplicaUpdates"]
    if not updates:
        raise ValidationError(_INVALID)
    if any("Create" in update for update in updates):
        raise ValidationError(_LEGACY)
    raise _not_found(body)


@operation("DescribeGlobalTable", Right.READ, member="GlobalTableName")
def describe_global_table(_: Database, body: dict[str, Any], _reply: Reply) -> NoReturn:
    raise _not_found(body)


def _not_found(body: dict[str, Any]) -> GlobalTableNotFoundError:
    return GlobalTableNotFoundError(f"Global table not found: {_ABSENT.format(body['GlobalTableName'])}")


def _settings(name: str, right: Right) -> Operation:
    def handle(_: Database, body: dict[str, Any], _reply: Reply) -> NoReturn:
        raise GlobalTableNotFoundError(_ABSENT.format(body["GlobalTableName"]))

    return operation(name, right, member="GlobalTableName")(handle)


describe_global_table_settings = _settings("DescribeGlobalTableSettings", Right.READ)
update_global_table_settings = _settings("UpdateGlobalTableSettings", Right.ADMIN)


def _scaling(name: str, right: Right) -> Operation:
    def handle(_: Database, body: dict[str, Any], _reply: Reply) -> NoReturn:
        raise ResourceNotFoundError(_ABSENT.format(name_of(body["TableName"])))

    return operation(name, right)(handle)


describe_table_replica_auto_scaling = _scaling("DescribeTableReplicaAutoScaling", Right.READ)
update_table_replica_auto_scaling = _scaling("UpdateTableReplicaAutoScaling", Right.ADMIN)


def _demands(_: dict[str, Any]) -> Iterator[Demand]:
    yield "dynamodb:ListGlobalTables", Right.READ, EVERYTHING


@operation("ListGlobalTables", _demands)
def list_global_tables(_: Database, _body: dict[str, Any], reply: Reply) -> None:
    reply.ok(b'{"GlobalTables":[]}')
