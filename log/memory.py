"""A log in memory: the same bytes and the same promises as on a disk, and the caller says when.

It encodes on append and decodes on read, so that whatever passes through it would have survived a restart. With
`manual` set an append waits until `commit` makes it durable, or `fail` says that it was not: tests and the
simulator decide which, and when.
"""

from collections import deque
from collections.abc import Callable, Iterator

from ..model.errors import LogError, LogFullError
from .codec import decode_entry, encode_entry
from .commands import Entry, Genesis, Record
from .log import LEVEL, Appended, Clock, Deliver, Done, genesis_entry


class MemoryLog:
    """See the module."""

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
        self._clock = clock
        self._deliver = deliver
        self._manual = manual
        self._closed = False
        self._time = 0
        self._waiting: deque[tuple[int, bytes, int, Done]] = deque()
        self._records: list[list[tuple[int, bytes]]] = [[] for _ in range(partitions)]
        for partition, records in enumerate(self._records):
            first = genesis_entry(log_id, partition, partitions, limits=limits, level=level)
            records.append((self._now(), encode_entry(first)))

    @property
    def waiting(self) -> int:
        """How many appends are not durable yet."""
        return len(self._waiting)

    def append(self, partition: int, entry: Entry, done: Done) -> None:
        """Keep the entry; durable at once, or with `manual` at a later `commit`."""
        assert 0 <= partition < len(self._records), "no such partition"
        if self._closed:
            self._deliver(lambda: done(LogError("the log is closed")))
            return
        self._waiting.append((partition, encode_entry(entry), self._now(), done))
        if not self._manual:
            self.commit()

    def commit(self, count: int | None = None) -> int:
        """Make the oldest `count` waiting appends durable (all, if None) and tell their owners; how many it were."""
        count = len(self._waiting) if count is None else min(count, len(self._waiting))
        for _ in range(count):
            partition, body, time_ms, done = self._waiting.popleft()
            records = self._records[partition]
            appended = Appended(partition, len(records), time_ms)
            records.append((time_ms, body))
            self._deliver(_call(done, appended))
        return count

    def fail(self, error: LogError | None = None, *, written: bool = False) -> None:
        """Refuse the oldest waiting append.

        With `written` it is in the log all the same, as AppendUnknownError allows.
        """
        partition, body, time_ms, done = self._waiting.popleft()
        if written:
            self._records[partition].append((time_ms, body))
        self._deliver(_call(done, error or LogFullError("no space left for the log")))

    def read(self, partition: int, start: int = 0) -> Iterator[Record]:
        """The durable records from `start` on."""
        return self._read(partition, range(start, self.end(partition)))

    def _read(self, partition: int, offsets: range) -> Iterator[Record]:
        for offset in offsets:
            time_ms, body = self._records[partition][offset]
            yield Record(partition, offset, time_ms, decode_entry(body))

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

    def _now(self) -> int:
        self._time = max(self._time, self._clock())
        return self._time


def _call(done: Done, result: Appended | LogError) -> Callable[[], None]:
    return lambda: done(result)
