"""A log in memory: the same bytes and the same promises as on a disk, and the caller says when.

It encodes on append and decodes on read, so that whatever passes through it would have survived a restart. Several
nodes may share one, each by a `connect` of its own, with a loop of its own. With `manual` set an append waits until
`commit` makes it durable, or `fail` says that it was not, or `lose` loses its acknowledgement; and whoever follows
hears of a record when told to `hear`. Tests and the simulator decide which, and when.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from ..model.errors import LogError, LogFullError
from .codec import decode_entry, encode_entry
from .commands import Entry, Genesis, Record
from .log import LEVEL, Appended, Clock, Deliver, Done, OnFailure, OnRecords, RawRecord, Stop, genesis_entries

PORTION_BYTES = 256 * 1024


@dataclass(slots=True)
class _Append:
    """An entry that is to be written, and whom to tell."""

    partition: int
    origin: bytes
    body: bytes
    done: Done
    deliver: Deliver

    def answer(self, result: Appended | LogError) -> None:
        self.deliver(lambda: self.done(result))


class Follower:
    """One who follows a partition.

    Attributes:
        partition: Which.
        next: The offset of the record that it has not been told of yet.
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
        """How many durable records it has not been told of."""
        return max(0, self._log.end(self.partition) - self.next)

    def hear(self, count: int | None = None) -> int:
        """Tell it of the next `count` records (all, if None), a megabyte at a time; how many it were."""
        count = self.behind if count is None else min(count, self.behind)
        portion: list[RawRecord] = []
        size = 0
        for heard in self._log.heard(self.partition, range(self.next, self.next + count)):
            size += len(heard.body)
            if portion and size > PORTION_BYTES:
                self._deliver(partial(self._tell, portion))
                portion, size = [], len(heard.body)
            portion.append(heard)
        self.next += count
        if portion:
            self._deliver(partial(self._tell, portion))
        return count

    def stop(self) -> None:
        """Tell it of nothing more, not even of what is on its way."""
        self._stopped = True
        self._log.followers.remove(self)

    def _tell(self, records: list[RawRecord]) -> None:
        if not self._stopped:
            self._on_records(records)


class MemoryLog:
    """See the module.

    Attributes:
        followers: All that follow, in the order in which they began.
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

    def connect(self, deliver: Deliver) -> "Connection":
        """The log as another node has it, which is told everything through `deliver`."""
        return Connection(self, deliver)

    @property
    def waiting(self) -> int:
        """How many appends are not settled yet."""
        return len(self._waiting)

    def append(self, partition: int, entry: Entry, done: Done) -> None:
        """Keep the entry; durable at once, or with `manual` at a later `commit`."""
        self.append_from(self._deliver, partition, entry, done)

    def append_from(self, deliver: Deliver, partition: int, entry: Entry, done: Done) -> None:
        """As `append`, and `deliver` is told."""
        assert 0 <= partition < len(self._records), "no such partition"
        if self._closed:
            deliver(lambda: done(LogError("the log is closed")))
            return
        self._waiting.append(_Append(partition, entry.origin, encode_entry(entry), done, deliver))
        if not self._manual:
            self.commit()

    def commit(self, count: int | None = None, *, place: int = 0) -> int:
        """Make `count` waiting appends durable (all, if None) and tell their owners; how many it were.

        They are the oldest; or, beginning at `place`, younger ones, for appends of several nodes come as they like.
        """
        count = len(self._waiting) if count is None else count
        taken, self._waiting[place : place + count] = self._waiting[place : place + count], []
        for append in taken:
            append.answer(self._write(append))
        if not self._manual:
            for follower in list(self.followers):
                follower.hear()
        return len(taken)

    def fail(self, error: LogError | None = None, *, written: bool = False, place: int = 0) -> None:
        """Refuse a waiting append, the oldest or the one at `place`.

        With `written` it is in the log all the same, as AppendUnknownError allows.
        """
        append = self._waiting.pop(place)
        if written:
            self._write(append)
        append.answer(error or LogFullError("no space left for the log"))

    def lose(self, *, written: bool = True, place: int = 0) -> None:
        """Lose a waiting append on its way there, or with `written` its acknowledgement on the way back.

        It is repeated, so it waits on; when it is committed there is a second copy.
        """
        if written:
            self._write(self._waiting[place])

    def settled(self, partition: int, origin: bytes) -> None:
        """End the repetition of an origin's appends to a partition: their owner has found them in the log."""
        self._waiting = [
            each for each in self._waiting if (each.partition, each.origin) != (partition, origin)
        ]

    def follow(self, partition: int, start: int, on_records: OnRecords, on_failure: OnFailure) -> Stop:
        """Hear every record from `start` on; at once, or with `manual` when its `Follower` is told to."""
        return self.follow_from(self._deliver, partition, start, on_records, on_failure)

    def follow_from(
        self,
        deliver: Deliver,
        partition: int,
        start: int,
        on_records: OnRecords,
        on_failure: OnFailure,  # noqa: ARG002  memory does not fail
    ) -> Stop:
        """As `follow`, and `deliver` is told."""
        follower = Follower(self, partition, start, on_records, deliver)
        self.followers.append(follower)
        if not self._manual:
            follower.hear()
        return follower.stop

    def ask_end(self, partition: int, done: Callable[[int | LogError], None]) -> None:
        """Tell the end as it is now."""
        self.ask_end_from(self._deliver, partition, done)

    def ask_end_from(self, deliver: Deliver, partition: int, done: Callable[[int | LogError], None]) -> None:
        """As `ask_end`, and `deliver` is told."""
        end = self.end(partition)
        deliver(lambda: done(end))

    def read(self, partition: int, start: int = 0) -> Iterator[Record]:
        """The durable records from `start` on."""
        return self._read(partition, range(start, self.end(partition)))

    def _read(self, partition: int, offsets: range) -> Iterator[Record]:
        for offset in offsets:
            time_ms, body = self._records[partition][offset]
            yield Record(partition, offset, time_ms, decode_entry(body))

    def heard(self, partition: int, offsets: range) -> list[RawRecord]:
        """The records at these places as a follower hears them."""
        return [RawRecord(partition, offset, *self._records[partition][offset]) for offset in offsets]

    def end(self, partition: int) -> int:
        """The offset of the next record."""
        return len(self._records[partition])

    def genesis(self, partition: int) -> Genesis:
        """The partition's first command."""
        first = next(self.read(partition)).entry.commands[0]
        assert isinstance(first, Genesis)
        return first

    def truncate_before(self, partition: int, offset: int) -> None:
        """Refused: history is kept."""
        raise LogError(f"the log keeps its whole history, what precedes {partition}:{offset} too")

    def close(self) -> None:
        """Make durable what waits."""
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


class Connection:
    """A shared log as one of its nodes has it. Closing it closes nothing for the others."""

    def __init__(self, log: MemoryLog, deliver: Deliver) -> None:
        self._log = log
        self._deliver = deliver
        self._closed = False
        self.read = log.read
        self.end = log.end
        self.genesis = log.genesis
        self.truncate_before = log.truncate_before

    def append(self, partition: int, entry: Entry, done: Done) -> None:
        """Append, after ending the repetition of what this origin appended before."""
        if self._closed:
            self._deliver(lambda: done(LogError("the log is closed")))
            return
        self._log.settled(partition, entry.origin)
        self._log.append_from(self._deliver, partition, entry, done)

    def follow(self, partition: int, start: int, on_records: OnRecords, on_failure: OnFailure) -> Stop:
        """See SharedLog."""
        return self._log.follow_from(self._deliver, partition, start, on_records, on_failure)

    def ask_end(self, partition: int, done: Callable[[int | LogError], None]) -> None:
        """See SharedLog."""
        self._log.ask_end_from(self._deliver, partition, done)

    def close(self) -> None:
        """Append nothing more from here."""
        self._closed = True
