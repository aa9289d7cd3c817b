"""Conflicts by chance, for tests of applications: in one partition transactions never meet each other.

An application on DynamoDB has to expect that a transaction is cancelled because another one holds an item, and that a
write of that item is refused meanwhile. Here that happens to a share of its requests, whatever else is going on.
"""

from collections.abc import Callable, Sequence
from typing import Final

from ...log.commands import Command, Delete, Position, Put, Transact, Update
from ...materializer.fold.outcomes import Outcome, Refused, TransactionRefused
from ...materializer.partition import Conflict, Found, Key, Partition, Place
from ...model.errors import Reason, RequestError, TransactionCanceledError, TransactionConflictError
from .delegate import DelegatingPartition

_CHANCE_BYTES: Final = 4


class ConflictingPartition(DelegatingPartition):
    """A partition where a share of all writes, and of all transactions, meets a conflict instead of being done.

    Args:
        partition: The real one.
        rate: From 0 to 1: how large a share.
        random_bytes: Draws that many random bytes.
        position: Where such an answer says that it is true.
    """

    def __init__(
        self,
        partition: Partition,
        rate: float,
        random_bytes: Callable[[int], bytes],
        position: Callable[[], Position],
    ) -> None:
        super().__init__(partition)
        self._below = int(rate * 256**_CHANCE_BYTES)
        self._random_bytes = random_bytes
        self._position = position

    def submit(self, command: Command, size: int, done: Callable[[Outcome, Place], None]) -> None:
        """Pass a command on, or refuse it as if another transaction held its key, or one of its keys."""
        if not isinstance(command, Put | Update | Delete | Transact) or not self._strikes():
            self._partition.submit(command, size, done)
        elif isinstance(command, Transact):
            done(self._cancelled(len(command.actions)), self._position())
        else:
            done(Refused(TransactionConflictError()), self._position())

    def get_isolated(
        self,
        keys: Sequence[Key],
        since: Position | None,
        done: Callable[[list[Found] | RequestError, Place], None],
    ) -> None:
        """Read items, or find that another transaction holds one of them."""
        if not self._strikes():
            self._partition.get_isolated(keys, since, done)
            return
        found: list[Found] = [None] * len(keys)
        found[self._draw() % len(keys)] = Conflict()
        done(found, self._position())

    def _cancelled(self, actions: int) -> Outcome:
        reasons = [Reason("None")] * actions
        reasons[self._draw() % actions] = Reason("TransactionConflict", TransactionConflictError().message)
        return TransactionRefused(TransactionCanceledError(reasons), [0] * actions)

    def _strikes(self) -> bool:
        return self._draw() < self._below

    def _draw(self) -> int:
        return int.from_bytes(self._random_bytes(_CHANCE_BYTES))
