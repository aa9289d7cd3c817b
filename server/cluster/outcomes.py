"""Outcomes as what msgpack writes, and back.

What the caller has is not sent to it again: the actions are those of its command, and the item that a put left is
the one it asked for. What only the partition's own worker needs stays there: a `Taken` is told by its number.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson

from ...log.commands import Action, Command, Context, Put
from ...materializer.fold.outcomes import (
    Applied,
    Change,
    CostOnly,
    Defined,
    Done,
    Failed,
    MessageFolded,
    Outcome,
    Refused,
    Skipped,
    Subscribed,
    Transacted,
    TransactionRefused,
    TransactionStarted,
    Units,
)
from ...model.subscriptions import Subscription
from ...model.tables import TableDefinition
from . import plain
from .plain import Plain


def outcome(value: Outcome) -> Plain:
    """An outcome, its kind first."""
    kind, write = _WRITE[type(value)]
    return [kind, *write(value)]


def read_outcome(data: Plain, command: Command) -> Outcome:
    """The outcome of `command`."""
    kind, *members = data
    read: Callable[..., Outcome] = _READ[kind]
    return read(command, *members)


_SAME: Final = True  # in place of an item: that of the put


def _applied(value: Applied) -> Plain:
    action = value.action
    same = isinstance(action, Put) and value.new == (action.item, action.size)
    return [
        plain.stored(value.old),
        _SAME if same else plain.stored(value.new),
        str(value.sequence_number),  # too long for an integer of msgpack
        value.time,
        value.attributes,
        value.collection_size,
        value.local,
        value.glob,
        value.twice,
        value.looked,
    ]


def _read_applied(action: Any, old: Plain, new: Plain, number: str, time: int, *more: Any) -> Applied:
    left = (action.item, action.size) if new is _SAME else plain.read_stored(new)
    return Applied(action, plain.read_stored(old), left, int(number), time, *more)


def _transacted(value: Transacted) -> Plain:
    return [[_acted(one) for one in value.actions], value.replayed]


def _acted(value: Applied | CostOnly) -> Plain:
    if isinstance(value, Applied):
        return _applied(value)
    units = value.units
    return {"units": [units.table, units.local, units.glob], "size": value.collection_size}


def _read_transacted(command: Any, actions: Sequence[Plain], replayed: bool) -> Transacted:
    asked: Sequence[Action] = command.actions
    return Transacted([_read_acted(*each) for each in zip(asked, actions, strict=True)], replayed)


def _read_acted(action: Action, data: Plain) -> Applied | CostOnly:
    if isinstance(data, dict):
        return CostOnly(Units(*data["units"]), data["size"])
    return _read_applied(action, *data)


def _done(value: Done) -> Plain:
    change = value.change
    if change is None:
        return [value.progressed, None]
    return [
        value.progressed,
        [
            change.table,
            change.pk,
            change.sk,
            change.old,
            change.new,
            str(change.sequence_number),
            change.time,
            change.context.encoded,
        ],
    ]


def _read_done(_: Command, progressed: bool, change: Plain) -> Done:
    if change is None:
        return Done(progressed)
    table, pk, sk, old, new, number, time, context = change
    return Done(progressed, Change(table, pk, sk, old, new, int(number), time, Context.of(context)))


_Write = Callable[[Any], Plain]
_KINDS: Final[list[tuple[type[Outcome], _Write, Callable[..., Outcome]]]] = [
    # The place is what is sent. Add at the end only.
    (Applied, _applied, _read_applied),
    (
        Refused,
        lambda value: [plain.error(value.error), value.units],
        lambda _, error, units: Refused(plain.read_error(error), units),
    ),
    (Transacted, _transacted, _read_transacted),
    (
        TransactionRefused,
        lambda value: [plain.error(value.error), value.units],
        lambda _, error, units: TransactionRefused(plain.read_error(error), units),
    ),
    (
        Defined,
        lambda value: [orjson.dumps(value.definition.to_json())],
        lambda _, data: Defined(TableDefinition.from_json(orjson.loads(data))),
    ),
    (Done, _done, _read_done),
    (Skipped, lambda value: [value.why], lambda _, why: Skipped(why)),
    (Failed, lambda value: [plain.error(value.error)], lambda _, error: Failed(plain.read_error(error))),
    (
        TransactionStarted,
        lambda value: [value.transaction_number],
        lambda _, number: TransactionStarted(number),
    ),
    (
        MessageFolded,
        lambda value: [value.through_message, value.time],
        lambda _, through, time: MessageFolded(through, time=time),
    ),
    (
        Subscribed,
        lambda value: [orjson.dumps(value.subscription.to_json()), value.version],
        lambda _, data, version: Subscribed(Subscription.from_json(orjson.loads(data)), version),
    ),
]
_WRITE: Final[dict[type[Outcome], tuple[int, _Write]]] = {
    kind: (number, write) for number, (kind, write, _) in enumerate(_KINDS)
}
_READ: Final = [read for _, _, read in _KINDS]
