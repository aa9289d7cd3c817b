"""Transactions as they were made: their changes come from several places, and are delivered together.

    change of a transaction ──► waits for the others ──► all there ──► released, in the order of the actions
    later change of its key ──► waits behind it

A transaction holds all its keys until it is decided, so transactions that share keys come in the same order at each of
them, and nobody waits in a circle. Complete it is when all its changes came or, where one command made them all, when
everything of that command was read. Of a transaction over partitions that changes other tables too nobody can say that;
it is released when nothing more of it came for a second. What of it waits behind another transaction is still to come.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ...materializer.fold.outcomes import NEXT_COMMAND, Tx, place_of
from ...materializer.worker import Cancellable, Scheduler
from ..formats.table_view import Delivery
from .dead_letters import Key, key_of

_QUIET_S: Final = 1.0


class Read(NamedTuple):
    """A change that was read, and whether it is to be delivered."""

    delivery: Delivery
    wanted: bool


@dataclass(slots=True)
class _Group:
    """What came of one transaction so far; where one command made all of it, no number of it is above `end`."""

    of: int
    partition: int
    end: int | None
    members: list[Read] = field(default_factory=list)
    timer: Cancellable | None = None


class TransactionGrouping:
    """Keeps changes until what belongs together is there."""

    def __init__(self, scheduler: Scheduler, release: Callable[[list[Delivery]], None]) -> None:
        """`release` gets what may be delivered: changes of one transaction together, others as they come."""
        self._scheduler = scheduler
        self._release = release
        self._groups: dict[str, _Group] = {}
        self._behind: dict[Key, list[Read]] = {}  # what waits for the transaction that holds the key
        self._coming: Counter[str] = (
            Counter()
        )  # how many of each transaction wait there, or are yet to be looked at
        self._read: dict[int, int] = {}  # how far each partition is read
        self._work: deque[Read] = deque()

    def held(self) -> Iterator[Delivery]:
        """All that waits."""
        for group in self._groups.values():
            yield from (each.delivery for each in group.members)
        for behind in self._behind.values():
            yield from (each.delivery for each in behind)

    def partitions(self) -> set[int]:
        """Those that have to be read on for a transaction to be known as complete."""
        read = self._read
        return {
            group.partition
            for group in self._groups.values()
            if group.end is not None and group.end > read.get(group.partition, 0)
        }

    def add(self, reads: Iterable[Read]) -> None:
        """Some changes were read, those of one partition and table in order."""
        for read in reads:
            tx = read.delivery.change.tx
            if tx is not None and tx.of > 1:
                self._coming[tx.id] += 1
            self._work.append(read)
        self._go_on()

    def is_read(self, partition: int, number: int) -> None:
        """All changes of a partition up to `number` were added."""
        self._read[partition] = number
        for name in [name for name in self._groups if self._is_all_read(name)]:
            if name in self._groups and self._is_all_read(name):  # another may have let it go, or added to it
                self._let_go(name)
                self._go_on()

    def close(self) -> None:
        """Nothing more is released."""
        for group in self._groups.values():
            if group.timer is not None:
                group.timer.cancel()

    def _go_on(self) -> None:
        while self._work:
            read = self._work.popleft()
            key, tx = key_of(read.delivery), read.delivery.change.tx
            if key in self._behind:
                self._behind[key].append(read)
            elif tx is None or tx.of == 1:
                if read.wanted:
                    self._release([read.delivery])
            else:
                self._join(key, tx, read)

    def _join(self, key: Key, tx: Tx, read: Read) -> None:
        group = self._groups.get(tx.id)
        if group is None:
            group = self._groups[tx.id] = _Group(tx.of, read.delivery.partition, _end_of(read.delivery))
        self._behind[key] = []
        group.members.append(read)
        self._coming[tx.id] -= 1
        if group.timer is not None:
            group.timer.cancel()
        if len(group.members) == group.of or self._is_all_read(tx.id):
            self._let_go(tx.id)
        elif group.end is None:
            group.timer = self._scheduler.call_later(_QUIET_S, self._give_up, tx.id)

    def _is_all_read(self, name: str) -> bool:
        group = self._groups[name]
        return (
            group.end is not None
            and group.end <= self._read.get(group.partition, 0)
            and not self._coming[name]
        )

    def _give_up(self, name: str) -> None:
        """Nothing more came of a transaction over partitions. What waits for another one is still to come, though."""
        if self._coming[name]:
            self._groups[name].timer = self._scheduler.call_later(_QUIET_S, self._give_up, name)
        else:
            self._let_go(name)
            self._go_on()

    def _let_go(self, name: str) -> None:
        group = self._groups.pop(name)
        group.members.sort(key=_place)
        wanted = [each.delivery for each in group.members if each.wanted]
        if wanted:
            self._release(wanted)
        for each in group.members:
            behind = self._behind.pop(key_of(each.delivery))
            self._work.extendleft(reversed(behind))  # before all that came later
        if not self._coming[name]:
            del self._coming[name]


def _place(read: Read) -> int:
    tx = read.delivery.change.tx
    assert tx is not None, "a group has changes of transactions only"
    return tx.n


def _end_of(delivery: Delivery) -> int | None:
    """The highest number that the transaction can have, if one command made all of it."""
    change = delivery.change
    offset, index = place_of(change.sequence_number)
    tx = change.tx
    assert tx is not None, "the change is of a transaction"
    if tx.id not in (f"{offset}.{index}", f"{delivery.partition}:{offset}.{index}"):
        return None
    return change.sequence_number - change.sequence_number % NEXT_COMMAND + NEXT_COMMAND - 1
