"""SQLite files that several subscriptions share: each table has one view in a file, which any of them writes."""

from collections.abc import Iterator, Mapping
from typing import Any

from ...model.subscriptions import Subscription
from ...streams.sinks.sqlite import check_views, database_of
from .context import SubscriptionContext


def check(node: SubscriptionContext, name: str, settings: Mapping[str, Any]) -> None:
    """Refuse tables whose views cannot share a file.

    Raises:
        ValidationError: The views of two tables of the file have the same name.
    """
    if settings["Sink"]["Kind"] == "sqlite":
        existing = (table for other in _sharing(node, name, settings) for table, _ in other.tables)
        check_views([*existing, *settings["TableNames"]])


def outdated(node: SubscriptionContext, subscription: Subscription) -> tuple[str, ...]:
    """Return the tables whose view a snapshot replaces entirely, because no other subscription writes it."""
    settings = subscription.settings
    if (
        settings["Sink"]["Kind"] != "sqlite"
        or settings["Start"]["At"] != "SNAPSHOT"
        or subscription.checkpoints
    ):
        return ()
    kept = {name for other in _sharing(node, subscription.name, settings) for name, _ in other.tables}
    return tuple(name for name, _ in subscription.tables if name not in kept)


def _sharing(node: SubscriptionContext, name: str, settings: Mapping[str, Any]) -> Iterator[Subscription]:
    """Yield the other subscriptions that write the same file."""
    database = database_of(settings["Sink"], name)
    for other in node.state.subscriptions.values():
        sink = other.settings["Sink"]
        if other.name != name and sink["Kind"] == "sqlite" and database_of(sink, other.name) == database:
            yield other
