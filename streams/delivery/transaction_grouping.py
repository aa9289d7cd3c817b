"""Groups the changes of a transaction: they come from several sources, and are delivered together.

    change of a transaction ──► waits for the others ──► complete ──► released, in the order of the actions
    later change of its key ──► waits behind it

A transaction locks all its keys until it is decided, so transactions that share keys come in the same order at each of
them, and no two wait for each other. A transaction is complete when all its changes were read or, if one command made
them all, when every change of that command was read. A transaction over several partitions may also change tables that
the subscription does not read; it is released when no change of it was read for a second and none waits behind another
transaction.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import Final, NamedTuple

from ...materializer.fold.outcomes import Tx
from ...materializer.worker import Cancellable, Scheduler
from ...model.lazy_dataclass import dataclass
from ...model.sequence_numbers import SequenceNumber, last_of_command, position_of
from ..formats.table_view import Delivery
from .dead_letters import ItemKey, item_key_of

_QUIET_S: Final = 1.0


class FilteredChange(NamedTuple):
    """A change that was read, and whether it passes the filter."""

    delivery: Delivery
    passes: bool


@dataclass(slots=True)
class _Group:
    """The changes of one transaction read so far. If one command made all of it, `end` is their upper bound."""

    of: int
    partition: int
    end: int | None
    members: list[FilteredChange] = field(default_factory=list)
    timer: Cancellable | None = None


class TransactionGrouping:
    """Holds changes back until their transaction is complete."""

    def __init__(self, scheduler: Scheduler, release: Callable[[list[Delivery]], None]) -> None:
        """Call `release` with the changes of one transaction together, and with other changes one by one."""
        self._scheduler = scheduler
        self._release = release
        self._groups: dict[str, _Group] = {}
        self._behind: dict[
            ItemKey, list[FilteredChange]
        ] = {}  # changes that wait for the transaction that holds the key
        # By transaction: changes that wait behind another transaction, or are still in the queue.
        self._coming: Counter[str] = Counter()
        self._read: dict[int, int] = {}  # sequence number up to which each partition is read
        self._queue: deque[FilteredChange] = deque()

    def held(self) -> Iterator[Delivery]:
        """Yield the changes that are held back."""
        for group in self._groups.values():
            yield from (each.delivery for each in group.members)
        for behind in self._behind.values():
            yield from (each.delivery for each in behind)

    def partitions(self) -> set[int]:
        """Return the partitions that must be read further to know whether a transaction is complete."""
        return {
            group.partition
            for group in self._groups.values()
            if group.end is not None and group.end > self._read.get(group.partition, 0)
        }

    def add(self, changes: Iterable[FilteredChange]) -> None:
        """Add changes that were read; those of one partition and table in order."""
        for change in changes:
            tx = change.delivery.change.tx
            if tx is not None and tx.of > 1:
                self._coming[tx.id] += 1
            self._queue.append(change)
        self._process()

    def advance(self, partition: int, sequence_number: SequenceNumber) -> None:
        """Record that all changes of a partition up to `sequence_number` were added."""
        self._read[partition] = sequence_number
        for name in [name for name in self._groups if self._is_all_read(name)]:
            if name in self._groups and self._is_all_read(name):  # the loop may have released or extended it
                self._release_group(name)
                self._process()

    def close(self) -> None:
        """Cancel all timers; no change is released after this."""
        for group in self._groups.values():
            if group.timer is not None:
                group.timer.cancel()

    def _process(self) -> None:
        while self._queue:
            change = self._queue.popleft()
            key, tx = item_key_of(change.delivery), change.delivery.change.tx
            if key in self._behind:
                self._behind[key].append(change)
            elif tx is None or tx.of == 1:
                if change.passes:
                    self._release([change.delivery])
            else:
                self._join(key, tx, change)

    def _join(self, key: ItemKey, tx: Tx, change: FilteredChange) -> None:
        group = self._groups.get(tx.id)
        if group is None:
            group = self._groups[tx.id] = _Group(tx.of, change.delivery.partition, _end_of(change.delivery))
        self._behind[key] = []
        group.members.append(change)
        self._coming[tx.id] -= 1
        if group.timer is not None:
            group.timer.cancel()
        if len(group.members) == group.of or self._is_all_read(tx.id):
            self._release_group(tx.id)
        elif group.end is None:
            group.timer = self._scheduler.call_later(_QUIET_S, self._release_if_quiet, tx.id)

    def _is_all_read(self, name: str) -> bool:
        group = self._groups[name]
        return (
            group.end is not None
            and group.end <= self._read.get(group.partition, 0)
            and not self._coming[name]
        )

    def _release_if_quiet(self, name: str) -> None:
        """Release a transaction over partitions, unless changes of it wait behind another one."""
        if self._coming[name]:
            self._groups[name].timer = self._scheduler.call_later(_QUIET_S, self._release_if_quiet, name)
        else:
            self._release_group(name)
            self._process()

    def _release_group(self, name: str) -> None:
        group = self._groups.pop(name)
        group.members.sort(key=_action_index)
        passes = [each.delivery for each in group.members if each.passes]
        if passes:
            self._release(passes)
        for each in group.members:
            behind = self._behind.pop(item_key_of(each.delivery))
            self._queue.extendleft(reversed(behind))  # before all later changes
        if not self._coming[name]:
            del self._coming[name]


def _action_index(change: FilteredChange) -> int:
    tx = change.delivery.change.tx
    assert tx is not None, "a group has changes of transactions only"
    return tx.n


def _end_of(delivery: Delivery) -> int | None:
    """Return an upper bound of the transaction's sequence numbers, if one command made all of it."""
    change = delivery.change
    offset, index = position_of(change.sequence_number)
    tx = change.tx
    assert tx is not None, "the change is of a transaction"
    if tx.id not in (f"{offset}.{index}", f"{delivery.partition}:{offset}.{index}"):
        return None
    return last_of_command(change.sequence_number)
