"""What was given up: a letter a change, in the order of its key.

While a key has an open letter, its later changes become letters too, so that whoever mends the first one delivers
them in their order. What is kept of them, and where, the server knows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from ..formats.table_view import Delivery

Key: TypeAlias = tuple[int, bytes, bytes]  # table id, partition key, sort key


def key_of(delivery: Delivery) -> Key:
    """Whose order is kept."""
    change = delivery.change
    return change.table, change.pk, change.sk


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One change that was given up.

    Attributes:
        delivery: The change.
        error: Why, in a line.
        traceback: In many lines, if there are any.
        attempts: How often it was tried; 0 where it follows another letter of its key.
        first_ms: When it was first tried.
        last_ms: When it was given up.
        version: Of the code that was called.
    """

    delivery: Delivery
    error: str
    traceback: str | None
    attempts: int
    first_ms: int
    last_ms: int
    version: str


class DeadLetters(Protocol):
    """Where letters are kept."""

    async def keys(self) -> dict[Key, int]:
        """The keys that have open letters, with the number of each one's first."""
        ...

    async def first(self, delivery: Delivery) -> int | None:
        """The number of the first open letter of a delivery's key, if there is one now."""
        ...

    async def write(self, letters: Sequence[DeadLetter]) -> None:
        """Keep letters; they are safe when this returns. One that is there already stays as it is: it may be edited."""
        ...
