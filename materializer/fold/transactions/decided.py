"""The decided effects: those of transactions that their coordinator has committed, and a participant not yet applied.

    coordinator   under way: commit ──► Commit, on its way ──► participant   prepared: effects, applied soon

With the states of all partitions at one instant, these effects and the stores are the items at that instant. An effect
whose transaction is undecided is no item yet: its client has no answer, and no partition has applied a part of it.

A transaction of one other partition is committed before it is judged there (coordinator.py). It counts from the step
that prepares it: a part that holds its keys was not refused.
"""

from collections.abc import Iterator, Sequence

from ..state import PartitionState
from ..storage import EncodedKey
from .state import Effect, TransactionId, key_of


def decided_effect(
    states: Sequence[PartitionState], partition: int, key: EncodedKey
) -> tuple[int, Effect] | None:
    """Return the coordinator and the decided effect on a key of a partition; None if there is none."""
    transactions = states[partition].transactions
    transaction_id = transactions.held.get(key)
    if transaction_id is None or not _is_committed(states, transaction_id):
        return None
    effects = transactions.prepared[transaction_id].effects
    return transaction_id[0], next(effect for effect in effects if key_of(effect) == key)


def decided_effects(
    states: Sequence[PartitionState], partition: int, table: int
) -> Iterator[tuple[int, Effect]]:
    """Yield the decided effects on a table in a partition, each with its coordinator."""
    for transaction_id, prepared in states[partition].transactions.prepared.items():
        if _is_committed(states, transaction_id):
            for effect in prepared.effects:
                if effect.table == table:
                    yield transaction_id[0], effect


def _is_committed(states: Sequence[PartitionState], transaction_id: TransactionId) -> bool:
    coordinator, transaction_number = transaction_id
    under_way = states[coordinator].transactions.under_way.get(transaction_number)
    # The coordinator lacks a transaction only if a Skip declares its Transact void: then it commits nothing.
    return under_way is not None and under_way.commit is True
