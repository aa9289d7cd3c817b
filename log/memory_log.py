"""A log in memory with the bytes and guarantees of a log on disk, for tests and the simulator.

Appends are encoded and reads decoded, so every command passes through its stored form. Several nodes can share one
log: each calls `connect` and has a loop of its own. With `manual` set the test controls each step: an append stays
pending until `commit` makes it durable, `fail` refuses it or `lose` drops its acknowledgement, and a follower receives
records when the test calls `Follower.hear`.
"""

from collections.abc import Callable, Iterator
from functools import partial

from ..model.errors import LogError, LogFullError
from ..model.lazy_dataclass import dataclass
from .codec import decode_entry, encode_entry
from .commands import LEVEL, Entry, Genesis, Record
from .log import (
    AppendCallback,
    Appended,
    Clock,
    Deliver,
    OnFailure,
    OnRecords,
    RawRecord,
    Stop,
    WholeHistory,
    genesis_entries,
)

PORTION_BYTES = 256 * 1024


@dataclass(slots=True)
class _Append:
    """A pending append."""

    partition: int
    origin: bytes
    body: bytes
    callback: AppendCallback
    deliver: Deliver

    def complete(self, result: Appended | LogError) -> None:
        self.deliver(lambda: self.callback(result))


class Follower:
    """A follower of one partition.

    Attributes:
        partition: The partition's id.
        next: The offset of the next record to deliver.
    """

    def __init__(
        self, log: "MemoryLog", partition: int, start: int, on_records: OnRecords, deliver: Deliver
    ) -> None:
        self.partition = partition
        self.next = start
        self._log = log
        self._on_records = on_records
        self._deliver = deliver
        self._stopped = False

    @property
    def behind(self) -> int:
        """The number of durable records that are not delivered yet."""
        return max(0, self._log.end(self.partition) - self.next)

    def hear(self, count: int | None = None) -> int:
        """Deliver the next `count` records (None: all) in portions of 256 KB, and return their number."""
        count = self.behind if count is None else min(count, self.behind)
        portion: list[RawRecord] = []
        size = 0
        for record in self._log.raw_records(self.partition, range(self.next, self.next + count)):
            size += len(record.body)
            if portion and size > PORTION_BYTES:
                self._deliver(partial(self._handle, portion))
                portion, size = [], len(record.body)
            portion.append(record)
        self.next += count
        if portion:
            self._deliver(partial(self._handle, portion))
        return count

    def stop(self) -> None:
        """Stop the deliveries, including portions in flight."""
        self._stopped = True
        self._log.followers.remove(self)

    def _handle(self, records: list[RawRecord]) -> None:
        if not self._stopped:
            self._on_records(records)


class MemoryLog(WholeHistory):
    """See the module.

    Attributes:
        followers: All followers, in the order of their `follow` calls.
    """

    def __init__(
        self,
        clock: Clock,
        deliver: Deliver = lambda callback: callback(),
        *,
        log_id: bytes = b"memory log      ",
        partitions: int = 1,
        limits: str = "modern",
        level: int = LEVEL,
        manual: bool = False,
    ) -> None:
        self.followers: list[Follower] = []
        self._clock = clock
        self._deliver = deliver
        self._manual = manual
        self._closed = False
        self._time = 0
        self._waiting: list[_Append] = []
        self._records = [
            [(self._now(), encode_entry(first))]
            for first in genesis_entries(log_id, partitions, limits=limits, level=level)
        ]

    def connect(self, deliver: Deliver) -> "MemoryConnection":
        """Return another node's view of the log, whose callbacks go through `deliver`."""
        return MemoryConnection(self, deliver)

    @property
    def waiting(self) -> int:
        """The number of pending appends."""
        return len(self._waiting)

    def append(self, partition: int, entry: Entry, callback: AppendCallback) -> None:
        """Append the entry: durable at once, or with `manual` at a later `commit`."""
        self.append_from(self._deliver, partition, entry, callback)

    def append_from(self, deliver: Deliver, partition: int, entry: Entry, callback: AppendCallback) -> None:
        """Append an entry and send its result through `deliver`."""
        assert 0 <= partition < len(self._records), "no such partition"
        if self._closed:
            deliver(lambda: callback(LogError("the log is closed")))
            return
        self._waiting.append(_Append(partition, entry.origin, encode_entry(entry), callback, deliver))
        if not self._manual:
            self.commit()

    def commit(self, count: int | None = None, *, index: int = 0) -> int:
        """Make `count` pending appends (None: all) durable, call their callbacks, and return their number.

        The oldest appends come first. With `index` younger ones, because appends of several nodes have no order.
        """
        count = len(self._waiting) if count is None else count
        committed, self._waiting[index : index + count] = self._waiting[index : index + count], []
        for append in committed:
            append.complete(self._write(append))
        if not self._manual:
            for follower in list(self.followers):
                follower.hear()
        return len(committed)

    def fail(self, error: LogError | None = None, *, written: bool = False, index: int = 0) -> None:
        """Refuse the pending append at `index`.

        With `written` its entry is in the log nevertheless, as AppendUnknownError allows.
        """
        append = self._waiting.pop(index)
        if written:
            self._write(append)
        append.complete(error or LogFullError("no space left for the log"))

    def lose(self, *, written: bool = True, index: int = 0) -> None:
        """Lose a pending append, or with `written` its acknowledgement.

        The append stays pending, because its owner repeats it. A later `commit` writes another copy.
        """
        if written:
            self._write(self._waiting[index])

    def stop_repeating(self, partition: int, origin: bytes) -> None:
        """Drop an origin's pending appends to a partition: their owner has found them in the log."""
        self._waiting = [
            each for each in self._waiting if (each.partition, each.origin) != (partition, origin)
        ]

    def follow(self, partition: int, start: int, on_records: OnRecords, on_failure: OnFailure) -> Stop:
        """Deliver every record from offset `start`: at once, or with `manual` by `Follower.hear`."""
        return self.follow_from(self._deliver, partition, start, on_records, on_failure)

    def follow_from(
        self,
        deliver: Deliver,
        partition: int,
        start: int,
        on_records: OnRecords,
        on_failure: OnFailure,  # noqa: ARG002  memory does not fail
    ) -> Stop:
        """Follow a partition and send its records through `deliver`."""
        follower = Follower(self, partition, start, on_records, deliver)
        self.followers.append(follower)
        if not self._manual:
            follower.hear()
        return follower.stop

    def ask_end(self, partition: int, callback: Callable[[int | LogError], None]) -> None:
        """Send the current end to `callback`."""
        self.ask_end_from(self._deliver, partition, callback)

    def ask_end_from(
        self, deliver: Deliver, partition: int, callback: Callable[[int | LogError], None]
    ) -> None:
        """Send the current end to `callback` through `deliver`."""
        end = self.end(partition)
        deliver(lambda: callback(end))

    def read(self, partition: int, start: int = 0) -> Iterator[Record]:
        return self._read(partition, range(start, self.end(partition)))

    def _read(self, partition: int, offsets: range) -> Iterator[Record]:
        for offset in offsets:
            time_ms, body = self._records[partition][offset]
            yield Record(partition, offset, time_ms, decode_entry(body))

    def raw_records(self, partition: int, offsets: range) -> list[RawRecord]:
        """Return the records at these offsets in the form that a follower receives."""
        return [RawRecord(partition, offset, *self._records[partition][offset]) for offset in offsets]

    def end(self, partition: int) -> int:
        return len(self._records[partition])

    def genesis(self, partition: int) -> Genesis:
        first = next(self.read(partition)).entry.commands[0]
        assert isinstance(first, Genesis)
        return first

    def close(self) -> None:
        """Make all pending appends durable."""
        self.commit()
        self._closed = True

    def _write(self, append: _Append) -> Appended:
        records = self._records[append.partition]
        appended = Appended(append.partition, len(records), self._now(), append.body)
        records.append((appended.time_ms, append.body))
        return appended

    def _now(self) -> int:
        self._time = max(self._time, self._clock())
        return self._time


class MemoryConnection(WholeHistory):
    """One node's view of a shared log. Closing it does not affect other nodes."""

    def __init__(self, log: MemoryLog, deliver: Deliver) -> None:
        self._log = log
        self._deliver = deliver
        self._closed = False
        self.read = log.read
        self.end = log.end
        self.genesis = log.genesis

    def append(self, partition: int, entry: Entry, callback: AppendCallback) -> None:
        """Append an entry, after ending the repetition of this origin's earlier append."""
        if self._closed:
            self._deliver(lambda: callback(LogError("the log is closed")))
            return
        self._log.stop_repeating(partition, entry.origin)
        self._log.append_from(self._deliver, partition, entry, callback)

    def follow(self, partition: int, start: int, on_records: OnRecords, on_failure: OnFailure) -> Stop:
        return self._log.follow_from(self._deliver, partition, start, on_records, on_failure)

    def ask_end(self, partition: int, callback: Callable[[int | LogError], None]) -> None:
        self._log.ask_end_from(self._deliver, partition, callback)

    def close(self) -> None:
        """Refuse further appends of this node."""
        self._closed = True
