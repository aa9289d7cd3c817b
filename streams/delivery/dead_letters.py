"""Dead letters: changes that could not be delivered, in the order of each item key.

While a key has an open dead letter, its later changes become dead letters too, so that a retry of the first one
delivers all of them in order. The server decides where and how dead letters are stored.
"""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from ...model.lazy_dataclass import dataclass
from ..formats.table_view import Delivery

ItemKey: TypeAlias = tuple[int, bytes, bytes]  # table id, partition key, sort key


def item_key_of(delivery: Delivery) -> ItemKey:
    """Return the key of the changed item; changes of one key are delivered in order."""
    change = delivery.change
    return change.table, change.pk, change.sk


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One change that could not be delivered.

    Attributes:
        delivery: The change.
        error: The error, in one line.
        traceback: The traceback, if the error has one.
        attempts: Number of attempts; 0 for a change that follows another dead letter of its key.
        first_ms: Time of the first attempt.
        last_ms: Time when it became a dead letter.
        version: Version of the code that was called.
    """

    delivery: Delivery
    error: str
    traceback: str | None
    attempts: int
    first_ms: int
    last_ms: int
    version: str


class DeadLetters(Protocol):
    """The store of a subscription's dead letters."""

    async def keys(self) -> dict[ItemKey, int]:
        """Return the keys that have open dead letters, with the sequence number of each key's first."""
        ...

    async def first(self, delivery: Delivery) -> int | None:
        """Return the sequence number of the first open dead letter of a delivery's key, if there is one."""
        ...

    async def write(self, dead_letters: Sequence[DeadLetter]) -> None:
        """Store dead letters durably. An existing one stays unchanged: a user may have edited it."""
        ...
