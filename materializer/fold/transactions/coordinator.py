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
    place_of,
)
from ..state import FEED_LEVEL, PartitionState, Token
from .participant import conclude, judge_part
from .state import UnderWay
from .verdicts import Verdict, read, refusal, unheard

# The time, in log time, after which an undecided transaction can be aborted. It is part of the meaning of an Abandon.
ABANDON_AFTER_MS: Final = 10_000


def begin(
    state: PartitionState, command: Transact, parts: Mapping[int, Sequence[int]], sequence_number: int
) -> Outcome:
    """Send Prepare to the participants; `parts` maps each to the indexes of its actions."""
    me = state.partition
    transaction = UnderWay(state.log_time, command.token, command.fingerprint, dict(parts))
    if state.level >= FEED_LEVEL:
        transaction.place = place_of(sequence_number)
    number = state.transactions.begin(transaction)
    for partition, nths in parts.items():
        actions = [command.actions[nth] for nth in nths]
        if partition == me:
            transaction.votes[me] = judge_part(state, (me, number), nths, actions)
        else:
            send(state, partition, Prepare(number, nths, actions), sequence_number)
    if len(parts) == 1:
        _decide(state, number, transaction, True, sequence_number)
    return TransactionStarted(number)


def vote(
    state: PartitionState, sender: int, message: Vote, place: tuple[int, int], sequence_number: int
) -> MessageFolded:
    """Fold a Vote: decide after the last one."""
    transaction = state.transactions.under_way.get(message.transaction_number)
    if transaction is None or sender not in transaction.parts:
        return MessageFolded()
    transaction.votes.setdefault(sender, message)
    transaction.places[sender] = place
    if transaction.commit is not None or len(transaction.votes) < len(transaction.parts):
        return MessageFolded()
    commit = all(one.holds for one in transaction.votes.values())
    applied = _decide(state, message.transaction_number, transaction, commit, sequence_number)
    resolved = _ended(state, message.transaction_number, transaction)
    return MessageFolded(
        applied=applied, resolved=resolved, share=_share(state, transaction) if applied else None
    )


def decided(state: PartitionState, sender: int, message: Decided, place: tuple[int, int]) -> MessageFolded:
    """Fold a Decided: answer the client after the last one."""
    transaction = state.transactions.under_way.get(message.transaction_number)
    if transaction is None or sender not in transaction.awaited:
        return MessageFolded()
    transaction.awaited.remove(sender)
    transaction.places[sender] = place
    return MessageFolded(resolved=_ended(state, message.transaction_number, transaction))


def abandon(state: PartitionState, command: Abandon, sequence_number: int) -> MessageFolded:
    """Fold an Abandon: abort a transaction that is undecided for too long, and answer its client at once."""
    transaction = state.transactions.under_way.get(command.transaction_number)
    if transaction is None or transaction.commit is not None:
        return MessageFolded()
    if state.log_time - transaction.begun < ABANDON_AFTER_MS:
        return MessageFolded()
    _decide(state, command.transaction_number, transaction, False, sequence_number)
    resolved = [_resolved(command.transaction_number, transaction)]
    state.transactions.free_token(transaction)
    transaction.answered = True
    _ended(state, command.transaction_number, transaction)
    return MessageFolded(resolved=resolved)


def _decide(
    state: PartitionState, number: int, transaction: UnderWay, commit: bool, sequence_number: int
) -> list[Applied]:
    """Send the decision to all participants that hold keys or may do so; one that refused holds none."""
    applied: list[Applied] = []
    transaction.commit = commit
    share = _share(state, transaction) if commit else None
    decision: Decide | Commit = Decide(number, commit)
    if transaction.place is not None and share is not None:
        decision = Commit(number, *transaction.place, share.changing)
    for partition in transaction.parts:
        said = transaction.votes.get(partition)
        if said is not None and not said.holds:
            continue
        if partition == state.partition:
            applied = conclude(state, (partition, number), commit, sequence_number)
        else:
            transaction.awaited.append(partition)
            send(state, partition, decision, sequence_number)
    return applied


def _share(state: PartitionState, transaction: UnderWay) -> Share | None:
    """Return the share that identifies the changes of a committed transaction; None if it is unknown.

    A transaction that began below level 3 has no position, and a vote at that level does not tell which actions change.
    """
    if transaction.place is None:
        return None
    transact = Position(state.partition, *transaction.place)
    if len(transaction.votes) < len(transaction.parts):
        return Share(transact, None)
    changing: list[int] = []
    for partition, nths in transaction.parts.items():
        for nth, one in zip(nths, read(transaction.votes[partition].verdicts), strict=True):
            if one.changes is None:
                return None
            if one.changes:
                changing.append(nth)
    return Share(transact, sorted(changing))


def _ended(state: PartitionState, number: int, transaction: UnderWay) -> list[Resolved]:
    """Remove a transaction that no participant still has to confirm; return its outcome for the client."""
    if transaction.awaited:
        return []
    del state.transactions.under_way[number]
    if transaction.answered:
        return []
    state.transactions.free_token(transaction)
    if transaction.token is not None and _is_done(transaction):
        state.tokens[transaction.token] = Token(transaction.fingerprint, state.log_time)
    return [_resolved(number, transaction)]


def _resolved(number: int, transaction: UnderWay) -> Resolved:
    places = (Position(partition, *place) for partition, place in sorted(transaction.places.items()))
    return Resolved(number, _outcome(transaction), tuple(places))


def _outcome(transaction: UnderWay) -> Outcome:
    """Return the outcome of a decided transaction."""
    verdicts: dict[int, Verdict] = {}
    for partition, nths in transaction.parts.items():
        said = transaction.votes.get(partition)
        each = [unheard() for _ in nths] if said is None else read(said.verdicts)
        verdicts.update(zip(nths, each, strict=True))
    ordered = [verdicts[nth] for nth in sorted(verdicts)]
    if _is_done(transaction):
        return Transacted([CostOnly(one.units, one.collection_size) for one in ordered])
    return refusal(ordered)


def _is_done(transaction: UnderWay) -> bool:
    """Whether a decided transaction was applied: it was committed, and no participant refused."""
    return bool(transaction.commit) and all(vote.holds for vote in transaction.votes.values())
