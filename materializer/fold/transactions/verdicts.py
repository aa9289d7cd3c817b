"""A participant's verdict on each action, and the outcome of all verdicts.

    judge ──► Decision or Refused ──► Verdict ──► in a Vote, as JSON ──► the transaction's outcome

A refused transaction gives its client one reason per action: the same reasons with one partition or several.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

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
from ....model.lazy_dataclass import dataclass
from ....model.limits import Limits
from ..outcomes import Outcome, Refused, Skipped, TransactionRefused, Units
from ..state import PartitionState
from ..writes import Decision, decide, units_of
from .state import key_of

HOLDS: Final = "None"
CONFLICT: Final = "TransactionConflict"
_NO_TABLE: Final = "ResourceNotFound"


@dataclass(slots=True)
class Verdict:
    """The cost of one action, and the reason for which it is refused; `reason.code` is "None" if it is not.

    `units` are those of a transaction: twice the table's. `collection_size` is that of the item collection after the
    action, if the table has a local index. `changes` is whether the action changes an item; None below level 3.
    """

    units: Units
    reason: Reason
    collection_size: int | None = None
    changes: bool | None = None


def judge(state: PartitionState, action: Action) -> Decision | Refused:
    """Judge one action of a transaction on the current items. Change nothing."""
    table = state.tables.get(action.table)
    if table is None:
        return Refused(ResourceNotFoundError())
    held = state.transactions.held
    if held and key_of(action) in held:
        return Refused(TransactionConflictError())
    return decide(table, action, state.limits, state.level)


def verdict(judged: Decision | Refused, collection_size: int | None = None) -> Verdict:
    """Return the verdict on a judged action."""
    if isinstance(judged, Refused):
        return Verdict(Units(2 * judged.units), _reason(judged.error))
    units = units_of(judged)
    units.table *= 2
    return Verdict(units, Reason(HOLDS), collection_size)


def missing_vote() -> Verdict:
    """Return the verdict on an action whose participant has not voted."""
    error = TransactionConflictError()
    return Verdict(Units(0), Reason(CONFLICT, error.message))


def refusal(verdicts: Iterable[Verdict]) -> Outcome:
    """Return the outcome of a refused transaction.

    An unknown table yields no reasons, because its definition may not have reached the partition yet.
    """
    verdicts = list(verdicts)
    if any(one.reason.code == _NO_TABLE for one in verdicts):
        return Skipped("no such table")
    error = TransactionCanceledError([one.reason for one in verdicts])
    return TransactionRefused(error, [one.units.table for one in verdicts])


def collection_sizes(
    state: PartitionState, actions: Sequence[Action], decisions: Sequence[Decision]
) -> list[int | None]:
    """Return the future sizes of the item collections of tables with local indexes, action by action."""
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


def write_verdicts(verdicts: Iterable[Verdict], limits: Limits) -> bytes:
    """Return verdicts as canonical JSON.

    The items of failed conditions are included up to the size limit of a transaction. They are optional, and the
    message has to fit into the log as any command.
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


def read_verdicts(verdicts: bytes) -> list[Verdict]:
    """Return the verdicts that `write` serialized."""
    return [_read(one) for one in orjson.loads(verdicts)]


def _read(written: dict[str, Any]) -> Verdict:
    code, message, item = written["reason"]
    reason = Reason(code, message, None if item is None else item.encode())
    return Verdict(Units(*written["units"]), reason, written["collection"], written.get("changes"))


def _growth(decision: Decision) -> int:
    """Return the growth of the item collection by a decision: of the item, and of its entries in local indexes."""
    growth = (decision.new[1] if decision.new else 0) - (decision.old[1] if decision.old else 0)
    for update in decision.index_updates:
        if update.index.definition.kind == "LSI":
            before = None if update.old_key is None else update.index.store.get(*update.old_key)
            growth += (update.entry[1] if update.entry else 0) - (before[1] if before else 0)
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
