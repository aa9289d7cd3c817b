"""TransactGetItems over partitions on other nodes, or on a log to which other processes append.

    first read of each partition ──► no conflict ──► second read of each ──► no conflict ──► the items of the first
              ▲                        │                                       │
              └──── after a pause ─────┴───────────────────────────────────────┘

If no key has changed at the second reads, all items had these values at the moment between the first and the second
reads. Proof: each first read was folded before that moment, and each second read covers the end of its log after it.
No key changed in between. A transaction that has written one of the keys by that moment was prepared at the others
before it. There it was applied before the first read, or it is a change, or the second read finds the key held.

The first read waits for transactions, and delays new writes of its keys until the second (materializer/write_holds.py).
So a conflict is seldom, and then mostly with a transaction.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from ...log.commands import Position
from ...materializer.partition import (
    FIRST_READ,
    Conflict,
    EncodedKey,
    OnFound,
    Partition,
    ResultPosition,
    Since,
)
from ...materializer.worker import Scheduler
from .fan_in import FanIn, first_error, in_order, joined

ATTEMPTS: Final = 8
_FIRST_PAUSE_S: Final = 0.001  # after the first conflict; it doubles with each further one


class IsolatedRead:
    """One TransactGetItems.

    Args:
        partitions: All partitions, by id.
        keys: The keys to read.
        parts: The indexes of the keys, by partition.
        scheduler: The event loop.
        done: Receives the items, of which some are a Conflict if every attempt has met one.
    """

    def __init__(
        self,
        partitions: Sequence[Partition],
        keys: Sequence[EncodedKey],
        parts: Mapping[int, Sequence[int]],
        scheduler: Scheduler,
        done: OnFound,
    ) -> None:
        self._partitions = partitions
        self._keys = {partition: [keys[index] for index in parts[partition]] for partition in parts}
        self._parts = parts
        self._scheduler = scheduler
        self._done = done
        self._attempts = 0

    def attempt(self) -> None:
        """Read each partition twice, or the only one once: its items are of one position in any case."""
        self._attempts += 1
        if len(self._parts) == 1:
            self._read(dict.fromkeys(self._parts), self._finish)
        else:
            self._read(dict.fromkeys(self._parts, FIRST_READ), self._read_again)

    def _read(
        self, since: Mapping[int, Since], done: Callable[[list[Any], list[ResultPosition]], None]
    ) -> None:
        fan_in = FanIn(len(since), done)
        for nth, (partition, each) in enumerate(since.items()):
            self._partitions[partition].get_isolated(self._keys[partition], each, partial(fan_in.add, nth))

    def _read_again(self, first: list[Any], positions: list[ResultPosition]) -> None:
        seen = {each.partition: each for each in positions if isinstance(each, Position)}
        if first_error(first) is None and not any(map(_has_conflict, first)):
            # The items of a second read without a conflict are those of the first.
            self._read({partition: seen[partition] for partition in self._parts}, self._finish)
            return
        read = {
            partition: seen[partition]
            for partition, found in zip(self._parts, first, strict=True)
            if isinstance(found, list) and not _has_conflict(found)
        }
        if read:  # the second read releases the writes
            self._read(read, lambda *_: None)
        self._finish(first, positions)

    def _finish(self, results: list[Any], positions: list[ResultPosition]) -> None:
        """Answer, or try again after a conflict."""
        error = first_error(results)
        if error is None and any(map(_has_conflict, results)) and self._attempts < ATTEMPTS:
            pause = _FIRST_PAUSE_S * 2 ** (self._attempts - 1)
            self._scheduler.call_later(pause, self.attempt)
        else:
            self._done(error or in_order(self._parts.values(), results), joined(positions))


def _has_conflict(found: Any) -> bool:
    return isinstance(found, list) and any(isinstance(each, Conflict) for each in found)
