"""Subscriptions: their creation, changes, status and removal. server/subscriptions does the work.

CreateSubscription    {"Name", the settings of model/subscriptions}    UpdateSubscription the same, with some settings
ListSubscriptions     {}                                               DescribeSubscription {"Name"}
PauseSubscription     {"Name", "Drain"?}    ResumeSubscription {"Name"}    RemoveSubscription {"Name"}
ResetSubscription     {"Name", "Start"}
ReplaySubscription    {"Name", "From", "To"?, "Key"?, "DryRun"?, "SideEffects"?}  ──►  {"Replay"}, or with DryRun
                      {"Calls", "Changes", "Keys", "SideEffects"}
WaitForTriggers       {"TimeoutMs"}  ──►  {"Settled", "Why"?}

A pause with Drain is answered once all written changes are handled, and refused if that takes longer than 50 s. The
others answer with the subscription, {"Name", "Status", "Settings", "Checkpoints", ...}; Describe adds its "Lag" and, on
the node that runs it, its "Figures". Start, From and To may name a Position.
"""

from typing import Any, Final

from ....model.errors import ValidationError
from ....model.sequence_numbers import number_texts
from ....streams.sinks import sink_kind
from ...auth.rights import EVERYTHING, Right
from ...node import Node
from ..operation import admin_operation
from ..reply import Caller
from .start_positions import read_end, read_integer, read_start, resolve

_HIGHEST_TIMEOUT_MS: Final = 50_000
_SHOWN: Final = (
    "Name", "Status", "Reason", "Settings", "Epoch", "Checkpoints", "Version", "Created", "Changed", "RunsHere",
)  # fmt: skip
_KNOWN: Final = frozenset((*_SHOWN, "TotalHandled", "TotalDead", "Lag", "LastError"))


@admin_operation("CreateSubscription", Right.ADMIN)
async def create(node: Node, body: dict[str, Any], caller: Caller) -> dict[str, Any]:
    """Create a subscription. It receives every change that is written after the answer."""
    name, settings = _split(body)
    if "Start" in settings:
        settings["Start"] = _start(node, settings["Start"])
    return described(await node.triggers.create(name, settings, caller.context))


@admin_operation("UpdateSubscription", Right.ADMIN)
async def update(node: Node, body: dict[str, Any], caller: Caller) -> dict[str, Any]:
    """Change some settings of a subscription."""
    name, settings = _split(body)
    _refuse_declared(node, name)
    return described(await node.triggers.update(name, settings, caller.context))


@admin_operation("DescribeSubscription", Right.READ)
async def describe(node: Node, body: dict[str, Any], caller: Caller) -> dict[str, Any]:
    """Return a subscription with its settings, checkpoints, lag and metrics."""
    return described(await node.triggers.describe(_name(body)), to_reader=is_reader(caller))


@admin_operation("ListSubscriptions", Right.READ)
async def list_(node: Node, _: dict[str, Any], caller: Caller) -> dict[str, Any]:
    """Return all subscriptions of the catalog."""
    to_reader = is_reader(caller)
    subscriptions = node.triggers.list()["Subscriptions"]
    return {"Subscriptions": [_flat(each, to_reader=to_reader) for each in subscriptions]}


@admin_operation("PauseSubscription", Right.ADMIN)
async def pause(node: Node, body: dict[str, Any], caller: Caller) -> dict[str, Any]:
    """Deliver nothing until the subscription is resumed."""
    drain = body.get("Drain", False)
    if not isinstance(drain, bool):
        raise ValidationError("Drain must be true or false")
    return described(await node.triggers.pause(_name(body), caller.context, drain=drain))


@admin_operation("ResumeSubscription", Right.ADMIN)
async def resume(node: Node, body: dict[str, Any], caller: Caller) -> dict[str, Any]:
    """Continue after a pause or a stop."""
    return described(await node.triggers.resume(_name(body), caller.context))


@admin_operation("ResetSubscription", Right.ADMIN)
async def reset(node: Node, body: dict[str, Any], caller: Caller) -> dict[str, Any]:
    """Continue from another position."""
    start = _start(node, body.get("Start"))
    return described(await node.triggers.reset(_name(body), start, caller.context))


@admin_operation("RemoveSubscription", Right.ADMIN)
async def remove(node: Node, body: dict[str, Any], caller: Caller) -> dict[str, Any]:
    """Remove a subscription. Its dead letters stay."""
    name = _name(body)
    _refuse_declared(node, name)
    return described(await node.triggers.remove(name, caller.context))


@admin_operation("ReplaySubscription", Right.ADMIN)
async def replay(node: Node, body: dict[str, Any], caller: Caller) -> dict[str, Any]:
    """Deliver a range of changes again, or with DryRun return its size.

    A sink with effects outside the database is called with SideEffects only.
    """
    name, key = _name(body), body.get("Key")
    dry_run, side_effects = (body.get(member, False) for member in ("DryRun", "SideEffects"))
    if (
        not isinstance(dry_run, bool)
        or not isinstance(side_effects, bool)
        or not isinstance(key, dict | None)
    ):
        raise ValidationError(
            "ReplaySubscription takes a Key, as items have it, and DryRun and SideEffects, which are true or false"
        )
    end = None if body.get("To") is None else read_end(node, body["To"])
    tables = node.subscription(name).table_ids
    start = read_start(node, body.get("From"))
    if start["At"] == "TIME":
        begin = {"Time": start["Time"]}
    else:
        after = await resolve(node, tables, start)
        begin = {"Numbers": number_texts(after)}
    answer = await node.triggers.replay(
        name, begin, end, key, dry_run=dry_run, side_effects=side_effects, context=caller.context
    )
    return {"Replay": answer["Name"]} if "Name" in answer else answer


@admin_operation("WaitForTriggers", Right.READ)
async def wait_for_triggers(node: Node, body: dict[str, Any], _: Caller) -> dict[str, Any]:
    """Wait until every subscription has handled everything written so far, or return why that has not happened."""
    timeout_ms = read_integer(body, "TimeoutMs", _HIGHEST_TIMEOUT_MS, 0, _HIGHEST_TIMEOUT_MS)
    try:
        await node.triggers.wait_for_triggers(timeout_ms)
    except ValidationError as error:
        return {"Settled": False, "Why": error.message}
    return {"Settled": True}


def described(answer: dict[str, Any], *, to_reader: bool = False) -> dict[str, Any]:
    return _flat(answer["Subscription"], to_reader=to_reader)


def is_reader(caller: Caller) -> bool:
    """Return whether the key of the request may read subscriptions but not administer them."""
    return caller.bearer is not None and caller.bearer.rights.on(EVERYTHING) < Right.ADMIN


def _flat(known: dict[str, Any], *, to_reader: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {name: known[name] for name in _SHOWN if name in known}
    if to_reader:
        sink = shown["Settings"]["Sink"]
        shown["Settings"] = {**shown["Settings"], "Sink": sink_kind(sink).shown_to_readers(sink)}
    shown |= {
        "TableNames": known["Settings"]["TableNames"],
        "Handled": known["TotalHandled"],
        "Dead": known["TotalDead"],
        "LastError": known.get("LastError"),
    }
    if "Lag" in known:
        shown["Lag"] = {
            partition: {"Changes": lag["Records"], "Milliseconds": lag["Milliseconds"]}
            for partition, lag in known["Lag"].items()
        }
        figures = {name: value for name, value in known.items() if name not in _KNOWN}
        shown["Figures"] = figures or None
    return shown


def _name(body: dict[str, Any]) -> str:
    name = body.get("Name")
    if not isinstance(name, str):
        raise ValidationError("Name must be the name of a subscription")
    return name


def _refuse_declared(node: Node, name: str) -> None:
    """Refuse to change a subscription that a file declares: the reconciler would undo the change within a second.

    Raises:
        ValidationError: A file in the folder of triggers declares the subscription.
    """
    reconciler = node.triggers.reconciler
    file = None if reconciler is None else reconciler.file_of(name)
    if file is not None:
        raise ValidationError(f"Subscription {name} is declared in {file}: change it there, or pause it")


def _split(body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return _name(body), {member: value for member, value in body.items() if member != "Name"}


def _start(node: Node, start: Any) -> Any:
    """Replace the position of a Start. The other members are validated with the settings."""
    is_position = isinstance(start, dict) and start.get("At") == "POSITION"
    return read_start(node, start) if is_position else start
