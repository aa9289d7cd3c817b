"""The targets of subscriptions, one module per kind; each declares a `KIND` (kind.py).

A module is imported when a subscription first names its kind: a server without webhooks loads no HTTP client. A kind's
module imports its client in `make` alone, because the command line imports all declarations.
"""

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, Final

from ...model.errors import ValidationError
from ...model.subscriptions import Subscription
from .kind import SinkKind

MODULES: Final = {
    "python": "python",
    "lambda": "lambda_handler",
    "command": "command",
    "webhook": "webhook",
    "kafka": "kafka",
    "kinesis": "kinesis",
    "file": "file",
    "sqlite": "sqlite",
}
"""The module of each `Kind`."""


def sink_kind(sink: Mapping[str, Any]) -> SinkKind:
    """Return the kind of a subscription's Sink.

    Raises:
        ValidationError: The Sink has no Kind, or an unknown one.
    """
    name = sink.get("Kind")
    if not isinstance(name, str) or name not in MODULES:
        raise ValidationError(f"Sink.Kind must be one of {', '.join(MODULES)}")
    kind: SinkKind = import_module(f".{MODULES[name]}", __name__).KIND
    return kind


def sink_kinds() -> list[SinkKind]:
    """Return all kinds; it imports their modules."""
    return [sink_kind({"Kind": name}) for name in MODULES]


def check_shared_target(name: str, settings: Mapping[str, Any], others: Iterable[Subscription]) -> None:
    """Validate that the target of the subscription `name` can hold its tables beside those of other subscriptions.

    Raises:
        ValidationError: The target cannot hold the tables together.
    """
    kind = sink_kind(settings["Sink"])
    if kind.check_tables is not None:
        kind.check_tables([*_tables_at_target(kind, name, settings, others), *settings["TableNames"]])


def outdated_tables(subscription: Subscription, others: Iterable[Subscription]) -> tuple[str, ...]:
    """Return the tables whose rows in a shared target a snapshot replaces: no other subscription writes them there."""
    settings = subscription.settings
    if settings["Start"]["At"] != "SNAPSHOT" or subscription.checkpoints:
        return ()
    kind = sink_kind(settings["Sink"])
    if kind.shared_target is None:
        return ()
    written = set(_tables_at_target(kind, subscription.name, settings, others))
    return tuple(name for name, _ in subscription.tables if name not in written)


def _tables_at_target(
    kind: SinkKind, name: str, settings: Mapping[str, Any], others: Iterable[Subscription]
) -> list[str]:
    """Return the tables that other subscriptions write to the same target."""
    if kind.shared_target is None:
        return []
    target = kind.shared_target(settings["Sink"], name)
    return [
        table
        for other in others
        if other.name != name
        and other.settings["Sink"]["Kind"] == kind.name
        and kind.shared_target(other.settings["Sink"], other.name) == target
        for table, _ in other.tables
    ]
