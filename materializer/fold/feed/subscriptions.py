"""Commands about subscriptions: their definitions, their status and their checkpoints. All at the catalog.

    Create ──► ACTIVE ──► PAUSED ──► ACTIVE ──► STOPPED ──► ACTIVE          Pause, Resume, Stop, Resume
                  │ Reset: a new epoch, without checkpoints
                  └ Checkpoint: checkpoints rise, if it is of this epoch

Every partition captures the tables of a subscription: a table's first subscription makes it watched, the removal of
its last ends that.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

import orjson

from ....log.commands import Checkpoint, DefineSubscription
from ....model.errors import (
    LimitExceededError,
    RequestError,
    ResourceInUseError,
    ResourceNotFoundError,
    ValidationError,
)
from ....model.slots import CATALOG
from ....model.subscriptions import Status, Subscription
from ....model.subscriptions.setting_types import invalid
from ....model.subscriptions.settings import check, check_start
from .. import definitions
from ..outcomes import Completed, Outcome, Refused, Skipped, Subscribed
from ..state import FEED_LEVEL, PartitionState

SUBSCRIPTIONS_MAX = 1000
_TOO_EARLY: Final = (
    f"Subscriptions need a log of level {FEED_LEVEL}: run `foldb upgrade` once every node is of this release."
)

# Settings that would make it another subscription, or move its position in the feed.
_FIXED: Final = ("TableNames", "Start", "Replay")


def define_subscription(state: PartitionState, command: DefineSubscription, sequence_number: int) -> Outcome:
    """Fold a DefineSubscription."""
    if state.partition != CATALOG:
        return Skipped("not the catalog")
    if state.level < FEED_LEVEL:
        return Refused(ValidationError(_TOO_EARLY))
    request = orjson.loads(command.request)
    try:
        if command.operation == "Create":
            subscription = _create(state, command, request)
        else:
            subscription = _change(_named(state, command.name), command, request, state.log_time)
    except RequestError as error:
        return Refused(error)
    if command.operation == "Remove":
        del state.subscriptions[command.name]
    else:
        state.subscriptions[command.name] = subscription
    if command.operation in ("Create", "Remove"):
        _watch(state, subscription.table_ids, sequence_number)
    return Subscribed(subscription, state.rollout.version if command.operation == "Create" else 0)


def checkpoint(state: PartitionState, command: Checkpoint) -> Outcome:
    """Fold a Checkpoint. It has no effect if it is of another epoch, or its subscription is removed."""
    subscription = state.subscription(command.subscription)
    if subscription is None or subscription.epoch != command.epoch:
        return Completed(progressed=False)
    state.subscriptions[subscription.name] = subscription.checkpointed(
        dict(command.checkpoints), command.version, command.handled, command.dead
    )
    return Completed(progressed=True)


def _create(state: PartitionState, command: DefineSubscription, request: dict[str, Any]) -> Subscription:
    settings = check(command.name, request)
    if command.name in state.subscriptions:
        raise ResourceInUseError(f"Subscription already exists: {command.name}")
    if len(state.subscriptions) >= SUBSCRIPTIONS_MAX:
        raise LimitExceededError(f"There is a limit of {SUBSCRIPTIONS_MAX:,} subscriptions")
    tables = tuple((name, _table_named(state, name)) for name in settings["TableNames"])
    subscription = Subscription(
        id=state.next_id,
        name=command.name,
        uuid=command.uuid,
        tables=tables,
        settings=settings,
        created_ms=state.log_time,
        changed_ms=state.log_time,
    )
    state.next_id += 1
    return subscription


def _table_named(state: PartitionState, name: str) -> int:
    table = state.table_named(name)
    if table is None or table.definition.status == "DELETING":
        raise ResourceNotFoundError(f"Requested resource not found: Table: {name} not found")
    return table.definition.id


def _named(state: PartitionState, name: str) -> Subscription:
    subscription = state.subscriptions.get(name)
    if subscription is None:
        raise ResourceNotFoundError(f"Requested resource not found: Subscription: {name} not found")
    return subscription


def _change(
    before: Subscription, command: DefineSubscription, request: dict[str, Any], time_ms: int
) -> Subscription:
    """Return the subscription after a command. A command that changes nothing is no error."""
    after = replace(before, changed_ms=time_ms)
    match command.operation:
        case "Update":
            return replace(after, settings=_updated(before, request))
        case "Pause":
            return _with_status(after, "PAUSED", request.get("Reason"))
        case "Resume":
            return _with_status(after, "ACTIVE")
        case "Stop" if request.get("Epoch", before.epoch) == before.epoch:
            return _with_status(after, "STOPPED", request["Reason"])
        case "Reset":
            settings = {**before.settings, "Start": check_start(request.get("Start"))}
            return replace(after, settings=settings, epoch=before.epoch + 1, checkpoints={})
        case "Remove":
            return after
    return before


def _updated(before: Subscription, request: dict[str, Any]) -> dict[str, Any]:
    for member in _FIXED:
        if member in request and request[member] != before.settings[member]:
            raise invalid(f"{member} cannot be changed")
    return check(before.name, {**before.settings, **request})


def _with_status(subscription: Subscription, status: Status, reason: str | None = None) -> Subscription:
    return replace(subscription, status=status, reason=reason)


def _watch(state: PartitionState, table_ids: Iterable[int], sequence_number: int) -> None:
    """Make each of these tables watched if a subscription names it, else not watched."""
    named = {each for subscription in state.subscriptions.values() for each in subscription.table_ids}
    for table_id in table_ids:
        definitions.watch(state, table_id, table_id in named, sequence_number)
