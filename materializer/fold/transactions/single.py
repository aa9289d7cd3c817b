"""All of a transaction's actions, or none.

Where every key lives in one partition a transaction is one step: decide every action on the items as they
are, and apply the decisions only if none refuses. No key is in a transaction twice, so an action's decision
cannot depend on another's.
"""

from ....log.commands import Action, Put, Transact
from ....model.capacity import transaction_read_half_units
from ....model.errors import (
    ConditionalCheckFailedError,
    IdempotentParameterMismatchError,
    ItemCollectionSizeLimitError,
    Reason,
    RequestError,
    ResourceNotFoundError,
    TransactionCanceledError,
)
from ..outcomes import Applied, Outcome, Refused, Transacted, TransactionRefused, cost
from ..state import PartitionState, Table, Token
from ..writes import Decision, apply, decide


def transact(state: PartitionState, command: Transact, sequence_number: int) -> Outcome:
    """Fold a Transact.

    A token that was used in the last ten minutes of log time, for the same payload, means that the request
    has been done: nothing is done again, and looking costs what a transactional read would.
    """
    tables = [state.tables.get(action.table) for action in command.actions]
    state.forget_old_tokens()
    token = None if command.token is None else state.tokens.get(command.token)
    if token is not None:
        if token.fingerprint != command.fingerprint:
            return Refused(IdempotentParameterMismatchError())
        return Transacted(
            [_replayed(table, action) for table, action in zip(tables, command.actions, strict=True)],
            replayed=True,
        )

    places = {(action.table, action.pk, action.sk) for action in command.actions}
    assert len(places) == len(command.actions), "a transaction names an item twice"
    decisions = [
        Refused(ResourceNotFoundError()) if table is None else decide(table, action, state.limits)
        for table, action in zip(tables, command.actions, strict=True)
    ]
    if any(isinstance(decision, Refused) for decision in decisions):
        return _refused(decisions)

    applied = []
    for nth, action in enumerate(command.actions):
        table, decision = tables[nth], decisions[nth]
        assert table is not None
        assert isinstance(decision, Decision)
        applied.append(apply(table, action, decision, sequence_number + nth, state.log_time, twice=True))
    if command.token is not None:
        state.tokens[command.token] = Token(command.fingerprint, state.log_time)
    return Transacted(applied)


def _refused(decisions: list[Decision | Refused]) -> Outcome:
    reasons = []
    units = []
    for decision in decisions:
        if isinstance(decision, Refused):
            if isinstance(decision.error, ResourceNotFoundError):
                return Refused(decision.error)
            reasons.append(_reason(decision.error))
            units.append(2 * decision.units)
        else:
            reasons.append(Reason("None"))
            units.append(2 * cost(decision.old, decision.new))
    return TransactionRefused(TransactionCanceledError(reasons), units)


def _reason(error: RequestError) -> Reason:
    match error:
        case ConditionalCheckFailedError():
            return Reason("ConditionalCheckFailed", error.message, error.item)
        case ItemCollectionSizeLimitError():
            return Reason("ItemCollectionSizeLimitExceeded", error.message)
        case _:
            return Reason("ValidationError", error.message)


def _replayed(table: Table | None, action: Action) -> Applied:
    stored = None if table is None else table.items.get(action.pk, action.sk)
    size = stored[1] if stored is not None else action.size if isinstance(action, Put) else 0
    return Applied(action, stored, stored, 0, 0, looked=transaction_read_half_units(size) >> 1)
