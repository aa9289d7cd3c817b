"""The wrappers around a partition, in a fixed order that is built once.

    hosted partition ──► BoundedPartition (memory_limit.py, only with a limit)
    partition or router ──► MeteredPartition (throttling/, only with --throttle)
        ──► ConflictingPartition (only with --transaction-conflicts) ──► ThrottledPartition ──► handlers

A wrapper overrides the methods that it changes. All others are the wrapped partition's own bound methods, so a wrapper
costs them nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ...log.commands import Check, Command, Delete, Position, Put, Transact, Update
from ...materializer.fold.outcomes import Failed, Outcome, Refused, TransactionRefused
from ...materializer.partition import (
    Conflict,
    EncodedKey,
    Found,
    OnFound,
    OnOutcome,
    Partition,
    Since,
)
from ...model.errors import (
    Reason,
    ThrottlingError,
    TransactionCanceledError,
    TransactionConflictError,
)

_CHANCE_BYTES: Final = 4


def chain_of(
    partition: Partition,
    conflict_rate: float,
    random_bytes: Callable[[int], bytes],
    position: Callable[[], Position],
) -> "ThrottledPartition":
    """Wrap the partition, or the router, of a node. `position` returns the position of the catalog."""
    if conflict_rate:
        partition = ConflictingPartition(partition, conflict_rate, random_bytes, position)
    return ThrottledPartition(partition, position)


class DelegatingPartition:
    """The methods that no wrapper changes: the wrapped partition's own bound methods."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self.get = partition.get
        self.get_all = partition.get_all
        self.query = partition.query
        self.scan = partition.scan
        self.reach = partition.reach
        self.status = partition.status


class ConflictingPartition(DelegatingPartition):
    """Makes a share of all writes and transactions fail with a conflict, so that clients can test their retries.

    DynamoDB reports such conflicts whenever transactions of several clients meet on one item.

    Args:
        partition: The wrapped partition.
        rate: The share, from 0 to 1.
        position: Returns the position that a conflict is reported for.
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

    def submit(self, command: Command, size: int, done: OnOutcome) -> None:
        """Submit a command, or refuse it as if another transaction held one of its keys."""
        if not isinstance(command, Put | Update | Delete | Transact) or not self._strikes():
            self._partition.submit(command, size, done)
        elif isinstance(command, Transact):
            done(self._cancelled(len(command.actions)), self._position())
        else:
            done(Refused(TransactionConflictError()), self._position())

    def get_isolated(self, keys: Sequence[EncodedKey], since: Since, done: OnFound) -> None:
        """Read items, or answer as if another transaction held one of them."""
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


class ThrottledPartition(DelegatingPartition):
    """Refuses writes to tables whose subscription is further behind than its MaximumLag.

    Writes of triggers are accepted: else a function that writes to its own table would wait for itself. While no table
    is throttled `submit` is the wrapped partition's own method.
    """

    def __init__(self, partition: Partition, position: Callable[[], Position]) -> None:
        super().__init__(partition)
        self.get_isolated = partition.get_isolated
        self.submit: Callable[[Command, int, OnOutcome], None] = partition.submit
        self._position = position
        self._throttled: Mapping[int, str] = {}

    def throttle(self, tables: Mapping[int, str]) -> None:
        """Refuse writes to these tables from now on, and to no others. The values are the names of subscriptions."""
        self._throttled = tables
        self.submit = self._submit if tables else self._partition.submit

    def _submit(self, command: Command, size: int, done: OnOutcome) -> None:
        name = self._throttled_by(command)
        if name is None:
            self._partition.submit(command, size, done)
        else:
            error = ThrottlingError(
                f"The subscription {name} is further behind than its MaximumLag. Try again."
            )
            done(Failed(error), self._position())

    def _throttled_by(self, command: Command) -> str | None:
        actions = command.actions if isinstance(command, Transact) else (command,)
        for action in actions:
            if isinstance(action, Check) or not isinstance(action, Put | Update | Delete):
                continue
            if action.table in self._throttled and action.context.source != "trigger":
                return self._throttled[action.table]
        return None
