"""Transactions as they were made: their changes come from several places, and are delivered together.

    change of a transaction ──► waits for the others ──► all there ──► released, in the order of the actions
    later change of its key ──► waits behind it

A transaction holds all its keys until it is decided, so transactions that share keys come in the same order at each of
them, and nobody waits in a circle. Complete it is when all its changes came or, where one command made them all, when
everything of that command was read. Of a transaction over partitions that changes other tables too nobody can say that;
it is released when nothing more of it came for a second.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ...materializer.fold.outcomes import NEXT_COMMAND, place_of
from ...materializer.worker import Cancellable, Scheduler
from ..formats.delivery import Delivery
from .letters import Key, key_of

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


class Joining:
    """Keeps changes until what belongs together is there."""

    def __init__(self, scheduler: Scheduler, release: Callable[[list[Delivery]], None]) -> None:
        """`release` gets what may be delivered: changes of one transaction together, others as they come."""
        self._scheduler = scheduler
        self._release = release
        self._groups: dict[str, _Group] = {}
        self._behind: dict[Key, list[Read]] = {}  # what waits for the transaction that holds the key

    def held(self) -> Iterator[Delivery]:
        """All that waits."""
        for group in self._groups.values():
            yield from (each.delivery for each in group.members)
        for behind in self._behind.values():
            yield from (each.delivery for each in behind)

    def partitions(self) -> set[int]:
        """Those that have to be read on for a transaction to be known as complete."""
        return {group.partition for group in self._groups.values() if group.end is not None}

    def add(self, reads: Iterable[Read]) -> None:
        """Some changes were read, those of one partition and table in order."""
        for read in reads:
            key, tx = key_of(read.delivery), read.delivery.change.tx
            if key in self._behind:
                self._behind[key].append(read)
            elif tx is None or tx.of == 1:
                if read.wanted:
                    self._release([read.delivery])
            else:
                self._join(key, read)

    def is_read(self, partition: int, number: int) -> None:
        """All changes of a partition up to `number` were added."""
        over = [
            name
            for name, group in self._groups.items()
            if group.end is not None and group.partition == partition and group.end <= number
        ]
        for name in over:
            self._let_go(name)

    def close(self) -> None:
        """Nothing more is released."""
        for group in self._groups.values():
            if group.timer is not None:
                group.timer.cancel()

    def _join(self, key: Key, read: Read) -> None:
        change = read.delivery.change
        tx = change.tx
        assert tx is not None, "the change is of a transaction"
        group = self._groups.get(tx.id)
        if group is None:
            group = self._groups[tx.id] = _Group(tx.of, read.delivery.partition, _end_of(read.delivery))
        self._behind[key] = []
        group.members.append(read)
        if group.timer is not None:
            group.timer.cancel()
        if len(group.members) == group.of:
            self._let_go(tx.id)
        elif group.end is None:
            group.timer = self._scheduler.call_later(_QUIET_S, self._let_go, tx.id)

    def _let_go(self, name: str) -> None:
        group = self._groups.pop(name)
        group.members.sort(key=_place)
        wanted = [each.delivery for each in group.members if each.wanted]
        if wanted:
            self._release(wanted)
        for each in group.members:
            self.add(self._behind.pop(key_of(each.delivery)))


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
