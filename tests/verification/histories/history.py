"""The requests of clients and their results.

    called ──► answered, told   done, with this result             (or refused by a condition, with its result)
           ├──► answered        rejected: not applied, and never will be
           └──►                 in doubt: applied at any time since, or never

An operation is a transaction of steps, one per item; most have one. A million of them take half a gigabyte.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.verification.histories.model import LOOKS, Refused

# A read's position is a whole entry: it sorts after every index in the entry.
INDEX_BITS = 20
WHOLE_ENTRY = (1 << INDEX_BITS) - 1
PARTITION_BITS = 54  # and up
NEVER = 1 << 62


class ViolationError(AssertionError):
    """A history that no correct database could have produced."""


class Step(NamedTuple):
    """A request for one item; see model.py."""

    key: str
    verb: str
    argument: Any = None


class Operation(NamedTuple):
    """One request of one client.

    Attributes:
        called: When it was sent, in monotonic nanoseconds.
        answered: When its answer arrived; None if it never did.
        told: The answer to each step; None for an operation that was rejected or is in doubt.
        position: The position in the answer; see `position`.
    """

    client: int
    called: int
    answered: int | None
    steps: tuple[Step, ...]
    reported: tuple[Any, ...] | None
    position: int = -1

    @property
    def in_doubt(self) -> bool:
        return self.answered is None

    @property
    def refused(self) -> bool:
        reported = self.reported
        if reported is None or len(reported) == 1:
            return reported is not None and type(reported[0]) is Refused
        return any(type(one) is Refused for one in reported)

    @property
    def looks(self) -> bool:
        """Whether it is a read, with any result."""
        steps = self.steps
        return steps[0].verb in LOOKS and (len(steps) == 1 or all(step.verb in LOOKS for step in steps))

    def __str__(self) -> str:
        asked = ", ".join(
            f"{key} {verb}" + ("" if argument is None else f" {argument}")
            for key, verb, argument in self.steps
        )
        if self.answered is None:
            came = "in doubt"
        elif self.reported is None:
            came = "rejected"
        else:
            came = ", ".join("done" if one is None else str(one) for one in self.reported)
        until = "…" if self.answered is None else f"{self.answered}"
        where = "" if self.position < 0 else f" at {spelt(self.position)}"
        return f"client {self.client} [{self.called} {until}]{where}: {asked} -> {came}"


class History:
    """The operations of all clients, in the order in which they ended, over all runs.

    Attributes:
        operations: The requests; those that were never sent are not included.
        runs: When each run began. A run begins with a restarted server: operations in doubt from earlier runs have
            happened by then, or never will.
        appends: The number of transactions that append; it determines the lists in use.
        several: Whether the database has several partitions. Then positions of different partitions are not comparable,
            a
            transaction that a crash left in doubt may be applied in a later run, and reads without ConsistentRead are
            not for checkers of transactions.
    """

    def __init__(self, *, several: bool = False) -> None:
        self.several = several
        self.operations: list[Operation] = []
        self.runs: list[int] = []
        self.appends = 0
        self._run = -1
        self._numbers = iter(range(1, 1 << 62))  # unlike `count`, it can be copied

    def begin(self, run: int, now: int) -> None:
        """Note the beginning of a run; once per number, for all clients that join it. Numbers may be skipped."""
        assert run >= self._run, "runs are numbered upwards"
        if run > self._run:
            self._run = run
            self.runs.append(now)

    def fresh(self) -> int:
        """Return a number for a write that no other write has."""
        return next(self._numbers)

    def deadline(self, operation: Operation) -> int:
        """Return the time by which an operation in doubt has happened, if it ever does."""
        if self.several and is_transaction(operation):
            return NEVER
        following = bisect_right(self.runs, operation.called)
        return self.runs[following] if following < len(self.runs) else NEVER

    def reported(self) -> list[Operation]:
        """Return the operations with a result."""
        return [operation for operation in self.operations if operation.reported is not None]

    def by_partition(self) -> "list[History]":
        """Return the history that each partition's positions must explain; the whole one with one partition.

        With several partitions these are the registers, which no transaction writes: a transaction has a position in
        each.
        """
        if not self.several:
            return [self]
        singles = [one for one in self.operations if not is_transaction(one) and one.steps[0].key[0] == "r"]
        homes = {
            one.steps[0].key: one.position >> PARTITION_BITS for one in singles if one.reported is not None
        }
        parts = []
        for partition in sorted(set(homes.values())):
            part = History()
            part.runs = self.runs
            part.operations = [one for one in singles if homes.get(one.steps[0].key) == partition]
            parts.append(part)
        return parts

    def doubts(self) -> Iterator[Operation]:
        """Yield the operations in doubt that may have changed an item."""
        return (operation for operation in self.operations if operation.in_doubt and not operation.looks)

    def counts(self) -> dict[str, int]:
        """Return the number of operations of each kind."""
        reported = self.reported()
        return {
            "operations": len(self.operations),
            "told": len(reported),
            "acknowledged": sum(not operation.looks and not operation.refused for operation in reported),
            "transactions": sum(is_transaction(operation) for operation in reported),
            "in doubt": sum(operation.in_doubt for operation in self.operations),
            "runs": len(self.runs),
        }


def is_transaction(operation: Operation) -> bool:
    """Whether it was sent as a transaction, even of one step."""
    return len(operation.steps) > 1 or operation.steps[0].verb == "append"


def apart(operation: Operation) -> list[Operation]:
    """Return the results of a transaction that several partitions refused, each of a moment of its own.

    A participant that refuses holds no key, so another client may write before the next one refuses.
    """
    if not operation.refused or len(operation.steps) == 1:
        return [operation]
    reported = zip(operation.steps, operation.reported or (), strict=True)
    return [
        operation._replace(steps=(step,), reported=(result,))
        for step, result in reported
        if type(result) is Refused
    ]


def position(text: str) -> int:
    """Return the header `x-foldb-position` as a number that sorts like it, partition by partition; of a cut, its first.

    >>> position("17.0") < position("17.3") < position("17") < position("18.0") < position("1:3")
    True
    """
    partition, _, place = text.partition(",")[0].rpartition(":")
    offset, _, index = place.partition(".")
    return (
        int(partition or 0) << PARTITION_BITS
        | int(offset) << INDEX_BITS
        | (int(index) if index else WHOLE_ENTRY)
    )


def spelt(place: int) -> str:
    """Return the header of a number."""
    partition, place = place >> PARTITION_BITS, place & (1 << PARTITION_BITS) - 1
    offset, index = place >> INDEX_BITS, place & WHOLE_ENTRY
    within = f"{offset}" if index == WHOLE_ENTRY else f"{offset}.{index}"
    return f"{partition}:{within}" if partition else within
