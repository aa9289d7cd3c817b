"""The participant: judges its part of a transaction, holds the keys, and applies the decision.

It holds not the actions but their effects, the future items. So a commit cannot fail if the table changes between
vote and decision: a deleted table takes no effect, and a new or changed index takes an entry as a backfill
would enter it, or skips an item that it cannot take.
"""

from collections.abc import Sequence

from ....log.commands import Action, Check, Commit, Decide, Decided, Delete, Position, Prepare, Put, Vote
from ....model.index_keys import key_error_of_index
from ....model.limits import Limits
from ....model.values import load
from ..index_entries import index_updates
from ..outbox import send
from ..outcomes import Applied, MessageFolded, Share, changes_item
from ..state import FEED_LEVEL, PartitionState, Table
from ..storage import Stored
from ..writes import Decision, apply
from .state import Effect, Prepared, TransactionId
from .verdicts import collection_sizes, judge, verdict, write_verdicts


def prepare(state: PartitionState, sender: int, message: Prepare, sequence_number: int) -> MessageFolded:
    """Fold a Prepare: judge, hold the keys and vote."""
    vote = judge_part(state, (sender, message.transaction_number), message.nths, message.actions)
    send(state, sender, vote, sequence_number)
    return MessageFolded()


def decide(
    state: PartitionState, sender: int, message: Decide | Commit, sequence_number: int
) -> MessageFolded:
    """Fold a Decide or a Commit. A part that is not held, because it was refused, is confirmed as well."""
    share, commit = None, True
    if isinstance(message, Commit):
        share = Share(Position(sender, message.offset, message.index), message.changing)
    else:
        commit = message.commit
    applied = conclude(state, (sender, message.transaction_number), commit, sequence_number)
    send(state, sender, Decided(message.transaction_number), sequence_number)
    return MessageFolded(applied=applied, share=share)


def judge_part(
    state: PartitionState, transaction_id: TransactionId, nths: Sequence[int], actions: Sequence[Action]
) -> Vote:
    """Judge these actions of a transaction; if none is refused, hold their keys."""
    judged = [judge(state, action) for action in actions]
    decisions = [one for one in judged if isinstance(one, Decision)]
    if len(decisions) < len(judged):
        verdicts = [verdict(one) for one in judged]
        return Vote(transaction_id[1], False, write_verdicts(verdicts, state.limits))
    sizes = collection_sizes(state, actions, decisions)
    verdicts = [verdict(one, size) for one, size in zip(decisions, sizes, strict=True)]
    if state.level >= FEED_LEVEL:
        for one, decision in zip(verdicts, decisions, strict=True):
            one.changes = changes_item(decision.old, decision.new)
    effects = [_effect(action, decision) for action, decision in zip(actions, decisions, strict=True)]
    state.transactions.hold(transaction_id, Prepared(nths, effects, state.log_time))
    return Vote(transaction_id[1], True, write_verdicts(verdicts, state.limits))


def conclude(
    state: PartitionState, transaction_id: TransactionId, commit: bool, sequence_number: int
) -> list[Applied]:
    """Release the keys, and apply the effects on a commit."""
    prepared = state.transactions.release(transaction_id)
    if prepared is None or not commit:
        return []
    applied = []
    for nth, effect in zip(prepared.nths, prepared.effects, strict=True):
        table = state.tables.get(effect.table)
        if table is not None:
            decision = current_decision(table, effect, state.limits)
            applied.append(apply(state, table, effect, decision, sequence_number + nth, twice=True))
    return applied


def _effect(action: Action, decision: Decision) -> Effect:
    key = (action.table, action.pk, action.sk)
    if isinstance(action, Check):
        return Check(*key, action.context)
    if decision.new is None:
        return Delete(*key, action.context)
    return Put(*key, *decision.new, action.context)


def current_decision(table: Table, effect: Effect, limits: Limits) -> Decision:
    """Return the decision that applies an effect to the table and its indexes as they are now. It cannot be refused."""
    old = table.items.get(effect.pk, effect.sk)
    if isinstance(effect, Check):
        return Decision(old, old, [])
    new: Stored | None = (effect.item, effect.size) if isinstance(effect, Put) else None
    if not table.indexes:
        return Decision(old, new, [])
    item = None if new is None else load(new[0])
    changes = index_updates(
        table,
        effect.pk,
        effect.sk,
        None if old is None else (load(old[0]), old),
        None if item is None or new is None else (item, new),
        limits,
    )
    for update in changes:
        if item is not None and key_error_of_index(update.index.definition, item, limits) is not None:
            update.new_key = update.entry = None
    return Decision(old, new, changes)
