"""IndexProgress: how far the new global indexes of a table are filled, for `foldb index status`.

{"TableName"}    ──►  {"TableName", "FilledPercent": {INDEX: 0 to 100}}

A backfill reads the items of each partition in the order of their slots, so the slots behind its cursor are the
progress. No partition counts the items that it has entered.
"""

from functools import partial
from typing import Any

from ....model import service
from ....model.errors import RequestError
from ....model.keys import SLOTS
from ...async_calls import call
from ...auth.rights import Right
from ...node import Node
from ..operation import admin_operation
from ..reply import Caller


@admin_operation(
    "IndexProgress", lambda body: [("foldb:IndexProgress", Right.READ, str(body.get("TableName")))]
)
async def index_progress(node: Node, body: dict[str, Any], _: Caller) -> dict[str, Any]:
    """Add up the filled slots of the partitions that answer."""
    service.validate("DescribeTable", body)
    definition = node.table_in_any_status(body["TableName"]).definition
    statuses = await call(partial(node.partition.status, definition.id))
    assert not isinstance(statuses, RequestError), "each partition reports its own error"
    if node.router is None:
        statuses = {"0": statuses}
    each = [  # a node of an older release does not send them
        status.get("filled_slots", {}) for status in statuses.values() if not isinstance(status, RequestError)
    ]
    filled = {
        index.name: sum(slots.get(str(index.id), 0) for slots in each) * 100 // SLOTS
        for index in definition.gsis
        if index.backfilling
    }
    return {"TableName": definition.name, "FilledPercent": filled}
