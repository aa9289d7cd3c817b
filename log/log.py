"""What every log promises.

    append ──► durable ──► done(Appended)         in order, exactly once, on the owner's loop
                      └──► done(LogError)         LogFullError: not written; AppendUnknownError: nobody knows

A log is P partitions; a partition is a dense sequence of records from offset 0, and begins with Genesis. The fold
sees a record only when it is durable. Implementations: memory.py (tests and the simulator), local/ (one machine's
disk), kafka/ (many machines). All pass tests/unit/contracts/log_contract.py.

A `SharedLog` is one that other processes append to as well. What they wrote is heard by following it, and so is what
became of an append of one's own whose acknowledgement was lost. It passes
tests/unit/contracts/shared_log_contract.py too.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

from ..model.errors import LogError
from .codec import CURRENT, decode_entry
from .commands import Entry, Genesis, Record

HASH: Final = "blake2b-64"
"""How a partition key finds its slot (model/keys.py)."""
LEVEL: Final = 4
"""The meaning of commands that a new log begins with."""


@dataclass(frozen=True, slots=True)
class Appended:
    """The entry is durable, at this place and with this log time in milliseconds.

    A shared log says as `body` which bytes it wrote, and as offset -1 that it does not know where.
    """

    partition: int
    offset: int
    time_ms: int
    body: bytes = field(default=b"", compare=False, repr=False)


class RawRecord(NamedTuple):
    """A record as it stands in a shared log. It is decoded when somebody asks: who wrote it need not."""

    partition: int
    offset: int
    time: int
    body: bytes
    fingerprint: bytes = CURRENT

    def record(self) -> Record:
        """The record.

        Raises:
            NewerVersionError: A later release wrote it.
            ValueError: It is no entry.
        """
        return Record(self.partition, self.offset, self.time, decode_entry(self.body, self.fingerprint))


Done: TypeAlias = Callable[[Appended | LogError], None]
OnRecords: TypeAlias = Callable[[Sequence[RawRecord]], None]
OnFailure: TypeAlias = Callable[[Exception], None]
Stop: TypeAlias = Callable[[], None]
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


@runtime_checkable
class SharedLog(Log, Protocol):
    """A log that other processes append to as well.

    Here `append` never gives up for doubt: it repeats the *same* entry until one copy is known to be in the log, so a
    record may stand there twice; the fold skips the second. Its owner may learn from `follow` that a copy is there and
    go on: an append of the same origin to the same partition says that the one before is settled, and ends its
    repetition; its `done` is then not called. What `done` names is one copy, not always the first.
    """

    def follow(self, partition: int, start: int, on_records: OnRecords, on_failure: OnFailure) -> Stop:
        """Hear every durable record from offset `start` on, in order, on the owner's loop.

        They come as many as make about a megabyte, and the next when those were taken: whoever is called blocks the
        loop no longer than folding them takes, and what waits to be heard takes bounded memory. `Stop` ends it: then
        nothing more is heard. `on_failure` is called at most once, and ends it too: a record is gone or is damaged.
        """
        ...

    def ask_end(self, partition: int, done: Callable[[int | LogError], None]) -> None:
        """Tell the end of the log as it is at some moment after this call.

        Whatever anybody was told to be durable before the call stands before that offset.
        """
        ...


def genesis_entry(
    log_id: bytes, partition: int, partitions: int, *, limits: str = "modern", level: int = LEVEL
) -> Entry:
    """The entry at offset 0; its origin is the log itself."""
    genesis = Genesis(log_id, partition, partitions, base=0, level=level, hash=HASH, limits=limits)
    return Entry(origin=log_id, entry_number=0, commands=[genesis])


def genesis_entries(
    log_id: bytes, partitions: int, *, limits: str = "modern", level: int = LEVEL
) -> list[Entry]:
    """What the partitions of a new log begin with."""
    return [
        genesis_entry(log_id, partition, partitions, limits=limits, level=level)
        for partition in range(partitions)
    ]
