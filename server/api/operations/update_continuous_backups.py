"""UpdateContinuousBackups: switch point-in-time recovery on or off. It is kept and described."""

from typing import TYPE_CHECKING, Any

from ....model.descriptions import describe_continuous_backups
from ....model.errors import TableNotFoundError
from ....model.tables import name_of
from .. import table_commands
from ..reply import Reply

if TYPE_CHECKING:
    from ...node import Node


def update_continuous_backups(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Have it switched, and describe it as it is then."""
    name = name_of(body["TableName"])
    table = node.state.table_named(name)
    if table is None:
        raise TableNotFoundError(f"Table not found: {name}")
    table_commands.change(
        node,
        "UpdateContinuousBackups",
        table,
        body,
        reply,
        lambda definition: {
            "ContinuousBackupsDescription": describe_continuous_backups(definition, time_ms=node.clock())
        },
    )
