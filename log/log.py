"""What every log promises.

    append ──► durable ──► done(Appended)         in order, exactly once, on the owner's loop
                      └──► done(LogError)         LogFullError: not written; AppendUnknownError: nobody knows

A log is P partitions; a partition is a dense sequence of records from offset 0, and begins with Genesis. The fold
sees a record only when it is durable. Implementations: memory.py (tests and the simulator), local.py (one machine's
disk). All pass tests/contracts/log_contract.py.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from ..model.errors import LogError
from .commands import Entry, Genesis, Record

HASH: Final = "blake2b-64"
"""How a partition key finds its slot (model/keys.py)."""
LEVEL: Final = 1
"""The meaning of commands that a new log begins with."""


@dataclass(frozen=True, slots=True)
class Appended:
    """The entry is durable, at this place and with this log time in milliseconds."""

    partition: int
    offset: int
    time_ms: int


Done: TypeAlias = Callable[[Appended | LogError], None]
Clock: TypeAlias = Callable[[], int]
"""Milliseconds since 1970. It may stand still or go back; log time does not."""
Deliver: TypeAlias = Callable[[Callable[[], None]], None]
"""Puts a callback on the owner's loop: `loop.call_soon_threadsafe` in a server, a direct call in a test."""


class Log(Protocol):
    """An ordered, append-only, durable sequence of entries in each of its partitions.

    One owner, one thread: only what `deliver` is given comes from elsewhere.
    """

    def append(self, partition: int, entry: Entry, done: Done) -> None:
        """Write `entry` after everything appended before it; never blocks, raises nothing about the disk."""
        ...

    def read(self, partition: int, start: int = 0) -> Iterator[Record]:
        """The durable records from offset `start` to the end as it is at the call.

        Raises:
            CorruptionError: What is there is not what was written. Records before it have been yielded.
        """
        ...

    def end(self, partition: int) -> int:
        """The offset of the next record: how many records are durable."""
        ...

    def genesis(self, partition: int) -> Genesis:
        """The first command of the partition."""
        ...

    def truncate_before(self, partition: int, offset: int) -> None:
        """Forget the records before `offset`.

        Raises:
            LogError: This log keeps its whole history.
        """
        ...

    def close(self) -> None:
        """Make durable what was appended and tell so; then nothing more can be appended."""
        ...


def genesis_entry(
    log_id: bytes, partition: int, partitions: int, *, limits: str = "modern", level: int = LEVEL
) -> Entry:
    """The entry at offset 0; its origin is the log itself."""
    genesis = Genesis(log_id, partition, partitions, base=0, level=level, hash=HASH, limits=limits)
    return Entry(origin=log_id, number=0, commands=[genesis])
