"""Destinations of a table's changes: subscriptions that the Kinesis operations make, and that go with their table.

    the table is deleted ──► what was written to it is sent on, unless that is disabled ──► the destination is removed

None of those operations reaches it any more by then, and what is left over would count among the subscriptions.
"""

from collections.abc import Container

from ...model.subscriptions import Subscription
from ...streams.delivery.dispatcher import TABLES_DELETED


def prefix_of(table: int) -> str:
    """What the names of a table's destinations begin with."""
    return f"kinesis-{table}-"


def is_left(subscription: Subscription, tables: Container[int]) -> bool:
    """Whether it is a destination of a table that is gone, and is done; one that stopped for another reason is not."""
    [table, *_] = subscription.table_ids
    return (
        table not in tables
        and subscription.settings["Sink"]["Kind"] == "kinesis"
        and subscription.name.startswith(prefix_of(table))
        and (subscription.status == "PAUSED" or subscription.reason == TABLES_DELETED)
    )
