"""The start of a transaction: detect a repeated request, and choose between one step and several.

A ClientRequestToken makes a repeated request harmless. It is stored in the partition that its hash selects, and a
transaction with a token begins there: so the repeated use of a token is detected for any keys.
"""

from typing import Final

from ....log.commands import Action, Put, Transact
from ....model.capacity import transaction_read_half_units
from ....model.errors import IdempotentParameterMismatchError, TransactionInProgressError
from ....model.slots import partition_of_key
from ..outcomes import Applied, Outcome, Refused, Transacted
from ..state import PartitionState, TransactionToken
from ..writes import Decision, apply
from . import coordinator
from .verdicts import judge, refusal, verdict

_IN_PROGRESS: Final = "The transaction with the given request token is already in progress."


def transact(state: PartitionState, command: Transact, sequence_number: int) -> Outcome:
    """Fold a Transact."""
    state.forget_old_tokens()
    if command.token is not None:
        before = _before(state, command, command.token)
        if before is not None:
            return before
    keys = {(action.table, action.pk, action.sk) for action in command.actions}
    assert len(keys) == len(command.actions), "a transaction names an item twice"
    parts = _parts(state, command)
    if parts is not None:
        return coordinator.begin(state, command, parts, sequence_number)
    outcome = _transact_here(state, command, sequence_number)
    if command.token is not None and isinstance(outcome, Transacted):
        state.tokens[command.token] = TransactionToken(command.fingerprint, state.log_time)
    return outcome


def _parts(state: PartitionState, command: Transact) -> dict[int, list[int]] | None:
    """Return the indexes of the actions by the partition of their keys; None if all are in this partition."""
    if state.partitions == 1:
        return None
    parts: dict[int, list[int]] = {}
    for nth, action in enumerate(command.actions):
        parts.setdefault(partition_of_key(action.table, action.pk, state.partitions), []).append(nth)
    return None if list(parts) == [state.partition] else dict(sorted(parts.items()))


def _before(state: PartitionState, command: Transact, token: str) -> Outcome | None:
    """Return the outcome for a token that was used in the last ten minutes of log time; None for a new token.

    With the same payload the request has been done already: nothing is applied again, and the cost is that of a
    transactional read.
    """
    transaction_number = state.transactions.tokens.get(token)
    used = (
        state.tokens.get(token)
        if transaction_number is None
        else state.transactions.under_way[transaction_number]
    )
    if used is None:
        return None
    if used.fingerprint != command.fingerprint:
        return Refused(IdempotentParameterMismatchError())
    if transaction_number is not None:
        return Refused(TransactionInProgressError(_IN_PROGRESS))
    return Transacted([_replayed(state, action) for action in command.actions], replayed=True)


def _replayed(state: PartitionState, action: Action) -> Applied:
    """Return an action that was applied before, with the cost of reading its item.

    An item in another partition is not read: a put counts as the item of the request, and any other action as the
    smallest.
    """
    table = state.tables.get(action.table)
    stored = None if table is None else table.items.get(action.pk, action.sk)
    size = stored[1] if stored is not None else action.size if isinstance(action, Put) else 0
    return Applied(action, stored, stored, 0, 0, replayed_units=transaction_read_half_units(size) >> 1)


def _transact_here(state: PartitionState, command: Transact, sequence_number: int) -> Outcome:
    """Decide all actions on the current items, and apply the decisions if none is refused.

    A transaction names each key once, so an action's decision cannot depend on another's.
    """
    decisions = [judge(state, action) for action in command.actions]
    if any(isinstance(decision, Refused) for decision in decisions):
        return refusal(map(verdict, decisions))

    applied = []
    for nth, (action, decision) in enumerate(zip(command.actions, decisions, strict=True)):
        assert isinstance(decision, Decision)
        table = state.tables[action.table]
        applied.append(apply(state, table, action, decision, sequence_number + nth, twice=True))
    return Transacted(applied)
