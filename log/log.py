"""The interface of a log.

    append ──► durable ──► callback(Appended)     in order, exactly once, on the owner's loop
                      └──► callback(LogError)     LogFullError: not written; AppendUnknownError: unknown

A log has P partitions. A partition is a dense sequence of records from offset 0 and begins with Genesis; a trim may
have replaced its first records by the state after them. The fold
sees a record only when it is durable. Implementations: memory_log.py (tests and the simulator), local/ (one machine's
disk), kafka/ (many machines). All pass tests/unit/contracts/log_contract.py.

Other processes append to a `SharedLog` too. A reader follows it to receive their records, and to find an own entry
whose acknowledgement was lost. It also passes tests/unit/contracts/shared_log_contract.py.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

from ..model.errors import LogError
from ..model.lazy_dataclass import dataclass
from .codec import CURRENT, decode_entry
from .commands import LEVEL, Entry, Genesis, Record

if TYPE_CHECKING:
    from .local.filesystem import File

HASH: Final = "blake2b-64"
"""The hash function that maps a partition key to its slot (model/keys.py)."""


@dataclass(frozen=True, slots=True)
class Appended:
    """Result of an append: the entry is durable at this offset, with this log time in milliseconds.

    A shared log sets `body` to the bytes that it wrote, and `offset` to -1 if the offset is unknown.
    """

    partition: int
    offset: int
    time_ms: int
    body: bytes = field(default=b"", compare=False, repr=False)


class RawRecord(NamedTuple):
    """A record of a shared log, not decoded yet: the process that wrote it does not need to decode it."""

    partition: int
    offset: int
    time: int
    body: bytes
    fingerprint: bytes = CURRENT

    def record(self) -> Record:
        """Decode the record.

        Raises:
            NewerVersionError: A later release wrote the record.
            ValueError: The body is not an entry.
        """
        return Record(self.partition, self.offset, self.time, decode_entry(self.body, self.fingerprint))


AppendCallback: TypeAlias = Callable[[Appended | LogError], None]
OnRecords: TypeAlias = Callable[[Sequence[RawRecord]], None]
OnFailure: TypeAlias = Callable[[Exception], None]
Stop: TypeAlias = Callable[[], None]
Clock: TypeAlias = Callable[[], int]
"""Milliseconds since 1970. The clock may stop or go back; log time never goes back."""
Deliver: TypeAlias = Callable[[Callable[[], None]], None]
"""Schedules a callback on the owner's loop: `loop.call_soon_threadsafe` in a server, a direct call in a test."""


class ReadableLog(Protocol):
    """The part of a log that a fold needs: that of its writer, and of a reader beside the writer."""

    def read(self, partition: int, start: int = 0) -> Iterator[Record]:
        """Read the durable records from offset `start` to the end at the time of the call.

        Raises:
            CorruptionError: A record is damaged. All records before it have been yielded.
            HorizonError: A trim removed the record at `start`.
        """
        ...

    def begin(self, partition: int) -> int:
        """Return the offset of the first record: 0, or the history horizon of a trimmed log."""
        ...

    def bases(self, partition: int) -> Iterator[tuple[str, "File"]]:
        """Yield each copy of the state before the first record of a trimmed log: its name and a snapshot.

        A file is closed when the next one is requested. A log with its whole history yields none.
        """
        ...

    def end(self, partition: int) -> int:
        """Return the offset of the next record, which is the number of durable records."""
        ...

    def genesis(self, partition: int) -> Genesis:
        """Return the first command of the partition."""
        ...


class HashedLog(ReadableLog, Protocol):
    """A log whose identity and history can be proved, as snapshots need it."""

    @property
    def log_id(self) -> bytes:
        """The random id of the log."""
        ...

    def hash_of(self, partition: int, offset: int) -> bytes:
        """Return a hash that identifies the history up to and including a record."""
        ...


class Log(ReadableLog, Protocol):
    """An ordered, append-only, durable sequence of entries in each of its partitions.

    One owner calls a log from one thread. Callbacks from other threads go through `deliver`.
    """

    @property
    def horizon_ms(self) -> int | None:
        """The log time of the history horizon of a trimmed log; None if the log has its whole history."""
        ...

    def append(self, partition: int, entry: Entry, callback: AppendCallback) -> None:
        """Write `entry` after all earlier appends. The call never blocks; disk errors go to `callback`."""
        ...

    def close(self) -> None:
        """Make all appended entries durable, call their callbacks, and refuse further appends."""
        ...


class WholeHistory:
    """A log that is never trimmed."""

    def begin(self, partition: int) -> int:  # noqa: ARG002
        """Return 0."""
        return 0

    @property
    def horizon_ms(self) -> None:
        """None."""
        return

    def bases(self, partition: int) -> Iterator[tuple[str, "File"]]:  # noqa: ARG002
        """Yield nothing."""
        return iter(())


@runtime_checkable
class SharedLog(Log, Protocol):
    """A log to which other processes append too.

    `append` repeats the *same* entry until one copy is known to be in the log. The log may therefore hold an entry
    twice; the fold skips the second copy. The owner may find a copy by `follow` and send its next entry: an append of
    the same origin to the same partition ends the repetition of the one before, whose callback is then not called.
    A callback receives the offset of one copy, which is not always the first.
    """

    def follow(self, partition: int, start: int, on_records: OnRecords, on_failure: OnFailure) -> Stop:
        """Receive every durable record from offset `start`, in order, on the owner's loop.

        Records arrive in portions of bounded size, each after `on_records` returned for the one before. A portion
        therefore blocks the loop only while it is folded, and undelivered records take bounded memory. `Stop`
        ends the deliveries. `on_failure` is called at most once, when a record is missing or damaged, and ends them
        too.
        """
        ...

    def ask_end(self, partition: int, callback: Callable[[int | LogError], None]) -> None:
        """Call `callback` with the end of the log at some moment after this call.

        Every entry that was acknowledged to any process before the call has a lower offset.
        """
        ...


def genesis_entry(
    log_id: bytes, partition: int, partitions: int, *, limits: str = "modern", level: int = LEVEL
) -> Entry:
    """Return the entry at offset 0, whose origin is the log itself."""
    genesis = Genesis(log_id, partition, partitions, base=0, level=level, hash=HASH, limits=limits)
    return Entry(origin=log_id, entry_number=0, commands=[genesis])


def genesis_entries(
    log_id: bytes, partitions: int, *, limits: str = "modern", level: int = LEVEL
) -> list[Entry]:
    """Return the first entry of each partition of a new log."""
    return [
        genesis_entry(log_id, partition, partitions, limits=limits, level=level)
        for partition in range(partitions)
    ]
