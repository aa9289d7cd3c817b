"""Subscriptions: who is delivered the changes of which tables. What is done is in server/triggers.

CreateSubscription    {"Name", the settings of model/subscriptions}     UpdateSubscription the same, some of them
ListSubscriptions     {}                                                DescribeSubscription {"Name"}
PauseSubscription     {"Name", "Drain"?}    ResumeSubscription {"Name"}    RemoveSubscription {"Name"}
ResetSubscription     {"Name", "Start"}
ReplaySubscription    {"Name", "From", "To"?, "Key"?, "DryRun"?}  ──►  {"Replay"}, or {"Calls", "Changes", "Keys"}
Settle                {"TimeoutMs"}  ──►  {"Settled", "Why"?}

A pause with Drain comes when all that is written is handled, and is refused if that takes longer than 50 seconds.
They answer with the subscription as it is then, {"Name", "Status", "Settings", "Checkpoints", ...}; Describe
also with its
"Lag" and, on the node that runs it, with "Figures". A Start (and From, To) may name a Position too.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson

from ....model.errors import RequestError, ValidationError
from ....streams.sinks.sink_settings import shown_to_readers
from ...auth.rights import EVERYTHING, Right
from ...subscriptions.async_partition import answer as run
from ..reply import Reply
from .start_positions import After, read_end, read_start, resolve, whole

if TYPE_CHECKING:
    from ...node import Node

Shape: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]

_SETTLE_MOST_MS: Final = 50_000
_SHOWN: Final = (
    "Name", "Status", "Reason", "Settings", "Epoch", "Checkpoints", "Version", "Created", "Changed", "RunsHere",
)  # fmt: skip
_KNOWN: Final = frozenset((*_SHOWN, "TotalHandled", "TotalDead", "Lag", "LastError"))


def create(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Make a subscription; answered when all that is written from then on will be delivered."""
    name, settings = _split(body)
    if "Start" in settings:
        settings["Start"] = _start(node, settings["Start"])
    run(node.loop, node.triggers.create(name, settings, reply.context), _answering(reply, told))


def update(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Give one other settings."""
    name, settings = _split(body)
    _refuse_declared(node, name)
    run(node.loop, node.triggers.update(name, settings, reply.context), _answering(reply, told))


def describe(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Tell all that is known of one: settings, marks, lag, figures."""
    shape = partial(told, to_reader=_is_reader(reply))
    run(node.loop, node.triggers.describe(_name(body)), _answering(reply, shape))


def list_(node: "Node", body: dict[str, Any], reply: Reply) -> None:  # noqa: ARG001  # it takes no parameters
    """Tell what the catalog knows of all."""
    flat = partial(_flat, to_reader=_is_reader(reply))
    subscriptions = node.triggers.list()["Subscriptions"]
    reply.ok(orjson.dumps({"Subscriptions": [flat(each) for each in subscriptions]}))


def pause(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Deliver nothing until it is resumed."""
    drain = body.get("Drain", False)
    if not isinstance(drain, bool):
        raise ValidationError("Drain must be true or false")
    work = node.triggers.pause(_name(body), reply.context, drain=drain)
    run(node.loop, work, _answering(reply, told))


def resume(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Go on after a pause or a stop."""
    run(node.loop, node.triggers.resume(_name(body), reply.context), _answering(reply, told))


def reset(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Begin anew from another place."""
    start = _start(node, body.get("Start"))
    run(node.loop, node.triggers.reset(_name(body), start, reply.context), _answering(reply, told))


def remove(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Forget a subscription; its dead letters stay."""
    name = _name(body)
    _refuse_declared(node, name)
    run(node.loop, node.triggers.remove(name, reply.context), _answering(reply, told))


def replay(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Deliver a stretch again, or say how much that would be."""
    name, dry_run, key = _name(body), body.get("DryRun", False), body.get("Key")
    if not isinstance(dry_run, bool) or not isinstance(key, dict | None):
        raise ValidationError(
            "ReplaySubscription takes a Key, as items have it, and DryRun, which is true or false"
        )
    end = None if body.get("To") is None else read_end(node, body["To"])
    done = _answering(reply, lambda answer: {"Replay": answer["Name"]} if "Name" in answer else answer)

    def begin(after: After | RequestError) -> None:
        if isinstance(after, RequestError):
            reply.error(after)
        else:
            again({"Numbers": {str(number): str(each) for number, each in after.items()}})

    def again(start: dict[str, Any]) -> None:
        run(node.loop, node.triggers.replay(name, start, end, key, dry_run, reply.context), done)

    tables = node.subscription(name).table_ids
    start = read_start(node, body.get("From"))
    if start["At"] == "TIME":
        again({"Time": start["Time"]})
    else:
        resolve(node, tables, start, begin)


def settle(node: "Node", body: dict[str, Any], reply: Reply) -> None:
    """Answer when everything written so far is handled by every subscription, or say why that is not so."""
    timeout_ms = whole(body, "TimeoutMs", _SETTLE_MOST_MS, 0, _SETTLE_MOST_MS)

    def settled(answer: dict[str, Any] | RequestError) -> None:
        if isinstance(answer, ValidationError):
            reply.ok(orjson.dumps({"Settled": False, "Why": answer.message}))
        else:
            _answer(reply, lambda _: {"Settled": True}, answer)

    run(node.loop, node.triggers.wait_for_triggers(timeout_ms), settled)


def told(answer: dict[str, Any], *, to_reader: bool = False) -> dict[str, Any]:
    """One subscription as it is answered."""
    return _flat(answer["Subscription"], to_reader=to_reader)


def _is_reader(reply: Reply) -> bool:
    """Return whether a key asks that may read subscriptions and may not administer them."""
    return reply.bearer is not None and reply.bearer.rights.on(EVERYTHING) < Right.ADMIN


def _flat(known: dict[str, Any], *, to_reader: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {name: known[name] for name in _SHOWN if name in known}
    if to_reader:
        shown["Settings"] = {**shown["Settings"], "Sink": shown_to_readers(shown["Settings"]["Sink"])}
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


def _answering(reply: Reply, shape: Shape) -> Callable[[dict[str, Any] | RequestError], None]:
    return partial(_answer, reply, shape)


def _answer(reply: Reply, shape: Shape, answer: dict[str, Any] | RequestError) -> None:
    if isinstance(answer, RequestError):
        reply.error(answer)
    else:
        reply.ok(orjson.dumps(shape(answer)))


def _name(body: dict[str, Any]) -> str:
    name = body.get("Name")
    if not isinstance(name, str):
        raise ValidationError("Name must be the name of a subscription")
    return name


def _refuse_declared(node: "Node", name: str) -> None:
    """What a file declares is made anew a second later, and would be called for everything again."""
    reconciler = node.triggers.reconciler
    file = None if reconciler is None else reconciler.file_of(name)
    if file is not None:
        raise ValidationError(f"Subscription {name} is declared in {file}: change it there, or pause it")


def _split(body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return _name(body), {member: value for member, value in body.items() if member != "Name"}


def _start(node: "Node", start: Any) -> Any:
    """A Start without a position; all else is judged where settings are."""
    is_position = isinstance(start, dict) and start.get("At") == "POSITION"
    return read_start(node, start) if is_position else start
