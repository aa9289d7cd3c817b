"""What a participant says of each of its actions, and what comes of all that was said.

    judge ──► Decision or Refused ──► Verdict ──► in a Vote, as JSON ──► the transaction's outcome

A transaction that is refused tells its client why at the place of each action: the same reasons, whether one partition
was asked or many.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from ....log.commands import Action
from ....model.errors import (
    ConditionalCheckFailedError,
    ItemCollectionSizeLimitError,
    Reason,
    RequestError,
    ResourceNotFoundError,
    TransactionCanceledError,
    TransactionConflictError,
)
from ....model.limits import Limits
from ..outcomes import Outcome, Refused, Skipped, TransactionRefused, Units
from ..state import PartitionState
from ..writes import Decision, decide, units_of
from .state import key_of

HOLDS = "None"
CONFLICT = "TransactionConflict"
_NO_TABLE = "ResourceNotFound"


@dataclass(slots=True)
class Verdict:
    """What one action costs, and why it cannot go through; `reason.code` is "None" if it can.

    `units` are those of a transaction: twice what the table takes. `collection_size` is the item collection's after
    the action, where the table has a local index. `changes` is whether it changes an item; below level 3 nobody asks.
    """

    units: Units
    reason: Reason
    collection_size: int | None = None
    changes: bool | None = None


def judge(state: PartitionState, action: Action) -> Decision | Refused:
    """Judge one action of a transaction on the items as they are. Changes nothing."""
    table = state.tables.get(action.table)
    if table is None:
        return Refused(ResourceNotFoundError())
    held = state.transactions.held
    if held and key_of(action) in held:
        return Refused(TransactionConflictError())
    return decide(table, action, state.limits, state.level)


def verdict(judged: Decision | Refused, collection_size: int | None = None) -> Verdict:
    """What to say of an action that was judged."""
    if isinstance(judged, Refused):
        return Verdict(Units(2 * judged.units), _reason(judged.error))
    units = units_of(judged)
    units.table *= 2
    return Verdict(units, Reason(HOLDS), collection_size)


def unheard() -> Verdict:
    """What is said of an action whose participant has not said anything."""
    error = TransactionConflictError()
    return Verdict(Units(0), Reason(CONFLICT, error.message))


def refusal(verdicts: Iterable[Verdict]) -> Outcome:
    """The outcome of a transaction that does not go through.

    Where a table is not known no reasons are told. It may be that the partition has not heard of it yet.
    """
    verdicts = list(verdicts)
    if any(one.reason.code == _NO_TABLE for one in verdicts):
        return Skipped("no such table")
    error = TransactionCanceledError([one.reason for one in verdicts])
    return TransactionRefused(error, [one.units.table for one in verdicts])


def collection_sizes(
    state: PartitionState, actions: Sequence[Action], decisions: Sequence[Decision]
) -> list[int | None]:
    """How large the item collections of tables with local indexes will be, action after action."""
    grown: dict[tuple[int, bytes], int] = {}
    sizes: list[int | None] = []
    for action, decision in zip(actions, decisions, strict=True):
        table = state.tables[action.table]
        if not table.has_lsi or not (decision.old or decision.new):
            sizes.append(None)
            continue
        collection = action.table, action.pk
        if collection not in grown:
            grown[collection] = table.collection_size(action.pk)
        grown[collection] += _growth(decision)
        sizes.append(grown[collection])
    return sizes


def write(verdicts: Iterable[Verdict], limits: Limits) -> bytes:
    """Verdicts as canonical JSON.

    The items in the way are told as long as there are no more of them than a transaction may be about: nobody has
    to be told, and the message is a command like any other.
    """
    room = limits.transaction_bytes
    written = []
    for one in verdicts:
        units, reason = one.units, one.reason
        room -= 0 if reason.item is None else len(reason.item)
        written.append(
            {
                "units": [units.table, units.local, units.glob],
                "collection": one.collection_size,
                **({} if one.changes is None else {"changes": one.changes}),
                "reason": [
                    reason.code,
                    reason.message,
                    None if reason.item is None or room < 0 else reason.item.decode(),
                ],
            }
        )
    return orjson.dumps(written, option=orjson.OPT_SORT_KEYS)


def read(verdicts: bytes) -> list[Verdict]:
    """What `write` wrote."""
    return [_read(one) for one in orjson.loads(verdicts)]


def _read(written: dict[str, Any]) -> Verdict:
    code, message, item = written["reason"]
    reason = Reason(code, message, None if item is None else item.encode())
    return Verdict(Units(*written["units"]), reason, written["collection"], written.get("changes"))


def _growth(decision: Decision) -> int:
    """By how much a decision makes its item collection larger: the item, and its entries in local indexes."""
    growth = (decision.new[1] if decision.new else 0) - (decision.old[1] if decision.old else 0)
    for move in decision.moves:
        if move.index.definition.kind == "LSI":
            before = None if move.source is None else move.index.store.get(*move.source)
            growth += (move.stored[1] if move.stored else 0) - (before[1] if before else 0)
    return growth


def _reason(error: RequestError) -> Reason:
    match error:
        case ConditionalCheckFailedError():
            return Reason("ConditionalCheckFailed", error.message, error.item)
        case ItemCollectionSizeLimitError():
            return Reason("ItemCollectionSizeLimitExceeded", error.message)
        case TransactionConflictError():
            return Reason(CONFLICT, error.message)
        case ResourceNotFoundError():
            return Reason(_NO_TABLE, error.message)
        case _:
            return Reason("ValidationError", error.message)
