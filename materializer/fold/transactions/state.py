"""What a partition remembers of transactions that take more than one step.

    Transactions
    ├── under_way: number -> UnderWay                    as their coordinator
    ├── prepared: (coordinator, number) -> Prepared      as a participant
    └── held: key -> (coordinator, number)               the keys of what is prepared

Most partitions at most moments remember nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ....log.commands import Action, Check, Delete, Put, Vote

Key: TypeAlias = tuple[int, bytes, bytes]  # table id, partition key, sort key
Name: TypeAlias = tuple[int, int]  # of a transaction, everywhere: its coordinator and its number there

# What an action comes to: the item as it will be, its removal, or nothing but that nobody writes it meanwhile.
Effect: TypeAlias = Put | Delete | Check


@dataclass(slots=True)
class UnderWay:
    """A transaction at its coordinator.

    Attributes:
        begun: Log time when it began.
        parts: Of each participant, by number, the places of its actions in the transaction.
        votes: What participants said of their actions.
        commit: The decision; None before it.
        awaited: The participants that have yet to say that they folded the decision.
        places: Where in its log each of the others did what it has told of last: offset and index.
        answered: Its client knows already, for it was given up.
        place: Offset, with the log's base, and index of the Transact; None of one that began below level 3.
    """

    begun: int
    token: str | None
    fingerprint: bytes
    parts: dict[int, Sequence[int]]
    votes: dict[int, Vote] = field(default_factory=dict)
    commit: bool | None = None
    awaited: list[int] = field(default_factory=list)
    places: dict[int, tuple[int, int]] = field(default_factory=dict)
    answered: bool = False
    place: tuple[int, int] | None = None


@dataclass(slots=True)
class Prepared:
    """A participant's part of a transaction: what is to be done at a commit, and at which places of it.

    The items are those that the vote was about, whatever becomes of the table meanwhile: so nothing can refuse them.
    """

    nths: Sequence[int]
    effects: Sequence[Effect]


@dataclass(slots=True)
class Transactions:
    """The transactions under way, and the keys that they hold. `tokens` are those of what is under way."""

    next_number: int = 0
    under_way: dict[int, UnderWay] = field(default_factory=dict)
    tokens: dict[str, int] = field(default_factory=dict)
    prepared: dict[Name, Prepared] = field(default_factory=dict)
    held: dict[Key, Name] = field(default_factory=dict)

    @property
    def idle(self) -> bool:
        """Whether nothing is under way here, and no key held."""
        return not (self.under_way or self.prepared or self.held)

    def undecided(self) -> Iterator[tuple[int, int]]:
        """Number and beginning, in log time, of what may have to be given up; the oldest first."""
        for number, transaction in self.under_way.items():
            if transaction.commit is None:
                yield number, transaction.begun

    def begin(self, transaction: UnderWay) -> int:
        """Give a transaction its number."""
        number = self.next_number
        self.next_number += 1
        self.go_on(number, transaction)
        return number

    def go_on(self, number: int, transaction: UnderWay) -> None:
        """Remember a transaction that has its number."""
        self.under_way[number] = transaction
        if transaction.token is not None and not transaction.answered:
            self.tokens[transaction.token] = number

    def free_token(self, transaction: UnderWay) -> None:
        """Let the token be used again, or be known as used: the client is answered."""
        if transaction.token is not None:
            del self.tokens[transaction.token]

    def hold(self, name: Name, prepared: Prepared) -> None:
        """Keep a part, and its keys from everybody else."""
        self.prepared[name] = prepared
        for effect in prepared.effects:
            self.held[key_of(effect)] = name

    def release(self, name: Name) -> Prepared | None:
        """Forget a part and let its keys go; None if there is none of that name."""
        prepared = self.prepared.pop(name, None)
        if prepared is not None:
            for effect in prepared.effects:
                del self.held[key_of(effect)]
        return prepared


def key_of(action: Action) -> Key:
    """The key that an action is about."""
    return action.table, action.pk, action.sk
