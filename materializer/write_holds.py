"""Keeps back new writes of some keys between the two reads of an isolated read of several partitions.

    first read ──► hold: new writes of its keys are kept back ──► second read, or a deadline ──► they are submitted

The second read finds out whether a key has changed, so correctness depends on no hold: it only makes a change unlikely.
A hold is refused if a write of one of its keys is kept back already, so each write waits for one generation of holds.
Messages of other partitions are never kept back: they are ordered.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ..log.commands import Command, Delete, Put, Transact, Update
from ..model.lazy_dataclass import dataclass
from .fold.storage import EncodedKey
from .fold.transactions.state import key_of
from .partition import OnOutcome
from .worker import Cancellable, Scheduler

HOLD_SECONDS: Final = 0.1
"""The longest delay of a write: several times the duration of two reads of a partition on another node."""


@dataclass(slots=True, eq=False)
class Hold:
    """The keys of one first read, and the offset that it has read."""

    keys: Sequence[EncodedKey]
    offset: int | None = None
    timer: Cancellable | None = None


class _KeptBack(NamedTuple):
    keys: Sequence[EncodedKey]
    command: Command
    size: int
    done: OnOutcome


class WriteHolds:
    """The holds of one partition.

    Args:
        submit: Submits a command to the partition's worker.
        seconds: The deadline of a hold.
    """

    def __init__(
        self,
        submit: Callable[[Command, int, OnOutcome], None],
        scheduler: Scheduler,
        seconds: float = HOLD_SECONDS,
    ) -> None:
        self._submit = submit
        self._scheduler = scheduler
        self._seconds = seconds
        self._open: list[Hold] = []
        self._held: dict[EncodedKey, int] = {}  # the number of open holds of each key
        self._kept_back: list[_KeptBack] = []

    def submit(self, command: Command, size: int, done: OnOutcome) -> None:
        """Submit a command, now or when no hold has its keys."""
        if self._held:
            keys = _written_keys(command)
            if not self._held.keys().isdisjoint(keys):
                self._kept_back.append(_KeptBack(keys, command, size, done))
                return
        self._submit(command, size, done)

    def begin(self, keys: Sequence[EncodedKey]) -> Hold:
        """Keep back new writes of these keys, unless one is kept back already."""
        hold = Hold(keys)
        if all(set(keys).isdisjoint(each.keys) for each in self._kept_back):
            self._open.append(hold)
            for key in keys:
                self._held[key] = self._held.get(key, 0) + 1
            hold.timer = self._scheduler.call_later(self._seconds, self.end, hold)
        return hold

    def end_of(self, keys: Sequence[EncodedKey], offset: int) -> None:
        """End the hold of a first read of these keys at an offset, if it is open."""
        for hold in self._open:
            if hold.offset == offset and hold.keys == keys:
                self.end(hold)
                return

    def end(self, hold: Hold) -> None:
        """Submit the writes that only this hold keeps back. A second call does nothing."""
        if hold not in self._open:
            return
        self._open.remove(hold)
        if hold.timer is not None:
            hold.timer.cancel()
        for key in hold.keys:
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key]
        kept_back, self._kept_back = self._kept_back, []
        for each in kept_back:
            if self._held.keys().isdisjoint(each.keys):
                self._submit(each.command, each.size, each.done)
            else:
                self._kept_back.append(each)


def _written_keys(command: Command) -> list[EncodedKey]:
    """Return the keys that a client's command writes or checks."""
    if isinstance(command, Transact):
        return [key_of(action) for action in command.actions]
    return [key_of(command)] if isinstance(command, Put | Update | Delete) else []
