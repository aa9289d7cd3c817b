"""The coordinator: it sends Prepare to the participants, decides after all votes, and answers after all have applied.

It may be a participant too: it judges and concludes its own part in the step in which it would send itself a message.

The first decision in its log counts: that of the last vote, or an Abandon that is folded before it. Later votes, and
other messages about a transaction that has ended, have no effect.

If all keys are in one other partition, and only the token is here, no vote is awaited: that partition receives
Prepare and Decide together, and commits if it refused no action.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from ....log.commands import Abandon, Commit, Decide, Decided, Position, Prepare, Transact, Vote
from ....model.sequence_numbers import position_of
from ..outbox import send
from ..outcomes import (
    Applied,
    CostOnly,
    MessageFolded,
    Outcome,
    Resolved,
    Share,
    Transacted,
    TransactionStarted,
)
from ..state import FEED_LEVEL, PartitionState, TransactionToken
from .participant import conclude, judge_part
from .state import UnderWay
from .verdicts import Verdict, missing_vote, read_verdicts, refusal

# The time, in log time, after which an undecided transaction can be aborted. It is part of the meaning of an Abandon.
ABANDON_AFTER_MS: Final = 10_000


def begin(
    state: PartitionState, command: Transact, parts: Mapping[int, Sequence[int]], sequence_number: int
) -> Outcome:
    """Send Prepare to the participants; `parts` maps each to the indexes of its actions."""
    own_id = state.partition
    transaction = UnderWay(state.log_time, command.token, command.fingerprint, dict(parts))
    if state.level >= FEED_LEVEL:
        transaction.position = position_of(sequence_number)
    transaction_number = state.transactions.begin(transaction)
    for partition, nths in parts.items():
        actions = [command.actions[nth] for nth in nths]
        if partition == own_id:
            transaction.votes[own_id] = judge_part(state, (own_id, transaction_number), nths, actions)
        else:
            send(state, partition, Prepare(transaction_number, nths, actions), sequence_number)
    if len(parts) == 1:
        _decide(state, transaction_number, transaction, True, sequence_number)
    return TransactionStarted(transaction_number)


def vote(
    state: PartitionState, sender: int, message: Vote, position: tuple[int, int], sequence_number: int
) -> MessageFolded:
    """Fold a Vote: decide after the last one."""
    transaction = state.transactions.under_way.get(message.transaction_number)
    if transaction is None or sender not in transaction.parts:
        return MessageFolded()
    transaction.votes.setdefault(sender, message)
    transaction.positions[sender] = position
    if transaction.commit is not None or len(transaction.votes) < len(transaction.parts):
        return MessageFolded()
    commit = all(one.holds for one in transaction.votes.values())
    applied = _decide(state, message.transaction_number, transaction, commit, sequence_number)
    resolved = _resolve(state, message.transaction_number, transaction)
    return MessageFolded(
        applied=applied, resolved=resolved, share=_share(state, transaction) if applied else None
    )


def decided(state: PartitionState, sender: int, message: Decided, position: tuple[int, int]) -> MessageFolded:
    """Fold a Decided: answer the client after the last one."""
    transaction = state.transactions.under_way.get(message.transaction_number)
    if transaction is None or sender not in transaction.awaited:
        return MessageFolded()
    transaction.awaited.remove(sender)
    transaction.positions[sender] = position
    return MessageFolded(resolved=_resolve(state, message.transaction_number, transaction))


def abandon(state: PartitionState, command: Abandon, sequence_number: int) -> MessageFolded:
    """Fold an Abandon: abort a transaction that is undecided for too long, and answer its client at once."""
    transaction = state.transactions.under_way.get(command.transaction_number)
    if transaction is None or transaction.commit is not None:
        return MessageFolded()
    if state.log_time - transaction.started_ms < ABANDON_AFTER_MS:
        return MessageFolded()
    _decide(state, command.transaction_number, transaction, False, sequence_number)
    resolved = [_resolved(command.transaction_number, transaction)]
    state.transactions.free_token(transaction)
    transaction.answered = True
    _resolve(state, command.transaction_number, transaction)
    return MessageFolded(resolved=resolved)


def _decide(
    state: PartitionState, transaction_number: int, transaction: UnderWay, commit: bool, sequence_number: int
) -> list[Applied]:
    """Send the decision to all participants that hold keys or may do so; one that refused holds none."""
    applied: list[Applied] = []
    transaction.commit = commit
    share = _share(state, transaction) if commit else None
    decision: Decide | Commit = Decide(transaction_number, commit)
    if transaction.position is not None and share is not None:
        decision = Commit(transaction_number, *transaction.position, share.changing)
    for partition in transaction.parts:
        received = transaction.votes.get(partition)
        if received is not None and not received.holds:
            continue
        if partition == state.partition:
            applied = conclude(state, (partition, transaction_number), commit, sequence_number)
        else:
            transaction.awaited.append(partition)
            send(state, partition, decision, sequence_number)
    return applied


def _share(state: PartitionState, transaction: UnderWay) -> Share | None:
    """Return the share that identifies the changes of a committed transaction; None if it is unknown.

    A transaction that began below level 3 has no position, and a vote at that level does not tell which actions change.
    """
    if transaction.position is None:
        return None
    transact = Position(state.partition, *transaction.position)
    if len(transaction.votes) < len(transaction.parts):
        return Share(transact, None)
    changing: list[int] = []
    for partition, nths in transaction.parts.items():
        for nth, one in zip(nths, read_verdicts(transaction.votes[partition].verdicts), strict=True):
            if one.changes is None:
                return None
            if one.changes:
                changing.append(nth)
    return Share(transact, sorted(changing))


def _resolve(state: PartitionState, transaction_number: int, transaction: UnderWay) -> list[Resolved]:
    """Remove a transaction that no participant still has to confirm; return its outcome for the client."""
    if transaction.awaited:
        return []
    del state.transactions.under_way[transaction_number]
    if transaction.answered:
        return []
    state.transactions.free_token(transaction)
    if transaction.token is not None and _is_applied(transaction):
        state.tokens[transaction.token] = TransactionToken(transaction.fingerprint, state.log_time)
    return [_resolved(transaction_number, transaction)]


def _resolved(transaction_number: int, transaction: UnderWay) -> Resolved:
    positions = tuple(
        Position(partition, *position) for partition, position in sorted(transaction.positions.items())
    )
    return Resolved(transaction_number, _outcome(transaction), positions)


def _outcome(transaction: UnderWay) -> Outcome:
    """Return the outcome of a decided transaction."""
    verdicts: dict[int, Verdict] = {}
    for partition, nths in transaction.parts.items():
        received = transaction.votes.get(partition)
        each = [missing_vote() for _ in nths] if received is None else read_verdicts(received.verdicts)
        verdicts.update(zip(nths, each, strict=True))
    ordered = [verdicts[nth] for nth in sorted(verdicts)]
    if _is_applied(transaction):
        return Transacted([CostOnly(one.units, one.collection_size) for one in ordered])
    return refusal(ordered)


def _is_applied(transaction: UnderWay) -> bool:
    """Whether a decided transaction was applied: it was committed, and no participant refused."""
    return bool(transaction.commit) and all(vote.holds for vote in transaction.votes.values())
