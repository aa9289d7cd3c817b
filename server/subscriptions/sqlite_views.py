"""Files of SQLite, which several subscriptions may keep together: each table has one view there, whoever writes it."""

from collections.abc import Iterator, Mapping
from typing import Any

from ...model.subscriptions import Subscription
from ...streams.sinks.sqlite import check_views, database_of
from .context import SubscriptionContext


def check(node: SubscriptionContext, name: str, settings: Mapping[str, Any]) -> None:
    """Refuse tables whose views would not stand beside each other.

    Raises:
        ValidationError: They would not.
    """
    if settings["Sink"]["Kind"] == "sqlite":
        there = (table for other in _beside(node, name, settings) for table, _ in other.tables)
        check_views([*there, *settings["TableNames"]])


def outdated(node: SubscriptionContext, subscription: Subscription) -> tuple[str, ...]:
    """Tables of which a snapshot will tell all that there is, and that nobody else keeps in the same file."""
    settings = subscription.settings
    if (
        settings["Sink"]["Kind"] != "sqlite"
        or settings["Start"]["At"] != "SNAPSHOT"
        or subscription.checkpoints
    ):
        return ()
    kept = {name for other in _beside(node, subscription.name, settings) for name, _ in other.tables}
    return tuple(name for name, _ in subscription.tables if name not in kept)


def _beside(node: SubscriptionContext, name: str, settings: Mapping[str, Any]) -> Iterator[Subscription]:
    """The other subscriptions that keep the same file."""
    database = database_of(settings["Sink"], name)
    for other in node.state.subscriptions.values():
        sink = other.settings["Sink"]
        if other.name != name and sink["Kind"] == "sqlite" and database_of(sink, other.name) == database:
            yield other
