"""A partition's memory of transactions that take more than one step.

    Transactions
    ├── under_way: number -> UnderWay                    as their coordinator
    ├── prepared: (coordinator, number) -> Prepared      as a participant
    └── held: key -> (coordinator, number)               the keys of prepared parts

It is empty in most partitions most of the time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import TypeAlias

from ....log.commands import Action, Check, Delete, Put, Vote
from ....model.lazy_dataclass import dataclass
from ..storage import EncodedKey

TransactionId: TypeAlias = tuple[int, int]  # coordinator of a transaction, and its number there

# The effect of an action: the future item, its removal, or a check, which only keeps others from writing.
Effect: TypeAlias = Put | Delete | Check


@dataclass(slots=True)
class UnderWay:
    """A transaction at its coordinator.

    Attributes:
        started_ms: Log time of its start.
        parts: By participant, the indexes of its actions in the transaction.
        votes: The votes received, by participant.
        commit: The decision; None before it.
        awaited: The participants that have not yet confirmed the decision.
        positions: By other participant, the position in its log that sent its last message: offset and index.
        answered: Whether the client is answered already, because the transaction was aborted.
        position: Offset and index of the Transact; None if it began below level 3.
    """

    started_ms: int
    token: str | None
    fingerprint: bytes
    parts: dict[int, Sequence[int]]
    votes: dict[int, Vote] = field(default_factory=dict)
    commit: bool | None = None
    awaited: list[int] = field(default_factory=list)
    positions: dict[int, tuple[int, int]] = field(default_factory=dict)
    answered: bool = False
    position: tuple[int, int] | None = None


@dataclass(slots=True)
class Prepared:
    """A participant's part of a transaction: the effects of a commit, and their indexes in the transaction.

    The items are those of the vote, also if the table has changed since: so nothing can refuse them. `time` is the log
    time of the vote; 0 if the part was loaded from a dump, which does not have it, because no fold depends on it.
    """

    nths: Sequence[int]
    effects: Sequence[Effect]
    time: int = field(default=0, compare=False)


@dataclass(slots=True)
class Transactions:
    """The transactions under way, and the keys that they hold. `tokens` are those of the transactions under way."""

    next_transaction_number: int = 0
    under_way: dict[int, UnderWay] = field(default_factory=dict)
    tokens: dict[str, int] = field(default_factory=dict)
    prepared: dict[TransactionId, Prepared] = field(default_factory=dict)
    held: dict[EncodedKey, TransactionId] = field(default_factory=dict)

    @property
    def idle(self) -> bool:
        """Whether no transaction is under way here, and no key is held."""
        return not (self.under_way or self.prepared or self.held)

    def undecided(self) -> Iterator[tuple[int, int]]:
        """Yield number and start, in log time, of the undecided transactions, oldest first."""
        for transaction_number, transaction in self.under_way.items():
            if transaction.commit is None:
                yield transaction_number, transaction.started_ms

    def begin(self, transaction: UnderWay) -> int:
        """Assign a transaction its number and add it."""
        transaction_number = self.next_transaction_number
        self.next_transaction_number += 1
        self.add(transaction_number, transaction)
        return transaction_number

    def add(self, transaction_number: int, transaction: UnderWay) -> None:
        """Add a transaction that has its number."""
        self.under_way[transaction_number] = transaction
        if transaction.token is not None and not transaction.answered:
            self.tokens[transaction.token] = transaction_number

    def free_token(self, transaction: UnderWay) -> None:
        """Release the token of a transaction that is answered."""
        if transaction.token is not None:
            del self.tokens[transaction.token]

    def hold(self, transaction_id: TransactionId, prepared: Prepared) -> None:
        """Add a prepared part and hold its keys."""
        self.prepared[transaction_id] = prepared
        for effect in prepared.effects:
            self.held[key_of(effect)] = transaction_id

    def release(self, transaction_id: TransactionId) -> Prepared | None:
        """Remove a part and release its keys; return None if it is unknown."""
        prepared = self.prepared.pop(transaction_id, None)
        if prepared is not None:
            for effect in prepared.effects:
                del self.held[key_of(effect)]
        return prepared


def key_of(action: Action) -> EncodedKey:
    """Return the key of an action."""
    return action.table, action.pk, action.sk
