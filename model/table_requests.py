"""What a table command does to a table's definition.

Each function takes the definition as it is and a request that `service.py` found well-formed, and returns the
definition as it will be or raises DynamoDB's error. The server calls them to refuse early; the fold calls them
again, with the log's time, and what it gets is what counts.

A table that was created, updated or marked for deletion comes back CREATING, UPDATING or DELETING, which is what
the operation answers. `tables.settled` ends that state.
"""

from typing import Any

from .limits import Limits
from .tables import TableDefinition


def create(
    request: dict[str, Any], *, table_id: int, uuid: str, time_ms: int, limits: Limits, tables: int = 0
) -> TableDefinition:
    """The definition that CreateTable asks for. Its indexes take the ids after `table_id`."""
    raise NotImplementedError


def update(
    definition: TableDefinition, request: dict[str, Any], *, next_id: int, time_ms: int, limits: Limits
) -> TableDefinition:
    """UpdateTable. An index that it adds takes the id `next_id` and is backfilling."""
    raise NotImplementedError


def delete(definition: TableDefinition) -> TableDefinition:
    """DeleteTable."""
    raise NotImplementedError


def update_time_to_live(definition: TableDefinition, request: dict[str, Any]) -> TableDefinition:
    """UpdateTimeToLive."""
    raise NotImplementedError


def tag(definition: TableDefinition, request: dict[str, Any], limits: Limits) -> TableDefinition:
    """TagResource."""
    raise NotImplementedError


def untag(definition: TableDefinition, request: dict[str, Any]) -> TableDefinition:
    """UntagResource."""
    raise NotImplementedError


def update_continuous_backups(
    definition: TableDefinition, request: dict[str, Any], *, time_ms: int
) -> TableDefinition:
    """UpdateContinuousBackups."""
    raise NotImplementedError


def change(
    operation: str,
    definition: TableDefinition,
    request: dict[str, Any],
    *,
    next_id: int,
    time_ms: int,
    limits: Limits,
) -> TableDefinition:
    """Any of the above but `create`, by the name of the API operation."""
    raise NotImplementedError
